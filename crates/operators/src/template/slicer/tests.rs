//! Windows put together of slices that several share, against operators that see each row: whatever the windows, the
//! disorder and the times at which slices are given, results and late rows are the same. Cannot catch: that SQL takes two
//! queries for alike that are not.

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit, TimestampMillisecondType};
use datafusion_expr::AggregateUDF;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::col;
use laxity_graph::CommonSlices;
use proptest::prelude::*;

use super::*;

fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("v", DataType::Int64, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), false),
    ]))
}

/// Key, value, time, and how far the watermark had come before it.
type Row = (i64, Option<i64>, i64, i64);

fn batch(rows: &[Row]) -> StreamBatch {
    let columns_of: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| Some(row.0)).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| Some(row.2)).collect::<TimestampMillisecondArray>()),
    ];
    StreamBatch {
        rows: RecordBatch::try_new(columns(), columns_of).unwrap(),
        watermark_before: Some(rows.iter().map(|row| row.3).collect()),
    }
}

fn call(udaf: Arc<AggregateUDF>, column: &str, schema: &SchemaRef) -> AggregateCall {
    let name = format!("{}({column})", udaf.name());
    let builder = AggregateExprBuilder::new(udaf, vec![col(column, schema).unwrap()]);
    let expr = builder.schema(schema.clone()).alias(name).build().unwrap();
    AggregateCall { expr: Arc::new(expr), filter: None }
}

fn spec(window: WindowKind) -> WindowAggregateSpec {
    let input_schema = Template::with_member(&columns());
    let aggregates = [sum_udaf(), count_udaf(), min_udaf(), max_udaf()];
    WindowAggregateSpec {
        name: "WindowAggregate".into(),
        windows: WindowInput::Assign { time_column: 2, window, processing_time: false },
        keys: vec![0, 3],
        aggregates: aggregates.map(|udaf| call(udaf, "v", &input_schema)).to_vec(),
        allowed_lateness_ms: 0,
        input_schema,
    }
}

type ByMember<T> = BTreeMap<u32, Vec<T>>;
/// A result's columns.
type Line = Vec<Option<i64>>;

/// A template that differs from the others in its windows, and what it has sent: by member, the results in no order, and
/// the windows that rows came too late for.
struct One {
    operator: Box<dyn Operator>,
    sent: ByMember<Line>,
    late: ByMember<i64>,
}

impl One {
    fn new(template: &Template) -> One {
        One { operator: template.operator().unwrap(), sent: BTreeMap::new(), late: BTreeMap::new() }
    }

    fn drive(&mut self, act: impl FnOnce(&mut dyn Operator, &mut Outbox) -> Flow) {
        let mut out = Outbox::default();
        let mut flow = act(self.operator.as_mut(), &mut out);
        while flow == Flow::More {
            flow = self.operator.resume(&mut out).unwrap();
        }
        for late in &out.late {
            Template::late(late).for_each(|(member, end)| self.late.entry(member).or_default().push(end));
        }
        let batches: Vec<StreamBatch> = out
            .emitted
            .into_iter()
            .filter_map(|emitted| match emitted {
                Emitted::Batch { batch, .. } => Some(batch),
                Emitted::Watermark(_) => None,
            })
            .collect();
        for (member, StreamBatch { rows, .. }) in Template::by_member(&batches).unwrap().parts() {
            let value = |column: &ArrayRef, row: usize| match column.as_primitive_opt::<Int64Type>() {
                Some(numbers) => numbers.iter().nth(row).flatten(),
                None => Some(column.as_primitive::<TimestampMillisecondType>().value(row)),
            };
            let lines =
                (0..rows.num_rows()).map(|row| rows.columns().iter().map(|c| value(c, row)).collect());
            self.sent.entry(member).or_default().extend(lines);
        }
    }

    fn told(mut self) -> (ByMember<Line>, ByMember<i64>) {
        self.sent.values_mut().for_each(|lines| lines.sort());
        self.late.values_mut().for_each(|ends| ends.sort_unstable());
        (self.sent, self.late)
    }
}

fn windows() -> impl Strategy<Value = WindowKind> {
    (0..3, 1_i64..7, 1_i64..5).prop_map(|(kind, a, b)| match kind {
        0 => WindowKind::Tumble { size_ms: 10 * a, offset_ms: 0 },
        // Some leave time out between two windows.
        1 => WindowKind::Hop { size_ms: 10 * a, slide_ms: 10 * b, offset_ms: 0 },
        _ => WindowKind::Cumulate { max_ms: 10 * a * b, step_ms: 10 * a, offset_ms: 0 },
    })
}

proptest! {
    #[test]
    fn windows_of_shared_slices_are_those_of_their_rows(
        kinds in prop::collection::vec(windows(), 1..5),
        // Who gets which of three kinds of rows, with which windows.
        members in prop::collection::vec((0_u32..3, 0_usize..5), 1..8),
        pieces in prop::collection::vec(
            // Rows: for whom, key, value, how far from now. Then: how far time goes on, and what happens.
            (prop::collection::vec((0_u32..3, 0_i64..3, prop::option::of(-5_i64..5), -40_i64..40), 0..12), 0_i64..30, 0..4),
            1..20,
        ),
    ) {
        let spec_of = Arc::new(SlicerSpec::new(None, spec(kinds[0]), 2, 1).unwrap());
        let template = |kind: &WindowKind| {
            Template::new(&columns(), spec(*kind).factory(), 1).with_slices(Arc::clone(&spec_of), *kind)
        };
        let templates: Vec<Template> = kinds.iter().map(template).collect();
        let mut lengths = templates.iter().map(|template| template.slices().unwrap().1);
        let first = CommonSlices::of(lengths.next().unwrap());
        let common = lengths.try_fold(first, CommonSlices::with).unwrap();
        let mut slicer = templates[0].slicer(common.slice_ms()).unwrap();
        let whose = |template: usize| {
            let of_it = members.iter().enumerate().filter(|(_, (_, kind))| kind % kinds.len() == template);
            let mut whose: Vec<(u32, u32)> = of_it.map(|(seat, (rows, _))| (*rows, seat as u32)).collect();
            whose.sort_unstable();
            whose
        };
        let (mut alone, mut shared): (Vec<One>, Vec<One>) =
            templates.iter().map(|template| (One::new(template), One::new(template))).unzip();
        let give = |slicer: &mut Slicer, shared: &mut [One], watermark: EventTime| {
            let slices = slicer.seal(watermark).unwrap();
            assert!(slicer.is_empty(watermark));
            for (template, one) in shared.iter_mut().enumerate() {
                for piece in 0..slices.pieces() {
                    slices.give(piece, &whose(template), one.operator.as_mut()).unwrap();
                }
            }
        };
        let (mut now, mut told) = (0_i64, i64::MIN);
        for (rows, step, event) in &pieces {
            let batch = batch(&rows.iter().map(|row| (row.1, row.2, now + row.3, now - 20)).collect::<Vec<_>>());
            let of = |rows_of: u32| rows.iter().enumerate().filter(move |(_, row)| row.0 == rows_of);
            let mut pairs: Vec<(u32, u32)> =
                (0..3).flat_map(|rows_of| of(rows_of).map(move |(row, _)| (rows_of, row as u32))).collect();
            let to_members = |pairs: &[(u32, u32)], template: usize| -> Vec<(u32, u32)> {
                let of_it = whose(template).into_iter();
                of_it.flat_map(|(rows, seat)| {
                    pairs.iter().filter(move |pair| pair.0 == rows).map(move |pair| (seat, pair.1))
                }).collect()
            };
            let all = pairs.clone();
            slicer.take(&batch, &mut pairs, EventTime(told), ProcessingTime(1)).unwrap();
            for (template, (alone, shared)) in alone.iter_mut().zip(&mut shared).enumerate() {
                for (one, pairs) in [(alone, &all), (shared, &pairs)] {
                    let pairs = to_members(pairs, template);
                    if !pairs.is_empty() {
                        let input = templates[template].input(&batch, &pairs).unwrap();
                        one.drive(|operator, out| operator.on_batch(0, input, ProcessingTime(1), out).unwrap());
                    }
                }
            }
            now += step;
            match event {
                // Somebody came, or is saved.
                0 => give(&mut slicer, &mut shared, EventTime::MAX),
                1 => continue,
                _ => {
                    let watermark = EventTime(now - 20);
                    told = watermark.0;
                    give(&mut slicer, &mut shared, watermark);
                    for one in alone.iter_mut().chain(&mut shared) {
                        one.drive(|operator, out| operator.on_watermark(watermark, out).unwrap());
                    }
                }
            }
        }
        give(&mut slicer, &mut shared, EventTime::MAX);
        prop_assert_eq!(slicer.state_bytes(), 0);
        for one in alone.iter_mut().chain(&mut shared) {
            one.drive(|operator, out| operator.on_watermark(EventTime::MAX, out).unwrap());
        }
        for (alone, shared) in alone.into_iter().zip(shared) {
            prop_assert_eq!(alone.told(), shared.told());
        }
    }
}

#[test]
fn what_hangs_on_the_order_of_rows_has_no_slices() {
    let window = WindowKind::Tumble { size_ms: 10, offset_ms: 0 };
    let fields = [("v", DataType::Int64), ("f", DataType::Float64)];
    let schema = Arc::new(Schema::new(fields.map(|(name, of)| Field::new(name, of, true)).to_vec()));
    let is_fit = |call: AggregateCall| {
        let spec = WindowAggregateSpec { aggregates: vec![call], ..spec(window) };
        SlicerSpec::new(None, spec, 2, 1).is_some()
    };
    assert!(is_fit(call(max_udaf(), "f", &schema)));
    assert!(is_fit(call(sum_udaf(), "v", &schema)));
    assert!(!is_fit(call(sum_udaf(), "f", &schema)));
    let distinct = AggregateExprBuilder::new(count_udaf(), vec![col("v", &schema).unwrap()])
        .schema(schema.clone())
        .alias("distinct")
        .distinct();
    assert!(!is_fit(AggregateCall { expr: Arc::new(distinct.build().unwrap()), filter: None }));
    let attached = WindowInput::Attached { start_column: 2, end_column: 2 };
    assert!(SlicerSpec::new(None, WindowAggregateSpec { windows: attached, ..spec(window) }, 2, 1).is_none());
}
