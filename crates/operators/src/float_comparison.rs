//! Where NaN and -0 stand in comparisons: Flink and Arrow differ, and Flink is followed, in generated code and in
//! `compare` alike.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::{
    ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// A comparison of two FLOATs or two DOUBLEs as Flink makes it. Arrow orders all values instead.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct FloatComparison {
    op: Operator,
    ordered: bool,
    signature: Signature,
}

impl FloatComparison {
    /// Without `ordered` as Java's operators do it: NaN is not equal to anything, nor less or greater, and -0 is equal
    /// to 0. With it by `Double.compare`: NaN is the largest, and -0 less than 0. `None` if `op` is no comparison.
    pub fn function(op: Operator, ordered: bool) -> Option<ScalarUDF> {
        FloatComparison::names(op)?;
        let signature = Signature::any(2, Volatility::Immutable);
        Some(ScalarUDF::new_from_impl(FloatComparison { op, ordered, signature }))
    }

    /// Which comparison it is.
    pub(crate) fn op(&self) -> Operator {
        self.op
    }

    /// For one pair of values.
    pub(crate) fn holds(&self) -> fn(f64, f64) -> bool {
        match (self.ordered, self.op) {
            (false, Operator::Eq) => |l, r| l == r,
            (false, Operator::NotEq) => |l, r| l != r,
            (false, Operator::Lt) => |l, r| l < r,
            (false, Operator::LtEq) => |l, r| l <= r,
            (false, Operator::Gt) => |l, r| l > r,
            (false, _) => |l, r| l >= r,
            (true, Operator::Eq) => |l, r| java_order(l, r).is_eq(),
            (true, Operator::NotEq) => |l, r| java_order(l, r).is_ne(),
            (true, Operator::Lt) => |l, r| java_order(l, r).is_lt(),
            (true, Operator::LtEq) => |l, r| java_order(l, r).is_le(),
            (true, Operator::Gt) => |l, r| java_order(l, r).is_gt(),
            (true, _) => |l, r| java_order(l, r).is_ge(),
        }
    }

    fn names(op: Operator) -> Option<&'static str> {
        Some(match op {
            Operator::Eq => "float_eq",
            Operator::NotEq => "float_ne",
            Operator::Lt => "float_lt",
            Operator::LtEq => "float_le",
            Operator::Gt => "float_gt",
            Operator::GtEq => "float_ge",
            _ => return None,
        })
    }

    fn compare<T: ArrowPrimitiveType>(&self, left: &ColumnarValue, right: &ColumnarValue) -> Result<ArrayRef>
    where
        T::Native: PartialOrd + Into<f64>,
    {
        let left = Side::<T>::new(left)?;
        let right = Side::<T>::new(right)?;
        if self.ordered {
            let holds = self.holds();
            return Ok(Arc::new(left.each(&right, |l, r| holds(l.into(), r.into()))));
        }
        Ok(Arc::new(match self.op {
            Operator::Eq => left.each(&right, |l, r| l == r),
            Operator::NotEq => left.each(&right, |l, r| l != r),
            Operator::Lt => left.each(&right, |l, r| l < r),
            Operator::LtEq => left.each(&right, |l, r| l <= r),
            Operator::Gt => left.each(&right, |l, r| l > r),
            _ => left.each(&right, |l, r| l >= r),
        }))
    }
}

impl ScalarUDFImpl for FloatComparison {
    fn name(&self) -> &str {
        if self.ordered { "float_order" } else { FloatComparison::names(self.op).unwrap_or("float_compare") }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = call.args.as_slice() else { return exec_err!("a comparison has two sides") };
        let result = match left.data_type() {
            DataType::Float32 => self.compare::<Float32Type>(left, right)?,
            _ => self.compare::<Float64Type>(left, right)?,
        };
        match (left, right) {
            (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)) => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
            }
            _ => Ok(ColumnarValue::Array(result)),
        }
    }
}

/// `Double.compare`. A NaN may have a sign, which does not count.
fn java_order(left: f64, right: f64) -> std::cmp::Ordering {
    let key = |value: f64| if value.is_nan() { f64::NAN } else { value };
    key(left).total_cmp(&key(right))
}

/// One side: a column, or a value that stands for all rows (`None` is NULL).
enum Side<T: ArrowPrimitiveType> {
    Column(PrimitiveArray<T>),
    Value(Option<T::Native>),
}

impl<T: ArrowPrimitiveType> Side<T> {
    fn new(value: &ColumnarValue) -> Result<Side<T>> {
        Ok(match value {
            ColumnarValue::Array(array) => Side::Column(array.as_primitive::<T>().clone()),
            ColumnarValue::Scalar(scalar) => {
                let array = scalar.to_array()?;
                let array = array.as_primitive::<T>();
                Side::Value(array.is_valid(0).then(|| array.value(0)))
            }
        })
    }

    fn each(&self, other: &Side<T>, holds: impl Fn(T::Native, T::Native) -> bool) -> BooleanArray {
        match (self, other) {
            (Side::Column(left), Side::Column(right)) => {
                let (l, r) = (left.values(), right.values());
                let values = BooleanBuffer::collect_bool(l.len(), |row| holds(l[row], r[row]));
                BooleanArray::new(values, NullBuffer::union(left.nulls(), right.nulls()))
            }
            (Side::Column(left), Side::Value(Some(right))) => {
                let l = left.values();
                let values = BooleanBuffer::collect_bool(l.len(), |row| holds(l[row], *right));
                BooleanArray::new(values, left.nulls().cloned())
            }
            (Side::Value(Some(left)), Side::Column(right)) => {
                let r = right.values();
                let values = BooleanBuffer::collect_bool(r.len(), |row| holds(*left, r[row]));
                BooleanArray::new(values, right.nulls().cloned())
            }
            (Side::Value(Some(left)), Side::Value(Some(right))) => {
                BooleanArray::from(vec![holds(*left, *right)])
            }
            (Side::Column(rows), _) | (_, Side::Column(rows)) => BooleanArray::new_null(rows.len()),
            _ => BooleanArray::new_null(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_unequal_and_zeros_are_equal() {
        let values = |values: Vec<Option<f64>>| {
            ColumnarValue::Array(Arc::new(PrimitiveArray::<Float64Type>::from(values)))
        };
        let left = values(vec![Some(f64::NAN), Some(-0.0), Some(1.0), None]);
        let right = values(vec![Some(f64::NAN), Some(0.0), Some(2.0), Some(1.0)]);
        let one = ColumnarValue::Scalar(ScalarValue::Float64(Some(1.0)));
        let check = |op, left: &ColumnarValue, right: &ColumnarValue, expected: [Option<bool>; 4]| {
            let comparison =
                FloatComparison { op, ordered: false, signature: Signature::any(2, Volatility::Immutable) };
            let result = comparison.compare::<Float64Type>(left, right).unwrap();
            assert_eq!(result.as_boolean(), &BooleanArray::from(expected.to_vec()), "{op}");
        };
        check(Operator::Eq, &left, &right, [Some(false), Some(true), Some(false), None]);
        check(Operator::NotEq, &left, &right, [Some(true), Some(false), Some(true), None]);
        check(Operator::GtEq, &left, &one, [Some(false), Some(false), Some(true), None]);
        let ordered = FloatComparison {
            op: Operator::Gt,
            ordered: true,
            signature: Signature::any(2, Volatility::Immutable),
        };
        let minus_nan = values(vec![Some(-f64::NAN)]);
        assert!(ordered.compare::<Float64Type>(&minus_nan, &one).unwrap().as_boolean().value(0));
        check(Operator::Lt, &one, &right, [Some(false), Some(false), Some(true), Some(false)]);
    }
}
