//! Arithmetic of decimals with Flink's precision, scale and rounding; what does not fit 38 digits is NULL and no error.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DataType, i256};
use arrow::error::ArrowError;
use datafusion_common::{DataFusionError, Result, internal_err};

use crate::{FlinkFunction, Parameter, decimal_type, pure};

/// `a / b`, rounded half up to Flink's scale.
pub const DECIMAL_DIVIDE: &str = "flink_decimal_divide";
/// `a * b` where the product may have more than 38 digits; NULL if it has.
pub const DECIMAL_MULTIPLY: &str = "flink_decimal_multiply";
/// `a + b` likewise.
pub const DECIMAL_ADD: &str = "flink_decimal_add";
/// `a - b` likewise.
pub const DECIMAL_SUBTRACT: &str = "flink_decimal_subtract";

pub(crate) const FUNCTIONS: &[FlinkFunction] = &[
    operator(DECIMAL_DIVIDE, |types| of_parts(types, decimal_type::quotient), divide),
    operator(DECIMAL_MULTIPLY, |types| of_parts(types, decimal_type::product), multiply),
    operator(DECIMAL_ADD, |types| of_parts(types, decimal_type::sum), |args, _| add(args, false)),
    operator(DECIMAL_SUBTRACT, |types| of_parts(types, decimal_type::sum), |args, _| add(args, true)),
];

const fn operator(
    name: &'static str,
    returns: fn(&[DataType]) -> DataType,
    invoke: fn(&[ArrayRef], usize) -> Result<ArrayRef>,
) -> FlinkFunction {
    FlinkFunction { name, parameters: &[Parameter::Any], least: 2, most: 2, returns, invoke, signature: pure }
}

fn of_parts(types: &[DataType], result: fn((u8, i8), (u8, i8)) -> DataType) -> DataType {
    match types {
        [DataType::Decimal128(p1, s1), DataType::Decimal128(p2, s2)] => result((*p1, *s1), (*p2, *s2)),
        _ => DataType::Null,
    }
}

/// The operands and the type of the result.
struct Operands<'a> {
    left: &'a Decimal128Array,
    right: &'a Decimal128Array,
    precision: u8,
    scale: i8,
}

impl<'a> Operands<'a> {
    fn new(args: &'a [ArrayRef], result: fn((u8, i8), (u8, i8)) -> DataType) -> Result<Operands<'a>> {
        let types = [args[0].data_type().clone(), args[1].data_type().clone()];
        let DataType::Decimal128(precision, scale) = of_parts(&types, result) else {
            return internal_err!("{types:?} are not decimals");
        };
        Ok(Operands { left: args[0].as_primitive(), right: args[1].as_primitive(), precision, scale })
    }

    /// Computes row by row; `None` is NULL, as is a result of too many digits.
    fn each(&self, compute: impl Fn(i128, i128) -> Result<Option<i128>>) -> Result<ArrayRef> {
        let most = power_of_ten(self.precision.into());
        let mut out = Decimal128Array::builder(self.left.len());
        for row in 0..self.left.len() {
            if self.left.is_null(row) || self.right.is_null(row) {
                out.append_null();
                continue;
            }
            let value = compute(self.left.value(row), self.right.value(row))?;
            out.append_option(value.filter(|value| value.unsigned_abs() < most.unsigned_abs()));
        }
        Ok(Arc::new(out.finish().with_precision_and_scale(self.precision, self.scale)?))
    }
}

fn divide(args: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
    let operands = Operands::new(args, decimal_type::quotient)?;
    // left / 10^s1 ÷ (right / 10^s2) = left · 10^(s − s1 + s2) / right / 10^s.
    let shift =
        i32::from(operands.scale) - i32::from(operands.left.scale()) + i32::from(operands.right.scale());
    let (up, down) = (shift.max(0) as u32, (-shift).max(0) as u32);
    let narrow_up = (up <= 38).then(|| power_of_ten(up));
    operands.each(|left, right| {
        if right == 0 {
            return Err(DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None));
        }
        if down == 0
            && let Some(numerator) = narrow_up.and_then(|power| left.checked_mul(power))
        {
            return Ok(Some(half_up_128(numerator, right)));
        }
        let numerator = i256::from_i128(left).checked_mul(wide_power_of_ten(up));
        let denominator = i256::from_i128(right).checked_mul(wide_power_of_ten(down));
        Ok(numerator.zip(denominator).and_then(|(n, d)| half_up_256(n, d)))
    })
}

fn multiply(args: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
    let operands = Operands::new(args, decimal_type::product)?;
    let scale = i32::from(operands.left.scale()) + i32::from(operands.right.scale());
    let lost = wide_power_of_ten((scale - i32::from(operands.scale)).max(0) as u32);
    operands.each(|left, right| {
        let product = i256::from_i128(left).wrapping_mul(i256::from_i128(right));
        Ok(half_up_256(product, lost))
    })
}

fn add(args: &[ArrayRef], negate: bool) -> Result<ArrayRef> {
    let operands = Operands::new(args, decimal_type::sum)?;
    let (s1, s2) = (i32::from(operands.left.scale()), i32::from(operands.right.scale()));
    let scale = s1.max(s2);
    let (up_left, up_right) =
        (wide_power_of_ten((scale - s1) as u32), wide_power_of_ten((scale - s2) as u32));
    let lost = wide_power_of_ten((scale - i32::from(operands.scale)).max(0) as u32);
    operands.each(|left, right| {
        // 38 digits times 10^38 is less than 2^255.
        let left = i256::from_i128(left).wrapping_mul(up_left);
        let right = i256::from_i128(right).wrapping_mul(up_right);
        let sum = if negate { left.checked_sub(right) } else { left.checked_add(right) };
        Ok(sum.and_then(|sum| half_up_256(sum, lost)))
    })
}

/// `10^exponent`, up to 38.
pub(crate) fn power_of_ten(exponent: u32) -> i128 {
    10_i128.pow(exponent)
}

fn wide_power_of_ten(exponent: u32) -> i256 {
    i256::from_i128(10).wrapping_pow(exponent)
}

/// `numerator / denominator` rounded half away from zero, as Java's HALF_UP.
pub(crate) fn half_up_128(numerator: i128, denominator: i128) -> i128 {
    let (quotient, rest) = (numerator / denominator, numerator % denominator);
    let twice = rest.unsigned_abs().saturating_mul(2);
    if twice < denominator.unsigned_abs() {
        return quotient;
    }
    if (numerator < 0) == (denominator < 0) { quotient + 1 } else { quotient - 1 }
}

fn half_up_256(numerator: i256, denominator: i256) -> Option<i128> {
    let quotient = numerator.checked_div(denominator)?;
    let rest = numerator.checked_rem(denominator)?.checked_abs()?;
    let half = denominator.checked_abs()?.checked_sub(rest)?;
    let one = match (rest.cmp(&half), numerator.is_negative() == denominator.is_negative()) {
        (Ordering::Less, _) => i256::ZERO,
        (_, true) => i256::ONE,
        (_, false) => i256::MINUS_ONE,
    };
    quotient.checked_add(one)?.to_i128()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Decimal128Type;

    #[test]
    fn halves_go_away_from_zero() {
        for (numerator, denominator, expected) in
            [(5, 2, 3), (-5, 2, -3), (5, -2, -3), (-5, -2, 3), (4, 3, 1), (-4, 3, -1), (0, 7, 0), (1, 3, 0)]
        {
            assert_eq!(half_up_128(numerator, denominator), expected, "{numerator}/{denominator}");
            let wide = half_up_256(i256::from_i128(numerator), i256::from_i128(denominator));
            assert_eq!(wide, Some(expected), "{numerator}/{denominator}");
        }
    }

    fn decimals(values: &[Option<i128>], precision: u8, scale: i8) -> ArrayRef {
        let array = Decimal128Array::from(values.to_vec());
        Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
    }

    #[test]
    fn what_does_not_fit_is_null() {
        let most = power_of_ten(38) - 1;
        let args = [
            decimals(&[Some(most), Some(most), None], 38, 0),
            decimals(&[Some(1), Some(-1), Some(0)], 38, 0),
        ];
        let sum = add(&args, false).unwrap();
        assert_eq!(
            sum.as_primitive::<Decimal128Type>().iter().collect::<Vec<_>>(),
            [None, Some(most - 1), None]
        );
        let product = multiply(&args, 3).unwrap();
        assert_eq!(
            product.as_primitive::<Decimal128Type>().iter().collect::<Vec<_>>(),
            [Some(most), Some(-most), None]
        );
        // NULL / 0 is NULL: only a division that is done can fail.
        let quotient = divide(&args, 3).unwrap();
        assert!(quotient.is_null(2));
        assert!(divide(&[decimals(&[Some(1)], 38, 0), decimals(&[Some(0)], 38, 0)], 1).is_err());
    }
}
