//! Functions on numbers of every type, with the result types of Flink. Those that are of DOUBLEs alone are in
//! `math.rs`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array, PrimitiveArray};
use arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type,
};
use datafusion_common::{Result, ScalarValue, internal_err, plan_err};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::decimal::{half_up_128, power_of_ten};
use crate::digits::{Digits, scaled};
use crate::{FlinkFunction, Parameter, decimal_type, pure};

pub(crate) const FUNCTIONS: &[FlinkFunction] = &[
    of_number("abs", |types| types[0].clone(), |args, _| abs(&args[0])),
    of_number("ceil", whole_type, |args, _| whole(&args[0], true)),
    of_number("floor", whole_type, |args, _| whole(&args[0], false)),
    of_number("flink_sign", |types| types[0].clone(), |args, _| sign(&args[0])),
];

const fn of_number(
    name: &'static str,
    returns: fn(&[DataType]) -> DataType,
    invoke: fn(&[ArrayRef], usize) -> Result<ArrayRef>,
) -> FlinkFunction {
    let parameters = &[Parameter::Number];
    FlinkFunction { name, parameters, least: 1, most: 1, returns, invoke, signature: pure }
}

/// 1, 0 or -1 in the number's own type. NaN and -0 are what they were.
fn sign(array: &ArrayRef) -> Result<ArrayRef> {
    macro_rules! each {
        ($t:ty, $f:expr) => {
            Arc::new(array.as_primitive::<$t>().unary::<_, $t>($f)) as ArrayRef
        };
    }
    Ok(match array.data_type() {
        DataType::Int8 => each!(Int8Type, i8::signum),
        DataType::Int16 => each!(Int16Type, i16::signum),
        DataType::Int32 => each!(Int32Type, i32::signum),
        DataType::Int64 => each!(Int64Type, i64::signum),
        DataType::Float32 => each!(Float32Type, |v: f32| if v == 0.0 { v } else { v.signum() }),
        DataType::Float64 => each!(Float64Type, |v: f64| if v == 0.0 { v } else { v.signum() }),
        DataType::Decimal128(precision, scale) => {
            let one = if *scale < *precision as i8 { power_of_ten(scale.unsigned_abs().into()) } else { 0 };
            // DECIMAL(2, 2) holds no 1.
            let values = array.as_primitive::<Decimal128Type>();
            let mut out = Decimal128Array::builder(values.len());
            for value in values {
                match value {
                    Some(value) if value == 0 || one > 0 => out.append_value(value.signum() * one),
                    _ => out.append_null(),
                }
            }
            Arc::new(out.finish().with_precision_and_scale(*precision, *scale)?)
        }
        other => return internal_err!("SIGN of {other}"),
    })
}

/// The least number of an integer type stays what it is, as in Java.
fn abs(array: &ArrayRef) -> Result<ArrayRef> {
    macro_rules! each {
        ($t:ty, $f:expr) => {
            Arc::new(array.as_primitive::<$t>().unary::<_, $t>($f)) as ArrayRef
        };
    }
    Ok(match array.data_type() {
        DataType::Int8 => each!(Int8Type, i8::wrapping_abs),
        DataType::Int16 => each!(Int16Type, i16::wrapping_abs),
        DataType::Int32 => each!(Int32Type, i32::wrapping_abs),
        DataType::Int64 => each!(Int64Type, i64::wrapping_abs),
        DataType::Float32 => each!(Float32Type, f32::abs),
        DataType::Float64 => each!(Float64Type, f64::abs),
        DataType::Decimal128(precision, scale) => {
            let values =
                array.as_primitive::<Decimal128Type>().unary::<_, Decimal128Type>(i128::wrapping_abs);
            Arc::new(values.with_precision_and_scale(*precision, *scale)?)
        }
        other => return internal_err!("ABS of {other}"),
    })
}

/// FLOOR and CEIL keep the type; a decimal loses its scale.
fn whole_type(types: &[DataType]) -> DataType {
    match &types[0] {
        DataType::Decimal128(precision, 1..) => DataType::Decimal128(*precision, 0),
        other => other.clone(),
    }
}

fn whole(array: &ArrayRef, up: bool) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Float32 => {
            let round = if up { f32::ceil } else { f32::floor };
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(round))
        }
        DataType::Float64 => {
            let round = if up { f64::ceil } else { f64::floor };
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(round))
        }
        DataType::Decimal128(precision, scale @ 1..) => {
            let one = power_of_ten(scale.unsigned_abs().into());
            let values = array.as_primitive::<Decimal128Type>().unary::<_, Decimal128Type>(|value| {
                let down = value.div_euclid(one);
                if up && value.rem_euclid(one) > 0 { down + 1 } else { down }
            });
            Arc::new(values.with_precision_and_scale(*precision, 0)?)
        }
        _ => Arc::clone(array),
    })
}

/// `ROUND(x [, places])`, half up, and `TRUNCATE(x [, places])`, by the digits that the number is written with.
pub(crate) fn rounding() -> [ScalarUDF; 2] {
    [("round", false), ("flink_truncate", true)].map(|(name, cut)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::new_from_impl(Rounding { name, cut, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Rounding {
    name: &'static str,
    /// Towards zero instead of half up.
    cut: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Rounding {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let name = if self.cut { "TRUNCATE" } else { "ROUND" };
        match given {
            [number] => Ok(vec![super::number_type(name, number)?]),
            [number, places] if places.is_integer() || places.is_null() => {
                Ok(vec![super::number_type(name, number)?, DataType::Int64])
            }
            [_, places] => {
                plan_err!("{name} takes a whole number of places, not {}", crate::data_type::display(places))
            }
            _ => plan_err!("{name} takes 1 to 2 arguments, not {}", given.len()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of ROUND depends on its second argument")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let given = args.arg_fields[0].data_type();
        let places = match args.scalar_arguments.get(1) {
            None => Some(0),
            Some(literal) => literal.and_then(|literal| match literal.cast_to(&DataType::Int64) {
                Ok(ScalarValue::Int64(places)) => places,
                _ => None,
            }),
        };
        let data_type = match (given, places) {
            (DataType::Decimal128(precision, scale), Some(places)) => {
                decimal_type::rounded((*precision, *scale), places)
            }
            (other, _) => other.clone(),
        };
        Ok(Arc::new(Field::new(self.name, data_type, true)))
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = call.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { call.number_rows };
        let arrays = call.args.into_iter().map(|arg| arg.into_array(rows)).collect::<Result<Vec<_>>>()?;
        let places = arrays.get(1).map(|array| array.as_primitive::<Int64Type>());
        let result = rounded(&arrays[0], places, call.return_field.data_type(), self.cut)?;
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

fn rounded(
    array: &ArrayRef,
    places: Option<&PrimitiveArray<Int64Type>>,
    to: &DataType,
    cut: bool,
) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Int8 => each::<Int8Type>(array, places, |v, n| round_integer(v.into(), n, cut) as i8),
        DataType::Int16 => each::<Int16Type>(array, places, |v, n| round_integer(v.into(), n, cut) as i16),
        DataType::Int32 => each::<Int32Type>(array, places, |v, n| round_integer(v.into(), n, cut) as i32),
        DataType::Int64 => each::<Int64Type>(array, places, |v, n| round_integer(v, n, cut) as i64),
        DataType::Float32 => each::<Float32Type>(array, places, |v, n| round_float(v.into(), n, cut) as f32),
        DataType::Float64 => each::<Float64Type>(array, places, |v, n| round_float(v, n, cut)),
        DataType::Decimal128(_, scale) => {
            let DataType::Decimal128(precision, kept) = to else {
                return internal_err!("ROUND of a decimal gives {to}");
            };
            let most = power_of_ten((*precision).into());
            let values = array.as_primitive::<Decimal128Type>();
            let mut out = Decimal128Array::builder(values.len());
            for row in 0..values.len() {
                if values.is_null(row) || places.is_some_and(|places| places.is_null(row)) {
                    out.append_null();
                    continue;
                }
                let places = places.map_or(0, |places| places.value(row));
                let value = round_decimal(values.value(row), *scale, places, *kept, cut);
                out.append_option(value.filter(|value| value.unsigned_abs() < most.unsigned_abs()));
            }
            Arc::new(out.finish().with_precision_and_scale(*precision, *kept)?)
        }
        other => return internal_err!("ROUND of {other}"),
    })
}

fn each<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    places: Option<&PrimitiveArray<Int64Type>>,
    round: impl Fn(T::Native, i64) -> T::Native,
) -> ArrayRef {
    let values = array.as_primitive::<T>();
    match places {
        None => Arc::new(values.unary::<_, T>(|value| round(value, 0))),
        Some(places) => {
            let rounded = values.iter().zip(places).map(|(value, places)| Some(round(value?, places?)));
            Arc::new(rounded.collect::<PrimitiveArray<T>>())
        }
    }
}

fn round_integer(value: i64, places: i64, cut: bool) -> i128 {
    match places {
        0.. => value.into(),
        // Nineteen digits and a carry are all there can be.
        -20..0 => {
            let unit = power_of_ten(-places as u32);
            let units = if cut { i128::from(value) / unit } else { half_up_128(value.into(), unit) };
            units * unit
        }
        _ => 0,
    }
}

fn round_float(value: f64, places: i64, cut: bool) -> f64 {
    if !value.is_finite() {
        return value;
    }
    if cut {
        let mut digits = Digits::of(value);
        digits.cut(places);
        return digits.to_float();
    }
    let near = i32::try_from(places).ok().and_then(|places| Some((places, scaled(value, places)?)));
    match near {
        // Whole numbers and these powers are exact, so that dividing rounds once.
        // There is no negative zero among the digits.
        Some((places @ 0.., scaled)) => scaled / 10_f64.powi(places) + 0.0,
        Some((places, scaled)) => scaled * 10_f64.powi(-places) + 0.0,
        None => {
            let mut digits = Digits::of(value);
            digits.round(places);
            digits.to_float()
        }
    }
}

fn round_decimal(value: i128, scale: i8, places: i64, kept: i8, cut: bool) -> Option<i128> {
    let places = places.clamp(-39, i64::from(scale)) as i8;
    let lost = (scale - places) as u32;
    let rounded = match lost {
        39.. => 0,
        lost if cut => value / power_of_ten(lost),
        lost => half_up_128(value, power_of_ten(lost)),
    };
    // From `places` behind the point to the `kept` ones of the type.
    rounded.checked_mul(10_i128.checked_pow((kept - places).max(0) as u32)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_rounded_by_their_digits() {
        for (value, places, expected) in [
            (1.005, 2, 1.01),
            (-2.5, 0, -3.0),
            (0.285, 2, 0.29),
            (1e300, 2, 1e300),
            (12345.678, -2, 12300.0),
            (5e-324, 3, 0.0),
            (f64::INFINITY, 1, f64::INFINITY),
            (1.15, 300, 1.15),
        ] {
            assert_eq!(round_float(value, places, false), expected, "ROUND({value}, {places})");
        }
        assert!(round_float(f64::NAN, 0, false).is_nan());
    }

    #[test]
    fn whole_numbers_are_rounded_before_the_point() {
        assert_eq!(round_integer(15, -1, false), 20);
        assert_eq!(round_integer(-15, -1, false), -20);
        assert_eq!(round_integer(7, 3, false), 7);
        assert_eq!(round_integer(i64::MAX, -19, false), 10_i128.pow(19));
        assert_eq!(round_integer(i64::MIN, i64::MIN, false), 0);
    }
}
