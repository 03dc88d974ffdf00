//! Groups against DataFusion's `GroupValues` and `GroupsAccumulator`, bit by bit: values, NULLs and order. (But for
//! the sign and payload of a NaN that a sum makes: no processor promises these.)

use arrow::array::{
    BooleanArray, Decimal128Array, Float32Array, Float64Array, Int64Array, StringArray,
    TimestampMillisecondArray,
};
use arrow::datatypes::{Field, Float64Type, SchemaRef, TimeUnit};
use datafusion_expr::{AggregateUDF, EmitTo, GroupsAccumulator};
use datafusion_functions_aggregate::average::avg_udaf;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::median::median_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{col, lit};
use datafusion_physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion_physical_plan::aggregates::order::GroupOrdering;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn schema() -> SchemaRef {
    let fields = [
        ("k", DataType::Int64),
        ("s", DataType::Utf8),
        ("f", DataType::Float64),
        ("b", DataType::Boolean),
        ("v", DataType::Int64),
        ("x", DataType::Float64),
        ("d", DataType::Decimal128(10, 2)),
        ("y", DataType::Float32),
        ("t", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))),
        ("c", DataType::Decimal128(4, 0)),
    ];
    Arc::new(Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec()))
}

/// Sets of key columns, among them one that only DataFusion keeps.
const KEYS: [&[usize]; 9] = [&[], &[0], &[1], &[2], &[3], &[8], &[0, 1], &[2, 3, 1], &[9, 0]];

fn calls(is_filtered: bool) -> Vec<AggregateCall> {
    let call = |udaf: Arc<AggregateUDF>, argument: &str| {
        let argument = if argument == "1" { lit(1i64) } else { col(argument, &schema()).unwrap() };
        let builder = AggregateExprBuilder::new(udaf, vec![argument]).schema(schema()).alias("a");
        let filter = is_filtered.then(|| col("b", &schema()).unwrap());
        AggregateCall { expr: Arc::new(builder.build().unwrap()), filter }
    };
    let mut calls = vec![call(count_udaf(), "1"), call(count_udaf(), "s"), call(avg_udaf(), "x")];
    calls.extend(["v", "x", "d"].map(|column| call(sum_udaf(), column)));
    calls.extend([var_pop_udaf(), var_samp_udaf(), stddev_pop_udaf(), stddev_udaf()].map(|of| call(of, "x")));
    calls.extend(["v", "x", "d", "y", "t"].map(|column| call(min_udaf(), column)));
    calls.extend(["v", "x", "d", "y", "t"].map(|column| call(max_udaf(), column)));
    calls
}

#[derive(Clone, Debug)]
struct Row {
    key: Option<i64>,
    key_float: Option<f64>,
    flag: Option<bool>,
    number: Option<i64>,
    float: Option<f64>,
}

fn any_row() -> impl Strategy<Value = Row> {
    let floats = vec![0.0, -0.0, 1.5, -2.25, 1e300, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let numbers = vec![0, 1, -7, 100, i64::MAX, i64::MIN];
    // Many keys, so that few become many; and few of them.
    let key = prop_oneof![0i64..4, 0i64..60];
    (
        proptest::option::weighted(0.9, key),
        proptest::option::weighted(0.9, select(floats.clone())),
        proptest::option::weighted(0.8, any::<bool>()),
        proptest::option::weighted(0.8, select(numbers)),
        proptest::option::weighted(0.8, select(floats)),
    )
        .prop_map(|(key, key_float, flag, number, float)| Row { key, key_float, flag, number, float })
}

fn batch(rows: &[Row]) -> RecordBatch {
    let decimal = |precision, scale| {
        let values = rows.iter().map(|r| r.number.map(|n| i128::from(n % 10_000)));
        values.collect::<Decimal128Array>().with_precision_and_scale(precision, scale).unwrap()
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|r| r.key).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|r| r.key.map(|k| "é".repeat(k as usize % 40))).collect::<StringArray>()),
        Arc::new(rows.iter().map(|r| r.key_float).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|r| r.flag).collect::<BooleanArray>()),
        Arc::new(rows.iter().map(|r| r.number).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|r| r.float).collect::<Float64Array>()),
        Arc::new(decimal(10, 2)),
        Arc::new(rows.iter().map(|r| r.float.map(|f| f as f32)).collect::<Float32Array>()),
        Arc::new(rows.iter().map(|r| r.number).collect::<TimestampMillisecondArray>().with_timezone("UTC")),
        Arc::new(decimal(4, 0)),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// DataFusion's own.
struct Reference {
    keys: Option<Box<dyn GroupValues>>,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    groups: Vec<usize>,
    len: usize,
}

impl Reference {
    fn new(keys: &[usize], calls: &[AggregateCall]) -> Reference {
        let key_schema = Arc::new(schema().project(keys).unwrap());
        let keys = (!keys.is_empty()).then(|| new_group_values(key_schema, &GroupOrdering::None).unwrap());
        let accumulators = calls.iter().map(|call| call.expr.create_groups_accumulator().unwrap());
        Reference { keys, accumulators: accumulators.collect(), groups: Vec::new(), len: 0 }
    }

    fn intern(&mut self, keys: &[ArrayRef], rows: usize) {
        self.groups.clear();
        self.len = match &mut self.keys {
            None => {
                self.groups.resize(rows, 0);
                1
            }
            Some(values) => {
                values.intern(keys, &mut self.groups).unwrap();
                values.len()
            }
        };
    }

    fn update(&mut self, inputs: &Inputs) {
        let first = inputs.keys.first().or(inputs.arguments(0).first()).unwrap();
        self.intern(&inputs.keys, first.len());
        for (call, accumulator) in self.accumulators.iter_mut().enumerate() {
            let (arguments, filter) = (inputs.arguments(call), inputs.filter(call));
            accumulator.update_batch(arguments, &self.groups, filter, self.len).unwrap();
        }
    }

    fn merge(&mut self, other: Reference) {
        let (rows, (keys, states)) = (other.len, other.state());
        self.intern(&keys, rows);
        for (accumulator, states) in self.accumulators.iter_mut().zip(states) {
            accumulator.merge_batch(&states, &self.groups, self.len).unwrap();
        }
    }

    fn keys(&mut self) -> Vec<ArrayRef> {
        self.keys.as_mut().map_or(Vec::new(), |keys| keys.emit(EmitTo::All).unwrap())
    }

    fn state(mut self) -> (Vec<ArrayRef>, Vec<Vec<ArrayRef>>) {
        (self.keys(), self.accumulators.iter_mut().map(|a| a.state(EmitTo::All).unwrap()).collect())
    }

    fn evaluate(mut self) -> Vec<ArrayRef> {
        let mut columns = self.keys();
        columns.extend(self.accumulators.iter_mut().map(|a| a.evaluate(EmitTo::All).unwrap()));
        columns
    }
}

fn one_nan(array: ArrayRef, is_computed: bool) -> ArrayRef {
    let Some(floats) = array.as_primitive_opt::<Float64Type>().filter(|_| is_computed) else { return array };
    Arc::new(floats.unary::<_, Float64Type>(|value| if value.is_nan() { f64::NAN } else { value }))
}

#[test]
fn what_sql_sends_most_has_accumulators_of_its_own() {
    let aggregation = Aggregation::new(&schema(), &[0], &calls(true)).unwrap();
    assert!(aggregation.own.iter().all(Option::is_some));
    assert!(aggregation.plain(&batch(&[])).is_some());
    let median = AggregateExprBuilder::new(median_udaf(), vec![col("x", &schema()).unwrap()]);
    let expr = Arc::new(median.schema(schema()).alias("a").build().unwrap());
    let other = [AggregateCall { expr, filter: None }];
    assert!(Aggregation::new(&schema(), &[0], &other).unwrap().plain(&batch(&[])).is_none());
}

proptest! {
    #[test]
    fn groups_are_datafusions(
        rows in proptest::collection::vec(any_row(), 1..150), keys in select(KEYS.to_vec()),
        lengths in proptest::collection::vec(prop_oneof![1usize..4, 1usize..40], 1..5),
        slices in 1usize..4, is_filtered: bool, is_plain: bool, saved in 0..4, merge_rows in 1usize..40,
    ) {
        let calls = calls(is_filtered);
        let mut aggregation = Aggregation::new(&schema(), keys, &calls).unwrap();
        let rows = batch(&rows);
        let (mut inputs, mut scratch) = (Inputs::default(), Vec::new());
        let mut slice = |from: usize, to: usize| {
            let (mut ours, mut theirs) = (aggregation.groups().unwrap(), Reference::new(keys, &calls));
            let (mut from, mut lengths) = (from, lengths.iter().cycle());
            while from < to {
                let length = (*lengths.next().unwrap()).min(to - from);
                let cut = rows.slice(from, length);
                aggregation.evaluate(&cut, &mut inputs).unwrap();
                theirs.update(&inputs);
                if is_plain {
                    // A run of rows, and the rest row by row.
                    let head = length / 2;
                    ours.update(aggregation.plain(&cut).unwrap(), 0..head, &mut scratch).unwrap();
                    for row in head..length {
                        ours.update(aggregation.plain(&cut).unwrap(), row..row + 1, &mut scratch).unwrap();
                    }
                } else {
                    ours.update(Taken::Evaluated(&inputs), 0..length, &mut scratch).unwrap();
                }
                from += length;
                match saved {
                    0 => {}
                    1 => ours = aggregation.restored(&ours.seal().unwrap()).unwrap(),
                    2 => drop(ours.snapshot(&aggregation).unwrap()),
                    _ => {
                        let pieces = ours.snapshot(&aggregation).unwrap();
                        // As a checkpoint puts them together where it is read.
                        let pieces: Vec<Vec<ArrayRef>> = pieces
                            .iter()
                            .map(|piece| {
                                aggregation.partial_columns(piece).into_iter().map(|(_, array)| array).collect()
                            })
                            .collect();
                        let columns: Vec<ArrayRef> = (0..pieces[0].len())
                            .map(|at| {
                                let of_column: Vec<&dyn Array> =
                                    pieces.iter().map(|piece| piece[at].as_ref()).collect();
                                arrow::compute::concat(&of_column).unwrap()
                            })
                            .collect();
                        let len = columns.first().map_or(1, |column| column.len());
                        let whole = aggregation.partial_of(&columns, len).unwrap();
                        ours = aggregation.restored(&whole).unwrap();
                    }
                }
            }
            (ours, theirs)
        };
        let total = rows.num_rows();
        let cuts: Vec<usize> = (0..=slices).map(|slice| slice * total / slices).collect();
        let mut pieces: Vec<_> = cuts.windows(2).map(|cut| slice(cut[0], cut[1])).collect();
        let (ours, theirs) = if pieces.len() == 1 {
            pieces.pop().unwrap()
        } else {
            let (mut ours, mut theirs) = (aggregation.groups().unwrap(), Reference::new(keys, &calls));
            for (our, their) in pieces {
                let partial = our.seal().unwrap();
                for from in (0..partial.len).step_by(merge_rows) {
                    let range = from..partial.len.min(from + merge_rows);
                    ours.merge(&partial, range, &mut scratch).unwrap();
                }
                if their.len > 0 {
                    theirs.merge(their);
                }
            }
            (ours, theirs)
        };
        prop_assert_eq!(ours.len(), theirs.len);
        for (index, (our, their)) in
            ours.evaluate(0).unwrap().into_iter().zip(theirs.evaluate()).enumerate()
        {
            prop_assert_eq!(our.data_type(), their.data_type());
            let is_computed = index >= keys.len();
            let (our, their) = (one_nan(our, is_computed), one_nan(their, is_computed));
            prop_assert_eq!(&our, &their, "column {}", index);
        }
    }
}
