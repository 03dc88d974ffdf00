//! Precision and scale of decimal results: Flink's `LogicalTypeMerging`.

use arrow::datatypes::DataType;

const PRECISION_MAX: i32 = 38;
/// Digits after the point that are kept, if there are as many, when the whole does not fit.
const SCALE_KEPT: i32 = 6;

type Parts = (u8, i8);

/// Whether every sum or difference of two such decimals fits into 38 digits.
pub fn sum_fits(left: Parts, right: Parts) -> bool {
    sum_parts(left, right).0 <= PRECISION_MAX
}

/// The same for their product.
pub fn product_fits(left: Parts, right: Parts) -> bool {
    product_parts(left, right).0 <= PRECISION_MAX
}

/// Type of a sum or a difference.
pub(crate) fn sum(left: Parts, right: Parts) -> DataType {
    adjusted(sum_parts(left, right))
}

/// Type of a product.
pub(crate) fn product(left: Parts, right: Parts) -> DataType {
    adjusted(product_parts(left, right))
}

/// Type of a quotient.
pub(crate) fn quotient((p1, s1): Parts, (p2, s2): Parts) -> DataType {
    let scale = SCALE_KEPT.max(i32::from(s1) + i32::from(p2) + 1);
    adjusted((i32::from(p1) - i32::from(s1) + i32::from(s2) + scale, scale))
}

/// Type of `ROUND(x, places)`.
pub(crate) fn rounded((precision, scale): Parts, places: i64) -> DataType {
    let (precision, scale) = (i32::from(precision), i32::from(scale));
    if places >= i64::from(scale) {
        return decimal(precision, scale);
    }
    // Rounding up may need one more digit.
    match i32::try_from(places) {
        Ok(places @ 0..) => decimal(1 + precision - scale + places, places),
        _ => decimal(PRECISION_MAX.min(1 + precision - scale), 0),
    }
}

fn sum_parts((p1, s1): Parts, (p2, s2): Parts) -> (i32, i32) {
    let scale = i32::from(s1.max(s2));
    let whole = (i32::from(p1) - i32::from(s1)).max(i32::from(p2) - i32::from(s2));
    (whole + scale + 1, scale)
}

fn product_parts((p1, s1): Parts, (p2, s2): Parts) -> (i32, i32) {
    (i32::from(p1) + i32::from(p2) + 1, i32::from(s1) + i32::from(s2))
}

/// Gives up digits after the point, down to six, for those before it.
fn adjusted((precision, scale): (i32, i32)) -> DataType {
    if precision <= PRECISION_MAX {
        return decimal(precision, scale);
    }
    let whole = precision - scale;
    decimal(PRECISION_MAX, (PRECISION_MAX - whole).max(scale.min(SCALE_KEPT)))
}

fn decimal(precision: i32, scale: i32) -> DataType {
    DataType::Decimal128(precision as u8, scale as i8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_flinks_precision_and_scale() {
        use DataType::Decimal128;
        // Worked out from the formulas in Flink's LogicalTypeMerging.
        assert_eq!(quotient((10, 2), (10, 2)), Decimal128(23, 13));
        assert_eq!(quotient((10, 2), (19, 0)), Decimal128(30, 22));
        assert_eq!(quotient((38, 2), (19, 0)), Decimal128(38, 6));
        assert_eq!(quotient((4, 0), (1, 0)), Decimal128(10, 6));
        assert_eq!(product((38, 10), (38, 10)), Decimal128(38, 6));
        assert_eq!(product((10, 2), (10, 2)), Decimal128(21, 4));
        assert_eq!(sum((38, 2), (10, 6)), Decimal128(38, 6));
        assert_eq!(sum((38, 18), (38, 18)), Decimal128(38, 17));
        assert_eq!(rounded((10, 2), 1), Decimal128(10, 1));
        assert_eq!(rounded((10, 2), 5), Decimal128(10, 2));
        assert_eq!(rounded((10, 2), -1), Decimal128(9, 0));
        assert!(sum_fits((37, 2), (37, 2)) && !sum_fits((38, 2), (1, 0)));
        assert!(product_fits((19, 0), (18, 2)) && !product_fits((19, 0), (19, 0)));
    }
}
