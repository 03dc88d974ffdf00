//! CAST between numbers, and from text to numbers, as Flink does it: whole numbers wrap around, floats saturate,
//! decimals that do not fit are NULL, and only text that is no number is an error.

mod nested;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Date32Array, Decimal128Array, PrimitiveArray,
    Time32MillisecondArray, TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, TimeUnit, TimestampNanosecondType,
};
use chrono::NaiveDate;
use datafusion_common::{DFSchema, Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::data_type::display;
use crate::digits::Digits;
use crate::java_time::{read_date, read_default, read_time};
use crate::text::to_string;
use crate::{TO_STRING, own};

/// Fails where Flink has no CAST.
pub fn check_cast(cast: &Expr, schema: &DFSchema) -> Result<()> {
    let (inner, to) = match cast {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            (expr, field.data_type())
        }
        _ => return Ok(()),
    };
    let Ok(from) = inner.get_type(schema) else { return Ok(()) };
    if !has_cast(&from, to) {
        return plan_err!("there is no CAST from {} to {}", display(&from), display(to));
    }
    Ok(())
}

fn has_cast(from: &DataType, to: &DataType) -> bool {
    use DataType::{Boolean, Date32, List, Map, Struct, Time32, Timestamp};
    let is_time = |given: &DataType| matches!(given, Date32 | Time32(_) | Timestamp(..));
    let is_number = |given: &DataType| given.is_numeric() || *given == Boolean;
    match (from, to) {
        (Struct(from), Struct(to)) => {
            from.len() == to.len()
                && from.iter().zip(to).all(|(from, to)| has_cast(from.data_type(), to.data_type()))
        }
        (List(from), List(to)) | (Map(from, _), Map(to, _)) => has_cast(from.data_type(), to.data_type()),
        (Date32, Time32(_)) | (Time32(_), Date32) => false,
        (from, to) if from.is_nested() || to.is_nested() => from.is_null() || to.is_string(),
        _ => !(is_time(from) && is_number(to) || is_number(from) && is_time(to)),
    }
}

/// A CAST or TRY_CAST as Flink computes it. `None` if Arrow's cast does the same.
pub fn flink_cast(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let (inner, to, lenient) = match expr {
        Expr::Cast(Cast { expr, field }) => (expr, field.data_type(), false),
        Expr::TryCast(TryCast { expr, field }) => (expr, field.data_type(), true),
        _ => return None,
    };
    let from = inner.get_type(schema).ok()?;
    match Way::of(&from, to, lenient) {
        Way::Own => {
            let signature = Signature::any(1, Volatility::Immutable);
            let function = ScalarUDF::new_from_impl(FlinkCast { to: to.clone(), lenient, signature });
            Some(function.call(vec![(**inner).clone()]))
        }
        Way::ToString => Some(own(TO_STRING).call(vec![(**inner).clone()])),
        Way::Arrow { lenient: is_lenient } if is_lenient == lenient => None,
        Way::Arrow { .. } => Some(Expr::TryCast(TryCast::new(inner.clone(), to.clone()))),
    }
}

/// Who computes a cast.
enum Way {
    /// [`FlinkCast`].
    Own,
    ToString,
    Arrow {
        /// As TRY_CAST.
        lenient: bool,
    },
}

impl Way {
    fn of(from: &DataType, to: &DataType, lenient: bool) -> Way {
        let arrow = Way::Arrow { lenient };
        // Arrow's TRY_CAST is NULL where digits are lost in front of the point, and rounds half up behind it.
        let null_if_too_long = |fits: bool| Way::Arrow { lenient: lenient || !fits };
        use DataType::{Binary, Boolean, Date32, Decimal128, Float32, Float64, Time32, Timestamp, Utf8};
        use DataType::{Interval, List, Map, Struct};
        match (from, to) {
            (
                Boolean | Float32 | Float64 | Timestamp(..) | Interval(_) | Binary | List(_) | Map(..)
                | Struct(_),
                Utf8,
            ) => Way::ToString,
            (Struct(_), Struct(_)) | (List(_), List(_)) | (Map(..), Map(..)) if from != to => Way::Own,
            (Timestamp(from, _), Timestamp(to, _)) if from > to => Way::Own,
            (Boolean, Decimal128(..)) | (Timestamp(..), Time32(_)) | (Time32(_), Timestamp(..)) => Way::Own,
            (Utf8, Date32 | Time32(_) | Timestamp(..)) => Way::Own,
            (Decimal128(p1, s1), Decimal128(p2, s2)) => {
                // Rounding may carry into one more digit.
                let whole = *p1 as i8 - s1 + i8::from(s2 < s1);
                null_if_too_long(whole <= *p2 as i8 - s2)
            }
            (from, Decimal128(precision, scale)) => match int_digits(from) {
                Some(digits) => null_if_too_long(digits <= *precision as i8 - scale),
                None if matches!(from, Float32 | Float64 | Utf8) => Way::Own,
                None => arrow,
            },
            (Utf8, Float32 | Float64 | Boolean) => Way::Own,
            (from, to) => match (int_digits(from), int_digits(to)) {
                (Some(from), Some(to)) if from > to => Way::Own,
                (None, Some(_)) if matches!(from, Float32 | Float64 | Decimal128(..) | Utf8) => Way::Own,
                _ => arrow,
            },
        }
    }
}

/// A column cast by itself.
fn cast_column(values: &ArrayRef, to: &DataType, lenient: bool) -> Result<ArrayRef> {
    if values.data_type() == to {
        return Ok(Arc::clone(values));
    }
    match Way::of(values.data_type(), to, lenient) {
        Way::Own => {
            let signature = Signature::any(1, Volatility::Immutable);
            FlinkCast { to: to.clone(), lenient, signature }.cast(values)
        }
        Way::ToString => to_string(std::slice::from_ref(values), values.len()),
        Way::Arrow { lenient } => {
            Ok(cast_with_options(values, to, &CastOptions { safe: lenient, ..CastOptions::default() })?)
        }
    }
}

/// Decimal digits of the whole numbers of a type.
fn int_digits(given: &DataType) -> Option<i8> {
    Some(match given {
        DataType::Int8 => 3,
        DataType::Int16 => 5,
        DataType::Int32 => 10,
        DataType::Int64 => 19,
        _ => return None,
    })
}

/// Whether such a call casts between numbers, which has a value for each: only text that is none is an error.
pub fn casts_number(call: &ScalarFunction, schema: &DFSchema) -> bool {
    is_cast_to_number(&call.func)
        && call.args.iter().all(|of| of.get_type(schema).is_ok_and(|from| from.is_numeric()))
}

/// Whether it casts to a number.
pub fn is_cast_to_number(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<FlinkCast>().is_some_and(|cast| cast.to.is_numeric())
}

/// The cast to one type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FlinkCast {
    to: DataType,
    /// TRY_CAST: what is an error otherwise is NULL.
    lenient: bool,
    signature: Signature,
}

impl ScalarUDFImpl for FlinkCast {
    fn name(&self) -> &str {
        match (&self.to, self.lenient) {
            (DataType::Boolean, false) => "CAST_BOOLEAN",
            (DataType::Int8, false) => "CAST_TINYINT",
            (DataType::Int16, false) => "CAST_SMALLINT",
            (DataType::Int32, false) => "CAST_INT",
            (DataType::Int64, false) => "CAST_BIGINT",
            (DataType::Float32, false) => "CAST_FLOAT",
            (DataType::Float64, false) => "CAST_DOUBLE",
            (DataType::Date32, false) => "CAST_DATE",
            (DataType::Time32(_), false) => "CAST_TIME",
            (DataType::Timestamp(..), false) => "CAST_TIMESTAMP",
            (DataType::Struct(_), false) => "CAST_ROW",
            (DataType::List(_), false) => "CAST_ARRAY",
            (DataType::Map(..), false) => "CAST_MAP",
            (_, false) => "CAST_DECIMAL",
            (DataType::Date32, true) => "TRY_CAST_DATE",
            (DataType::Time32(_), true) => "TRY_CAST_TIME",
            (DataType::Timestamp(..), true) => "TRY_CAST_TIMESTAMP",
            (DataType::Boolean, true) => "TRY_CAST_BOOLEAN",
            (DataType::Int8, true) => "TRY_CAST_TINYINT",
            (DataType::Int16, true) => "TRY_CAST_SMALLINT",
            (DataType::Int32, true) => "TRY_CAST_INT",
            (DataType::Int64, true) => "TRY_CAST_BIGINT",
            (DataType::Float32, true) => "TRY_CAST_FLOAT",
            (DataType::Float64, true) => "TRY_CAST_DOUBLE",
            (DataType::Struct(_), true) => "TRY_CAST_ROW",
            (DataType::List(_), true) => "TRY_CAST_ARRAY",
            (DataType::Map(..), true) => "TRY_CAST_MAP",
            (_, true) => "TRY_CAST_DECIMAL",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match &call.args[0] {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(self.cast(array)?)),
            ColumnarValue::Scalar(value) => {
                let cast = self.cast(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&cast, 0)?))
            }
        }
    }
}

impl FlinkCast {
    fn cast(&self, array: &ArrayRef) -> Result<ArrayRef> {
        match array.data_type() {
            DataType::Int8 => integers::<Int8Type>(array, &self.to),
            DataType::Int16 => integers::<Int16Type>(array, &self.to),
            DataType::Int32 => integers::<Int32Type>(array, &self.to),
            DataType::Int64 => integers::<Int64Type>(array, &self.to),
            DataType::Float32 => self.floats(&array.as_primitive::<Float32Type>().unary(f64::from)),
            DataType::Float64 => self.floats(array.as_primitive()),
            DataType::Boolean => booleans(array.as_boolean(), &self.to),
            DataType::Timestamp(..) | DataType::Time32(_) => times(array, &self.to),
            DataType::Decimal128(_, scale) => decimals(array.as_primitive(), *scale, &self.to),
            DataType::Utf8 => self.texts(array),
            DataType::Struct(_) | DataType::List(_) | DataType::Map(..) => {
                nested::cast(array, &self.to, self.lenient)
            }
            other => internal_err!("no cast from {other} to {}", self.to),
        }
    }

    fn floats(&self, values: &PrimitiveArray<Float64Type>) -> Result<ArrayRef> {
        Ok(match &self.to {
            // As Java: NaN is 0; what is too large for an INT is its largest; smaller types take the INT's end.
            DataType::Int8 => Arc::new(values.unary::<_, Int8Type>(|v| v as i32 as i8)),
            DataType::Int16 => Arc::new(values.unary::<_, Int16Type>(|v| v as i32 as i16)),
            DataType::Int32 => Arc::new(values.unary::<_, Int32Type>(|v| v as i32)),
            DataType::Int64 => Arc::new(values.unary::<_, Int64Type>(|v| v as i64)),
            DataType::Decimal128(precision, scale) => {
                let mut out = Decimal128Array::builder(values.len());
                for value in values {
                    match value {
                        None => out.append_null(),
                        Some(value) if value.is_finite() => {
                            out.append_option(float_to_decimal(value, *precision, *scale));
                        }
                        Some(_) if self.lenient => out.append_null(),
                        Some(value) => return exec_err!("{value} has no value as a {}", display(&self.to)),
                    }
                }
                Arc::new(out.finish().with_precision_and_scale(*precision, *scale)?)
            }
            other => return internal_err!("no cast from a float to {other}"),
        })
    }

    fn texts(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let texts = array.as_string::<i32>();
        macro_rules! each {
            ($collect:ty, $read:expr) => {{
                let read = texts.iter().map(|text| {
                    let Some(text) = text else { return Ok(None) };
                    match ($read)(text) {
                        Some(value) => Ok(Some(value)),
                        None if self.lenient => Ok(None),
                        None => exec_err!("'{text}' is not a {}", display(&self.to)),
                    }
                });
                Arc::new(read.collect::<Result<$collect>>()?) as ArrayRef
            }};
        }
        let int = |text: &str| read_integer(text, i64::from(i32::MIN));
        Ok(match &self.to {
            DataType::Boolean => each!(BooleanArray, read_boolean),
            DataType::Date32 => each!(Date32Array, |text| read_date(text).map(epoch_days)),
            DataType::Time32(_) => each!(Time32MillisecondArray, read_time),
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                let nanos = |text| read_default(text)?.and_utc().timestamp_nanos_opt();
                let read = each!(TimestampNanosecondArray, nanos);
                let read = read.as_primitive::<TimestampNanosecondType>().clone();
                Arc::new(read.with_timezone_opt(zone.clone()))
            }
            DataType::Timestamp(..) => {
                let micros = |text| Some(read_default(text)?.and_utc().timestamp_micros());
                times(&each!(TimestampMicrosecondArray, micros), &self.to)?
            }
            DataType::Int8 => each!(PrimitiveArray<Int8Type>, |text| i8::try_from(int(text)?).ok()),
            DataType::Int16 => each!(PrimitiveArray<Int16Type>, |text| i16::try_from(int(text)?).ok()),
            DataType::Int32 => each!(PrimitiveArray<Int32Type>, |text| i32::try_from(int(text)?).ok()),
            DataType::Int64 => each!(PrimitiveArray<Int64Type>, |text| read_integer(text, i64::MIN)),
            DataType::Float32 => each!(PrimitiveArray<Float32Type>, read_float::<f32>),
            DataType::Float64 => each!(PrimitiveArray<Float64Type>, read_float::<f64>),
            DataType::Decimal128(precision, scale) => {
                let mut out = Decimal128Array::builder(texts.len());
                for text in texts {
                    match text.map(|text| (text, Digits::parse(trimmed(text)))) {
                        None => out.append_null(),
                        Some((_, Some(digits))) => out.append_option(digits.into_decimal(*precision, *scale)),
                        Some(_) if self.lenient => out.append_null(),
                        Some((text, None)) => return exec_err!("'{text}' is not a {}", display(&self.to)),
                    }
                }
                Arc::new(out.finish().with_precision_and_scale(*precision, *scale)?)
            }
            other => return internal_err!("no cast from text to {other}"),
        })
    }
}

fn integers<T: ArrowPrimitiveType>(array: &ArrayRef, to: &DataType) -> Result<ArrayRef>
where
    T::Native: Into<i64>,
{
    let values = array.as_primitive::<T>();
    Ok(match to {
        DataType::Int8 => Arc::new(values.unary::<_, Int8Type>(|v| v.into() as i8)),
        DataType::Int16 => Arc::new(values.unary::<_, Int16Type>(|v| v.into() as i16)),
        DataType::Int32 => Arc::new(values.unary::<_, Int32Type>(|v| v.into() as i32)),
        other => return internal_err!("no cast from {} to {other}", array.data_type()),
    })
}

fn epoch_days(day: NaiveDate) -> i32 {
    (day - NaiveDate::default()).num_days() as i32
}

/// 1 and 0, where they fit.
fn booleans(values: &BooleanArray, to: &DataType) -> Result<ArrayRef> {
    let DataType::Decimal128(precision, scale) = to else {
        return internal_err!("no cast from a BOOLEAN to {to}");
    };
    let one = super::decimal::power_of_ten(scale.unsigned_abs().into());
    let mut out = Decimal128Array::builder(values.len());
    for value in values {
        match value {
            Some(true) if *scale < *precision as i8 => out.append_value(one),
            Some(false) => out.append_value(0),
            _ => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish().with_precision_and_scale(*precision, *scale)?))
}

/// Steps of time that are too fine are cut off, also before 1970; a TIME has whole seconds.
fn times(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let per_second = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let steps = || match array.data_type() {
        DataType::Time32(_) => cast(&cast(array, &DataType::Int32)?, &DataType::Int64),
        _ => cast(array, &DataType::Int64),
    };
    let from = match array.data_type() {
        DataType::Timestamp(unit, _) => per_second(unit),
        _ => 1_000,
    };
    let steps = steps()?;
    let steps = steps.as_primitive::<Int64Type>();
    Ok(match to {
        DataType::Time32(_) => {
            let millis = |step: i64| (step.div_euclid(from).rem_euclid(86_400) * 1_000) as i32;
            Arc::new(steps.unary::<_, Time32MillisecondType>(millis))
        }
        DataType::Timestamp(unit, _) => {
            let to_steps = per_second(unit);
            let converted: PrimitiveArray<Int64Type> = if to_steps <= from {
                steps.unary(|step| step.div_euclid(from / to_steps))
            } else {
                steps.unary_opt(|step| step.checked_mul(to_steps / from))
            };
            cast(&converted, to)?
        }
        other => return internal_err!("no cast from a time to {other}"),
    })
}

/// The whole part, wrapped around.
fn decimals(values: &PrimitiveArray<Decimal128Type>, scale: i8, to: &DataType) -> Result<ArrayRef> {
    let one = super::decimal::power_of_ten(scale.unsigned_abs().into());
    let whole = |v: i128| (v / one) as i64;
    Ok(match to {
        DataType::Int8 => Arc::new(values.unary::<_, Int8Type>(|v| whole(v) as i8)),
        DataType::Int16 => Arc::new(values.unary::<_, Int16Type>(|v| whole(v) as i16)),
        DataType::Int32 => Arc::new(values.unary::<_, Int32Type>(|v| whole(v) as i32)),
        DataType::Int64 => Arc::new(values.unary::<_, Int64Type>(whole)),
        other => return internal_err!("no cast from a decimal to {other}"),
    })
}

/// The digits that Java prints for `value`, rounded half up. `None` if they do not fit.
fn float_to_decimal(value: f64, precision: u8, scale: i8) -> Option<i128> {
    match super::digits::scaled(value, scale.into()) {
        Some(scaled) => {
            let most = super::decimal::power_of_ten(precision.into());
            Some(scaled as i128).filter(|value| value.unsigned_abs() < most.unsigned_abs())
        }
        None => Digits::of(value).into_decimal(precision, scale),
    }
}

/// Flink's reading of whole numbers: a fraction is cut off, blanks are not allowed.
fn read_integer(text: &str, least: i64) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if !whole.bytes().chain(fraction.bytes()).all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // Negative numbers reach one further.
    let value = whole.bytes().try_fold(0_i64, |value, digit| {
        value.checked_mul(10)?.checked_sub(i64::from(digit - b'0')).filter(|value| *value >= least)
    })?;
    if negative { Some(value) } else { value.checked_neg().filter(|value| *value <= -(least + 1)) }
}

/// As `Double.parseDouble`, but for hexadecimal.
pub(crate) fn read_float<T: std::str::FromStr>(text: &str) -> Option<T> {
    let text = text.trim_matches(|c: char| c <= ' ');
    let unsigned = text.trim_start_matches(['+', '-']);
    if text.len() - unsigned.len() > 1 {
        return None;
    }
    if matches!(unsigned, "NaN" | "Infinity") {
        return text.parse().ok();
    }
    let number = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
    if number.chars().all(plain) { number.parse().ok() } else { None }
}

fn read_boolean(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "1" => Some(true),
        "f" | "false" | "n" | "no" | "0" => Some(false),
        _ => None,
    }
}

fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\n', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_as_flink_does() {
        let long = |text| read_integer(text, i64::MIN);
        assert_eq!(long("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(long("9223372036854775807"), Some(i64::MAX));
        assert_eq!(long("9223372036854775808"), None);
        assert_eq!(long("12.7"), Some(12));
        assert_eq!(long("-.9"), Some(0));
        assert_eq!(long("+3."), Some(3));
        for bad in ["", "-", "+", " 1", "1 ", "1e3", "1.2.3", "--1", "1.x", "٣"] {
            assert_eq!(long(bad), None, "{bad:?}");
        }
        let int = |text| read_integer(text, i64::from(i32::MIN));
        assert_eq!(int("-2147483648"), Some(-2147483648));
        assert_eq!(int("2147483648"), None);
    }

    #[test]
    fn floats_are_read_as_java_does() {
        assert_eq!(read_float::<f64>(" 1.5e3 "), Some(1500.0));
        assert_eq!(read_float::<f64>("-Infinity"), Some(f64::NEG_INFINITY));
        assert!(read_float::<f64>("NaN").is_some_and(f64::is_nan));
        assert_eq!(read_float::<f64>("2d"), Some(2.0));
        for bad in ["", "inf", "nan", "infinity", "1x", "++1", "e", "1e", "d"] {
            assert_eq!(read_float::<f64>(bad), None, "{bad:?}");
        }
    }
}
