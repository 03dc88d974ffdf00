//! A second evaluator, for small messages, where an array for each step costs more than the work; a property test holds
//! it to the results of the first.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Float64Array, PrimitiveArray, RecordBatch,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Schema, TimeUnit,
    TimestampMillisecondType,
};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::Selection;
use crate::float_comparison::FloatComparison;
use crate::operator::FEW_ROWS_MAX;

/// An expression prepared for batches of a few rows: a row at a time, without an array for every step.
///
/// Columns, constants, comparisons (DataFusion's, and those of [`FloatComparison`]), arithmetic, AND, OR, NOT, IS NULL and widening casts of integers, DOUBLE, dates,
/// timestamps, strings and booleans, with the results of DataFusion's kernels. Whatever it is not sure of, above all a
/// row that makes the expression fail, it leaves to them: it answers `None`, and the batch is evaluated as any other,
/// with the error that this gives.
#[derive(Debug)]
pub(crate) struct FewRows {
    node: Node,
    result: DataType,
}

#[derive(Debug)]
enum Node {
    Column(usize, Read),
    Constant(Constant),
    Compare(Box<[Node; 2]>, fn(Ordering) -> bool),
    CompareFloats(Box<[Node; 2]>, fn(f64, f64) -> bool),
    Arithmetic(Box<[Node; 2]>, Operator, Range),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Not(Box<Node>),
    IsNull(Box<Node>),
    IsNotNull(Box<Node>),
    ToDouble(Box<Node>),
}

type Read = fn(&dyn Array, usize) -> Value<'_>;

#[derive(Debug)]
enum Constant {
    Text(String),
    Other(Value<'static>),
}

/// Of what width an integer result is: wider ones wrap into it.
type Range = fn(i64) -> i64;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value<'a> {
    Null,
    Boolean(bool),
    Integer(i64),
    Double(f64),
    Text(&'a str),
}

/// Some of the rows of a batch.
struct RowSet(u32);

const _: () = assert!(FEW_ROWS_MAX <= u32::BITS as usize);

impl RowSet {
    fn add(&mut self, row: usize, is_in: bool) {
        self.0 |= u32::from(is_in) << row;
    }

    fn has(&self, row: usize) -> bool {
        self.0 >> row & 1 == 1
    }
}

/// Batches have at most [`FEW_ROWS_MAX`] rows.
impl FewRows {
    /// `None` if the expression, or a part of it, is of another kind.
    pub(crate) fn new(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> Option<FewRows> {
        let (node, result) = node(expr, input)?;
        Some(FewRows { node, result })
    }

    /// The rows for which a predicate is true.
    pub(crate) fn select(&self, rows: &RecordBatch) -> Option<Selection> {
        let mut kept = RowSet(0);
        for row in 0..rows.num_rows() {
            kept.add(row, self.node.value(rows.columns(), row)? == Value::Boolean(true));
        }
        Some(match kept.0.count_ones() as usize {
            0 => Selection::Nothing,
            count if count == rows.num_rows() => Selection::All,
            _ => Selection::Some((0..rows.num_rows()).map(|row| Some(kept.has(row))).collect()),
        })
    }

    /// The result for each row.
    pub(crate) fn evaluate(&self, rows: &RecordBatch) -> Option<ArrayRef> {
        let values = (0..rows.num_rows()).map(|row| self.node.value(rows.columns(), row));
        match self.result {
            DataType::Int8 => integers::<Int8Type>(values, |value| value as i8),
            DataType::Int16 => integers::<Int16Type>(values, |value| value as i16),
            DataType::Int32 => integers::<Int32Type>(values, |value| value as i32),
            DataType::Int64 => integers::<Int64Type>(values, |value| value),
            DataType::Float64 => {
                let (values, nulls) = collect(values, 0.0, |value| match value {
                    Value::Double(value) => Some(value),
                    _ => None,
                })?;
                Some(Arc::new(Float64Array::new(values.into(), nulls)))
            }
            DataType::Boolean => {
                let (values, nulls) = collect(values, false, |value| match value {
                    Value::Boolean(value) => Some(value),
                    _ => None,
                })?;
                Some(Arc::new(BooleanArray::new(values.into(), nulls)))
            }
            _ => None,
        }
    }
}

fn integers<'a, T: ArrowPrimitiveType>(
    values: impl ExactSizeIterator<Item = Option<Value<'a>>>,
    narrow: fn(i64) -> T::Native,
) -> Option<ArrayRef> {
    let (values, nulls) = collect(values, T::default_value(), |value| match value {
        Value::Integer(value) => Some(narrow(value)),
        _ => None,
    })?;
    Some(Arc::new(PrimitiveArray::<T>::new(values.into(), nulls)))
}

/// Values with their NULLs. `None` where a value is missing or of another type.
fn collect<'a, V: Copy>(
    values: impl ExactSizeIterator<Item = Option<Value<'a>>>,
    null: V,
    of: impl Fn(Value<'a>) -> Option<V>,
) -> Option<(Vec<V>, Option<NullBuffer>)> {
    let rows = values.len();
    let mut collected = Vec::with_capacity(rows);
    let mut nulls = RowSet(0);
    for (row, value) in values.enumerate() {
        let value = value?;
        nulls.add(row, value == Value::Null);
        collected.push(if value == Value::Null { null } else { of(value)? });
    }
    Some((collected, (nulls.0 != 0).then(|| (0..rows).map(|row| !nulls.has(row)).collect())))
}

impl Node {
    fn value<'a>(&'a self, columns: &'a [ArrayRef], row: usize) -> Option<Value<'a>> {
        Some(match self {
            Node::Column(index, read) => {
                let column = columns[*index].as_ref();
                if column.is_null(row) { Value::Null } else { read(column, row) }
            }
            Node::Constant(Constant::Text(text)) => Value::Text(text),
            Node::Constant(Constant::Other(value)) => *value,
            Node::Compare(sides, holds) => match both(sides, columns, row)? {
                (Value::Null, _) | (_, Value::Null) => Value::Null,
                (left, right) => Value::Boolean(holds(order(left, right)?)),
            },
            Node::CompareFloats(sides, holds) => match both(sides, columns, row)? {
                (Value::Double(left), Value::Double(right)) => Value::Boolean(holds(left, right)),
                _ => Value::Null,
            },
            Node::Arithmetic(sides, operator, range) => match both(sides, columns, row)? {
                (Value::Null, _) | (_, Value::Null) => Value::Null,
                (left, right) => arithmetic(*operator, left, right, *range)?,
            },
            // Both sides are evaluated, as for a batch: what fails on one side fails whatever the other is.
            Node::And(sides) => match both(sides, columns, row)? {
                (Value::Boolean(false), _) | (_, Value::Boolean(false)) => Value::Boolean(false),
                (Value::Boolean(true), Value::Boolean(true)) => Value::Boolean(true),
                _ => Value::Null,
            },
            Node::Or(sides) => match both(sides, columns, row)? {
                (Value::Boolean(true), _) | (_, Value::Boolean(true)) => Value::Boolean(true),
                (Value::Boolean(false), Value::Boolean(false)) => Value::Boolean(false),
                _ => Value::Null,
            },
            Node::Not(inner) => match inner.value(columns, row)? {
                Value::Boolean(value) => Value::Boolean(!value),
                _ => Value::Null,
            },
            Node::IsNull(inner) => Value::Boolean(inner.value(columns, row)? == Value::Null),
            Node::IsNotNull(inner) => Value::Boolean(inner.value(columns, row)? != Value::Null),
            Node::ToDouble(inner) => match inner.value(columns, row)? {
                Value::Integer(value) => Value::Double(value as f64),
                _ => Value::Null,
            },
        })
    }
}

fn both<'a>(sides: &'a [Node; 2], columns: &'a [ArrayRef], row: usize) -> Option<(Value<'a>, Value<'a>)> {
    Some((sides[0].value(columns, row)?, sides[1].value(columns, row)?))
}

/// As DataFusion compares: NaN is equal to itself and above all, and there is one zero.
fn order(left: Value<'_>, right: Value<'_>) -> Option<Ordering> {
    let one_zero = |value: f64| if value == 0.0 { 0.0 } else { value };
    Some(match (left, right) {
        (Value::Integer(left), Value::Integer(right)) => left.cmp(&right),
        (Value::Double(left), Value::Double(right)) => one_zero(left).total_cmp(&one_zero(right)),
        (Value::Text(left), Value::Text(right)) => left.cmp(right),
        (Value::Boolean(left), Value::Boolean(right)) => left.cmp(&right),
        _ => return None,
    })
}

fn arithmetic<'a>(operator: Operator, left: Value<'a>, right: Value<'a>, range: Range) -> Option<Value<'a>> {
    Some(match (left, right) {
        (Value::Integer(left), Value::Integer(right)) => Value::Integer(range(match operator {
            Operator::Plus => left.wrapping_add(right),
            Operator::Minus => left.wrapping_sub(right),
            Operator::Multiply => left.wrapping_mul(right),
            // By zero it fails, and by -1 it may overflow.
            Operator::Divide if !matches!(right, 0 | -1) => left / right,
            Operator::Modulo if !matches!(right, 0 | -1) => left % right,
            _ => return None,
        })),
        (Value::Double(left), Value::Double(right)) => Value::Double(match operator {
            Operator::Plus => left + right,
            Operator::Minus => left - right,
            Operator::Multiply => left * right,
            Operator::Divide => left / right,
            Operator::Modulo => left % right,
            _ => return None,
        }),
        _ => return None,
    })
}

fn constant(value: &ScalarValue) -> Option<Constant> {
    Some(Constant::Other(match value {
        value if value.is_null() => Value::Null,
        ScalarValue::Boolean(Some(value)) => Value::Boolean(*value),
        ScalarValue::Int8(Some(value)) => Value::Integer(i64::from(*value)),
        ScalarValue::Int16(Some(value)) => Value::Integer(i64::from(*value)),
        ScalarValue::Int32(Some(value)) | ScalarValue::Date32(Some(value)) => {
            Value::Integer(i64::from(*value))
        }
        ScalarValue::Int64(Some(value)) | ScalarValue::TimestampMillisecond(Some(value), _) => {
            Value::Integer(*value)
        }
        ScalarValue::Float64(Some(value)) => Value::Double(*value),
        ScalarValue::Utf8(Some(value)) => return Some(Constant::Text(value.clone())),
        _ => return None,
    }))
}

fn read(data_type: &DataType) -> Option<Read> {
    fn integer<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> Value<'_>
    where
        T::Native: Into<i64>,
    {
        Value::Integer(array.as_primitive::<T>().value(row).into())
    }
    Some(match data_type {
        DataType::Int8 => integer::<Int8Type>,
        DataType::Int16 => integer::<Int16Type>,
        DataType::Int32 => integer::<Int32Type>,
        DataType::Int64 => integer::<Int64Type>,
        DataType::Date32 => integer::<Date32Type>,
        DataType::Timestamp(TimeUnit::Millisecond, _) => integer::<TimestampMillisecondType>,
        DataType::Float64 => |array, row| Value::Double(array.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => |array, row| Value::Boolean(array.as_boolean().value(row)),
        DataType::Utf8 => |array, row| Value::Text(array.as_string::<i32>().value(row)),
        _ => return None,
    })
}

/// The expression with the type of its result.
fn node(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> Option<(Node, DataType)> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        let data_type = input.fields().get(column.index())?.data_type();
        return Some((Node::Column(column.index(), read(data_type)?), data_type.clone()));
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        let data_type = literal.value().data_type();
        read(&data_type)?;
        return Some((Node::Constant(constant(literal.value())?), data_type));
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let (inner, from) = node(&cast.expr, input)?;
        let to = cast.cast_type().clone();
        return match (width(&from)?, width(&to)) {
            (from, Some(to_width)) if from <= to_width => Some((inner, to)),
            (_, None) if to == DataType::Float64 => Some((Node::ToDouble(Box::new(inner)), to)),
            _ => None,
        };
    }
    let one = |inner: &Arc<dyn PhysicalExpr>| Some(Box::new(node(inner, input)?.0));
    let boolean = |node| Some((node, DataType::Boolean));
    if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
        return boolean(Node::IsNull(one(is_null.arg())?));
    }
    if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
        return boolean(Node::IsNotNull(one(is_not_null.arg())?));
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        return boolean(Node::Not(one(not.arg())?));
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        let comparison = call.fun().inner().downcast_ref::<FloatComparison>()?;
        let [left, right] = call.args() else { return None };
        let ((left, of), (right, other)) = (node(left, input)?, node(right, input)?);
        let doubles = of == DataType::Float64 && other == of;
        return doubles
            .then(|| (Node::CompareFloats(Box::new([left, right]), comparison.holds()), DataType::Boolean));
    }
    binary(expr.downcast_ref::<BinaryExpr>()?, input)
}

fn binary(expr: &BinaryExpr, input: &Schema) -> Option<(Node, DataType)> {
    // One that fails on overflow does not equal this one.
    if *expr != BinaryExpr::new(Arc::clone(expr.left()), *expr.op(), Arc::clone(expr.right())) {
        return None;
    }
    let (left, of) = node(expr.left(), input)?;
    let (right, other) = node(expr.right(), input)?;
    if of != other {
        return None;
    }
    let sides = Box::new([left, right]);
    let compare = |holds: fn(Ordering) -> bool, sides| Some((Node::Compare(sides, holds), DataType::Boolean));
    match expr.op() {
        Operator::Eq => compare(Ordering::is_eq, sides),
        Operator::NotEq => compare(Ordering::is_ne, sides),
        Operator::Lt => compare(Ordering::is_lt, sides),
        Operator::LtEq => compare(Ordering::is_le, sides),
        Operator::Gt => compare(Ordering::is_gt, sides),
        Operator::GtEq => compare(Ordering::is_ge, sides),
        Operator::And if of == DataType::Boolean => Some((Node::And(sides), of)),
        Operator::Or if of == DataType::Boolean => Some((Node::Or(sides), of)),
        operator if operator.is_numerical_operators() => {
            let range: Range = match of {
                DataType::Int8 => |value| i64::from(value as i8),
                DataType::Int16 => |value| i64::from(value as i16),
                DataType::Int32 => |value| i64::from(value as i32),
                DataType::Int64 | DataType::Float64 => |value| value,
                _ => return None,
            };
            Some((Node::Arithmetic(sides, *operator, range), of))
        }
        _ => None,
    }
}

/// Bytes of a signed integer.
fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => data_type.primitive_width(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
