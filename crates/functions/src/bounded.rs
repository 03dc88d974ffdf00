//! Functions whose results can be far larger than their arguments: how large is found before they are made.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion_common::{Result, exec_err};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// Bytes of one text at most.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// Bytes of the texts that one call makes of a batch at most: 8 KB for each of 8 192 rows. Memory that an expression
/// takes is nobody's state and in no queue, so it has to be little beside what is counted there.
const BATCH_BYTES_MAX: u64 = 64 << 20;

/// Puts the bound around the functions that need it.
pub(crate) fn bound(all: &mut BTreeMap<String, Arc<ScalarUDF>>) {
    for (name, growth) in [
        ("repeat", Growth::Repeat),
        ("lpad", Growth::Pad),
        ("rpad", Growth::Pad),
        ("replace", Growth::Replace),
    ] {
        if let Some(inner) = all.get(name).cloned() {
            all.insert(name.to_string(), Arc::new(ScalarUDF::new_from_impl(Bounded { inner, growth })));
        }
    }
}

/// How long a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// As the first argument, the second times.
    Repeat,
    /// As many characters as the second argument.
    Pad,
    /// As the first argument, with the third for every occurrence of the second.
    Replace,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl Bounded {
    fn check(&self, args: &[ColumnarValue], rows: usize) -> Result<()> {
        let is_constant = args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { rows };
        let arrays = args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
        let [first, second, ..] = arrays.as_slice() else { return Ok(()) };
        let (longest, all) = match self.growth {
            Growth::Repeat => {
                sizes(&integers(&length(first.as_ref())?)?, &integers(second)?, u64::saturating_mul)
            }
            Growth::Pad => {
                sizes(&integers(&length(first.as_ref())?)?, &integers(second)?, |_, wanted| wanted)
            }
            Growth::Replace => match arrays.get(2) {
                Some(third) => replaced(first, second, third)?,
                None => return Ok(()),
            },
        };
        let name = self.inner.name().to_uppercase();
        if longest > TEXT_BYTES_MAX {
            return exec_err!(
                "{name} would make a text of {longest} bytes; the longest are {TEXT_BYTES_MAX} bytes"
            );
        }
        if all > BATCH_BYTES_MAX {
            return exec_err!(
                "{name} would make {all} bytes of text of {rows} rows; the most are {BATCH_BYTES_MAX} bytes"
            );
        }
        Ok(())
    }
}

/// Not negative; 0 for NULL.
fn integers(values: &ArrayRef) -> Result<Vec<u64>> {
    let values = cast(values, &DataType::Int64)?;
    let values = values.as_primitive::<Int64Type>();
    Ok(values.iter().map(|value| value.map_or(0, |value| value.max(0) as u64)).collect())
}

/// The longest result, and all of them together.
fn sizes(first: &[u64], second: &[u64], size: impl Fn(u64, u64) -> u64) -> (u64, u64) {
    let sizes = first.iter().zip(second).map(|(&first, &second)| size(first, second));
    sizes.fold((0, 0), |(longest, all), size| (longest.max(size), all.saturating_add(size)))
}

fn replaced(texts: &ArrayRef, from: &ArrayRef, to: &ArrayRef) -> Result<(u64, u64)> {
    let lengths =
        [texts, from, to].map(|array| length(array.as_ref()).map_err(Into::into).and_then(|a| integers(&a)));
    let [texts_bytes, from_bytes, to_bytes] = lengths;
    let (texts_bytes, from_bytes, to_bytes) = (texts_bytes?, from_bytes?, to_bytes?);
    // As if it stood there as often as it can: good enough for nearly all, and cheap.
    let most = (0..texts.len()).map(|row| {
        let times = texts_bytes[row] / from_bytes[row].max(1);
        texts_bytes[row].saturating_add(times.saturating_mul(to_bytes[row]))
    });
    let most =
        most.fold((0_u64, 0_u64), |(longest, all), size| (longest.max(size), all.saturating_add(size)));
    if most.0 <= TEXT_BYTES_MAX && most.1 <= BATCH_BYTES_MAX {
        return Ok(most);
    }
    let [texts, from] = [texts, from].map(|array| cast(array, &DataType::Utf8));
    let (texts, from) = (texts?, from?);
    let (texts, from) = (texts.as_string::<i32>(), from.as_string::<i32>());
    let exact = (0..texts.len()).filter(|&row| texts.is_valid(row) && from.is_valid(row)).map(|row| {
        let part = from.value(row);
        let times = if part.is_empty() { 0 } else { texts.value(row).matches(part).count() as u64 };
        texts_bytes[row].saturating_add(times.saturating_mul(to_bytes[row]))
    });
    Ok(exact.fold((0, 0), |(longest, all), size| (longest.max(size), all.saturating_add(size))))
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(given)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.check(&call.args, call.number_rows)?;
        self.inner.invoke_with_args(call)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::Field;
    use datafusion_common::ScalarValue;

    use super::*;

    fn call(name: &str, args: Vec<ColumnarValue>, rows: usize) -> Result<ColumnarValue> {
        let function = crate::own(name);
        let fields: Vec<FieldRef> =
            args.iter().map(|arg| Arc::new(Field::new("", arg.data_type(), true))).collect();
        function.invoke_with_args(ScalarFunctionArgs {
            args,
            arg_fields: fields,
            number_rows: rows,
            return_field: Arc::new(Field::new("", DataType::Utf8, true)),
            config_options: Arc::default(),
        })
    }

    fn text(value: &str) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::Utf8(Some(value.into())))
    }

    fn refused(name: &str, args: Vec<ColumnarValue>, rows: usize) -> String {
        call(name, args, rows).expect_err(name).to_string()
    }

    #[test]
    fn what_is_too_long_is_refused_before_it_is_made() {
        let number = |n| ColumnarValue::Scalar(ScalarValue::Int64(Some(n)));
        let told = refused("repeat", vec![text("xy"), number(2_000_000_000)], 1);
        assert!(told.contains("REPEAT would make a text of 4000000000 bytes"), "{told}");
        let number = |n| ColumnarValue::Scalar(ScalarValue::Int32(Some(n)));
        for name in ["lpad", "rpad"] {
            let told = refused(name, vec![text("x"), number(i32::MAX), text("y")], 1);
            assert!(told.contains("would make a text of 2147483647 bytes"), "{told}");
        }
        let told =
            refused("replace", vec![text(&"a".repeat(100_000)), text("a"), text(&"b".repeat(1_000))], 1);
        assert!(told.contains("REPLACE would make a text of"), "{told}");
        // It could stand there a hundred thousand times and does not.
        let kept = call("replace", vec![text(&"a".repeat(100_000)), text("c"), text(&"b".repeat(1_000))], 1);
        assert!(kept.is_ok(), "{kept:?}");
    }

    #[test]
    fn a_batch_has_a_bound_of_its_own() {
        let column = |times: i64, rows: usize| -> Vec<ColumnarValue> {
            let texts = StringArray::from(vec!["x"; rows]);
            let times = Int64Array::from(vec![Some(times); rows]);
            vec![ColumnarValue::Array(Arc::new(texts)), ColumnarValue::Array(Arc::new(times))]
        };
        assert!(call("repeat", column(1_000, 8_192), 8_192).is_ok());
        let told = refused("repeat", column(400_000, 8_192), 8_192);
        assert!(told.contains("REPEAT would make 3276800000 bytes of text of 8192 rows"), "{told}");
        // A few long ones are no harm.
        assert!(call("repeat", column(400_000, 8), 8).is_ok());
        assert!(call("repeat", column(-7, 8), 8).is_ok());
    }
}
