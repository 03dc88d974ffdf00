//! Comparisons of FLOATs and DOUBLEs as Java's operators do them: NaN is not equal to anything, nor less or
//! greater, and -0 is equal to 0. Arrow orders all values instead.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion_common::{DFSchema, Result, ScalarValue, exec_err};
use datafusion_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, cast,
};

/// A comparison as Java makes it. `None` if it is not one of floats.
pub(crate) fn of_floats(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    comparison(expr, schema, false)
}

/// The same by `Double.compare`, as Flink compares decimals with floats: NaN is the largest, and -0 less than 0.
pub(crate) fn in_order_of_floats(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    comparison(expr, schema, true)
}

fn comparison(expr: &Expr, schema: &DFSchema, ordered: bool) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    let is_float = |side: &Expr| matches!(side.get_type(schema), Ok(DataType::Float32 | DataType::Float64));
    if Comparison::names(*op).is_none() || !is_float(left) || !is_float(right) {
        return None;
    }
    let common = match (left.get_type(schema), right.get_type(schema)) {
        (Ok(left), Ok(right)) if left == right => left,
        _ => DataType::Float64,
    };
    let side = |side: &Expr| match side.get_type(schema) {
        Ok(given) if given == common => side.clone(),
        _ => cast(side.clone(), common.clone()),
    };
    let signature = Signature::any(2, Volatility::Immutable);
    let function = ScalarUDF::new_from_impl(Comparison { op: *op, ordered, signature });
    Some(function.call(vec![side(left), side(right)]))
}

/// The same for the equality of columns that turned out not to be the keys of a join. What a decimal is compared with is left alone:
/// Flink compares such in the order that Arrow has.
pub(crate) fn float_columns_compared(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    let is_column = |side: &Expr| match side {
        Expr::Column(_) => true,
        Expr::Cast(cast) => {
            matches!(cast.expr.as_ref(), Expr::Column(_))
                && !matches!(cast.expr.get_type(schema), Ok(DataType::Decimal128(..)))
        }
        _ => false,
    };
    if *op == Operator::Eq && is_column(left) && is_column(right) && left != right {
        of_floats(expr, schema)
    } else {
        None
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Comparison {
    op: Operator,
    ordered: bool,
    signature: Signature,
}

impl Comparison {
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
            let holds: fn(std::cmp::Ordering) -> bool = match self.op {
                Operator::Eq => |order| order.is_eq(),
                Operator::NotEq => |order| order.is_ne(),
                Operator::Lt => |order| order.is_lt(),
                Operator::LtEq => |order| order.is_le(),
                Operator::Gt => |order| order.is_gt(),
                _ => |order| order.is_ge(),
            };
            // A NaN may have a sign.
            let key = |value: T::Native| {
                let value: f64 = value.into();
                if value.is_nan() { f64::NAN } else { value }
            };
            return Ok(Arc::new(left.each(&right, |l, r| holds(key(l).total_cmp(&key(r))))));
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

impl ScalarUDFImpl for Comparison {
    fn name(&self) -> &str {
        if self.ordered { "float_order" } else { Comparison::names(self.op).unwrap_or("float_compare") }
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
                Comparison { op, ordered: false, signature: Signature::any(2, Volatility::Immutable) };
            let result = comparison.compare::<Float64Type>(left, right).unwrap();
            assert_eq!(result.as_boolean(), &BooleanArray::from(expected.to_vec()), "{op}");
        };
        check(Operator::Eq, &left, &right, [Some(false), Some(true), Some(false), None]);
        check(Operator::NotEq, &left, &right, [Some(true), Some(false), Some(true), None]);
        check(Operator::GtEq, &left, &one, [Some(false), Some(false), Some(true), None]);
        let ordered = Comparison {
            op: Operator::Gt,
            ordered: true,
            signature: Signature::any(2, Volatility::Immutable),
        };
        let minus_nan = values(vec![Some(-f64::NAN)]);
        assert!(ordered.compare::<Float64Type>(&minus_nan, &one).unwrap().as_boolean().value(0));
        check(Operator::Lt, &one, &right, [Some(false), Some(false), Some(true), Some(false)]);
    }
}
