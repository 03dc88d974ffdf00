//! Aggregates of Flink that are made of the values themselves: FIRST_VALUE, LAST_VALUE, LISTAGG, ARRAY_AGG, COLLECT,
//! PERCENTILE.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, MapArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion_common::{Result, ScalarValue, exec_err, plan_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use crate::map_type;

/// FIRST_VALUE with OVER. The planner looks for window functions of its own under the plain names.
pub const FIRST_OVER: &str = "flink_first_value";
/// LAST_VALUE with OVER.
pub const LAST_OVER: &str = "flink_last_value";

/// Names in SQL, lower case.
const NAMES: &[&str] =
    &["first_value", FIRST_OVER, "last_value", LAST_OVER, "listagg", "array_agg", "collect", "percentile"];

/// The aggregate of that lower-case name, if it is one of these.
pub fn gathered(name: &str) -> Option<Arc<AggregateUDF>> {
    let kind = match name {
        "first_value" | FIRST_OVER => Kind::First,
        "last_value" | LAST_OVER => Kind::Last,
        "listagg" => Kind::Joined,
        "array_agg" => Kind::Array,
        "collect" => Kind::Counted,
        "percentile" => Kind::Percentile,
        _ => return None,
    };
    let signature = Signature::variadic_any(Volatility::Immutable);
    let name = NAMES.iter().copied().find(|known| *known == name)?;
    Some(Arc::new(AggregateUDF::new_from_impl(Gathered { name, kind, signature })))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// The first value that is not NULL.
    First,
    /// The last value that is not NULL.
    Last,
    /// Texts with a separator between them; NULLs are left out.
    Joined,
    /// An ARRAY, NULLs included unless told otherwise.
    Array,
    /// A MULTISET, as a MAP from values to how often they came; NULLs are left out.
    Counted,
    /// A value between two neighbours in order.
    Percentile,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Gathered {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl AggregateUDFImpl for Gathered {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let (least, most) = match self.kind {
            Kind::Joined => (1, 2),
            Kind::Percentile => (2, 3),
            _ => (1, 1),
        };
        if !(least..=most).contains(&types.len()) {
            let expected = if least == most { least.to_string() } else { format!("{least} to {most}") };
            let name = self.name.trim_start_matches("flink_").to_uppercase();
            return plan_err!("'{name}' takes {expected} arguments, not {}", types.len());
        }
        Ok(match self.kind {
            Kind::First | Kind::Last => types[0].clone(),
            Kind::Joined => match &types[0] {
                DataType::Utf8 | DataType::Null => DataType::Utf8,
                other => {
                    return plan_err!("LISTAGG takes a STRING, not {}", crate::data_type::display(other));
                }
            },
            Kind::Array => DataType::List(Arc::new(Field::new_list_field(types[0].clone(), true))),
            Kind::Counted => map_type(&types[0], &DataType::Int32),
            Kind::Percentile if !types[0].is_numeric() => {
                return plan_err!("PERCENTILE takes a number, not {}", crate::data_type::display(&types[0]));
            }
            Kind::Percentile if types.get(2).is_some_and(|frequency| !frequency.is_integer()) => {
                let given = crate::data_type::display(&types[2]);
                return plan_err!("PERCENTILE takes a whole number as frequency, not {given}");
            }
            Kind::Percentile => match &types[1] {
                DataType::List(_) => DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true))),
                _ => DataType::Float64,
            },
        })
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Gather {
            kind: self.kind,
            item: arguments.expr_fields[0].data_type().clone(),
            result: arguments.return_field.data_type().clone(),
            keeps_nulls: self.kind == Kind::Array && !arguments.ignore_nulls,
            seen: arguments.is_distinct.then(HashSet::new),
            values: Vec::new(),
            frequencies: arguments.expr_fields.get(2).map(|_| Vec::new()),
            value_bytes: 0,
            parameter: match arguments.expr_fields.get(1) {
                Some(field) => Some(ScalarValue::try_from(field.data_type())?),
                None => None,
            },
        }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let item = Field::new_list_field(arguments.input_fields[0].data_type().clone(), true);
        let values = Field::new(format!("{}[values]", arguments.name), DataType::List(Arc::new(item)), true);
        let parameter = arguments.input_fields.get(1).map(|field| {
            let name = format!("{}[parameter]", arguments.name);
            Arc::new(Field::new(name, field.data_type().clone(), true))
        });
        let frequencies = arguments.input_fields.get(2).map(|_| {
            let item = Field::new_list_field(DataType::Int64, true);
            Arc::new(Field::new(
                format!("{}[frequencies]", arguments.name),
                DataType::List(Arc::new(item)),
                true,
            ))
        });
        Ok(std::iter::once(Arc::new(values)).chain(parameter).chain(frequencies).collect())
    }
}

/// The values of one group, as many as are needed, in the order in which they came.
#[derive(Debug)]
struct Gather {
    kind: Kind,
    item: DataType,
    result: DataType,
    keeps_nulls: bool,
    /// With DISTINCT, the values that were there.
    seen: Option<HashSet<ScalarValue>>,
    values: Vec<ScalarValue>,
    /// PERCENTILE with a frequency: how often each value counts.
    frequencies: Option<Vec<i64>>,
    value_bytes: usize,
    /// The second argument, of the first row: a separator, or which percentiles.
    parameter: Option<ScalarValue>,
}

impl Gather {
    fn take_all(&mut self, values: &ArrayRef) -> Result<()> {
        let rows = 0..values.len();
        let wanted = |row: &usize| self.keeps_nulls || values.is_valid(*row);
        match self.kind {
            Kind::First if !self.values.is_empty() => Ok(()),
            Kind::First => rows.clone().find(wanted).map_or(Ok(()), |row| self.take(values, row)),
            Kind::Last => match rows.clone().rfind(wanted) {
                Some(row) => {
                    self.values.clear();
                    self.value_bytes = 0;
                    self.take(values, row)
                }
                None => Ok(()),
            },
            _ => {
                let wanted: Vec<usize> = rows.filter(wanted).collect();
                wanted.into_iter().try_for_each(|row| self.take(values, row))
            }
        }
    }

    fn take(&mut self, values: &ArrayRef, row: usize) -> Result<()> {
        // A value of its own: one that points into a batch would keep all of it.
        let mut value = ScalarValue::try_from_array(values, row)?;
        value.compact();
        if let Some(seen) = &mut self.seen
            && !seen.insert(value.clone())
        {
            return Ok(());
        }
        self.value_bytes += value.size();
        self.values.push(value);
        Ok(())
    }

    /// Values with how often each counts; what counts never is passed over.
    fn take_often(&mut self, values: &ArrayRef, frequencies: &ArrayRef) -> Result<()> {
        let frequencies = cast(frequencies, &DataType::Int64)?;
        for (row, frequency) in frequencies.as_primitive::<Int64Type>().iter().enumerate() {
            let before = self.values.len();
            match frequency {
                Some(frequency) if frequency > 0 && values.is_valid(row) => self.take(values, row)?,
                _ => continue,
            }
            if let (Some(all), Some(frequency)) = (&mut self.frequencies, frequency)
                && self.values.len() > before
            {
                all.push(frequency);
            }
        }
        Ok(())
    }

    fn take_parameter(&mut self, column: Option<&ArrayRef>) -> Result<()> {
        if let (Some(parameter), Some(column)) = (&mut self.parameter, column)
            && parameter.is_null()
            && let Some(row) = (0..column.len()).find(|row| column.is_valid(*row))
        {
            *parameter = ScalarValue::try_from_array(column, row)?;
        }
        Ok(())
    }

    fn list(&self) -> ScalarValue {
        ScalarValue::List(ScalarValue::new_list_nullable(&self.values, &self.item))
    }

    fn joined(&self) -> Result<ScalarValue> {
        let separator = match &self.parameter {
            None => ",",
            Some(ScalarValue::Utf8(Some(separator))) => separator,
            Some(_) => return Ok(ScalarValue::Utf8(None)),
        };
        let texts: Vec<&str> = self.values.iter().filter_map(|value| value.try_as_str().flatten()).collect();
        Ok(ScalarValue::Utf8((!texts.is_empty()).then(|| texts.join(separator))))
    }

    fn counted(&self) -> Result<ScalarValue> {
        let mut counts: Vec<i32> = Vec::new();
        let mut keys: Vec<ScalarValue> = Vec::new();
        let mut places = std::collections::HashMap::new();
        for value in &self.values {
            let place = *places.entry(value).or_insert_with(|| {
                keys.push(value.clone());
                counts.push(0);
                keys.len() - 1
            });
            counts[place] += 1;
        }
        let DataType::Map(entries, is_sorted) = &self.result else {
            return exec_err!("COLLECT gives no {}", self.result);
        };
        let DataType::Struct(fields) = entries.data_type() else {
            return exec_err!("COLLECT gives no {}", self.result);
        };
        let length = keys.len();
        let keys = match keys.is_empty() {
            true => arrow::array::new_empty_array(&self.item),
            false => ScalarValue::iter_to_array(keys)?,
        };
        let columns = vec![keys, Arc::new(Int32Array::from(counts)) as ArrayRef];
        let items = StructArray::try_new(fields.clone(), columns, None)?;
        let offsets = OffsetBuffer::from_lengths([length]);
        let map = MapArray::try_new(Arc::clone(entries), offsets, items, None, *is_sorted)?;
        Ok(ScalarValue::Map(Arc::new(map)))
    }

    fn percentiles(&self) -> Result<ScalarValue> {
        let number = |value: &ScalarValue| match value.cast_to(&DataType::Float64)? {
            ScalarValue::Float64(Some(number)) => Ok(number),
            other => exec_err!("PERCENTILE of {other}"),
        };
        let often = |at: usize| self.frequencies.as_ref().map_or(1, |frequencies| frequencies[at]);
        let values = self.values.iter().enumerate().map(|(at, value)| Ok((number(value)?, often(at))));
        let mut sorted = values.collect::<Result<Vec<(f64, i64)>>>()?;
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        // How many there are up to each value.
        let mut count = 0_i64;
        for (_, often) in &mut sorted {
            count = count.saturating_add(*often);
            *often = count;
        }
        let nth = |n: i64| sorted[sorted.partition_point(|(_, up_to)| *up_to <= n)].0;
        let at = |share: f64| {
            if !(0.0..=1.0).contains(&share) {
                return exec_err!("PERCENTILE takes shares from 0 to 1, not {share}");
            }
            if sorted.is_empty() {
                return Ok(None);
            }
            // Counted from 1, as in Flink, which costs a digit of the share between two values.
            let position = (count - 1) as f64 * share + 1.0;
            let (lower, upper) = (position.floor(), position.ceil());
            let (low, high) = (nth(lower as i64 - 1), nth((upper as i64).min(count) - 1));
            Ok(Some(match lower == upper || low == high {
                true => low,
                false => (upper - position) * low + (position - lower) * high,
            }))
        };
        match &self.parameter {
            Some(ScalarValue::List(shares)) => {
                if sorted.is_empty() || shares.is_null(0) {
                    return ScalarValue::try_from(&self.result);
                }
                let shares = shares.value(0);
                let share = |row| at(number(&ScalarValue::try_from_array(&shares, row)?)?);
                let found = (0..shares.len()).map(|row| share(row).map(ScalarValue::Float64));
                let found = found.collect::<Result<Vec<_>>>()?;
                Ok(ScalarValue::List(ScalarValue::new_list_nullable(&found, &DataType::Float64)))
            }
            Some(share) if !share.is_null() => at(number(share)?).map(ScalarValue::Float64),
            _ => Ok(ScalarValue::Float64(None)),
        }
    }
}

impl Accumulator for Gather {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.take_parameter(values.get(1))?;
        match values.get(2) {
            Some(frequencies) => self.take_often(&values[0], frequencies),
            None => self.take_all(&values[0]),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.take_parameter(states.get(1))?;
        let lists = states[0].as_list::<i32>();
        let Some(frequencies) = states.get(2) else {
            return lists.iter().flatten().try_for_each(|values| self.take_all(&values));
        };
        let frequencies = frequencies.as_list::<i32>();
        for (values, frequencies) in lists.iter().zip(frequencies.iter()) {
            if let (Some(values), Some(frequencies)) = (values, frequencies) {
                self.take_often(&values, &frequencies)?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let frequencies = self.frequencies.as_ref().map(|frequencies| {
            let frequencies: Vec<ScalarValue> = frequencies.iter().map(|&often| often.into()).collect();
            ScalarValue::List(ScalarValue::new_list_nullable(&frequencies, &DataType::Int64))
        });
        Ok(std::iter::once(self.list()).chain(self.parameter.clone()).chain(frequencies).collect())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.kind {
            Kind::First | Kind::Last => match self.values.first() {
                Some(value) => Ok(value.clone()),
                None => ScalarValue::try_from(&self.result),
            },
            Kind::Joined => self.joined(),
            Kind::Array if self.values.is_empty() => ScalarValue::try_from(&self.result),
            Kind::Array => Ok(self.list()),
            Kind::Counted => self.counted(),
            Kind::Percentile => self.percentiles(),
        }
    }

    fn size(&self) -> usize {
        let spare = (self.values.capacity() - self.values.len()) * size_of::<ScalarValue>();
        // Values with DISTINCT are there twice.
        let copies = if self.seen.is_some() { 2 } else { 1 };
        let frequencies =
            self.frequencies.as_ref().map_or(0, |frequencies| frequencies.capacity() * size_of::<i64>());
        size_of::<Self>() + spare + copies * self.value_bytes + frequencies
    }
}
