use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int8Array, Int16Array, Int32Array};
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::Result;

use super::{FlinkFunction, Parameter, pure};

pub(super) const FUNCTIONS: &[FlinkFunction] = &[
    narrow(
        "flink_narrow_8",
        |_| DataType::Int8,
        |args, _| {
            let values = args[0].as_primitive::<Int64Type>();
            Ok(Arc::new(Int8Array::from_iter(values.iter().map(|v| v.map(|v| v as i8)))) as ArrayRef)
        },
    ),
    narrow(
        "flink_narrow_16",
        |_| DataType::Int16,
        |args, _| {
            let values = args[0].as_primitive::<Int64Type>();
            Ok(Arc::new(Int16Array::from_iter(values.iter().map(|v| v.map(|v| v as i16)))) as ArrayRef)
        },
    ),
    narrow(
        "flink_narrow_32",
        |_| DataType::Int32,
        |args, _| {
            let values = args[0].as_primitive::<Int64Type>();
            Ok(Arc::new(Int32Array::from_iter(values.iter().map(|v| v.map(|v| v as i32)))) as ArrayRef)
        },
    ),
];

/// A BIGINT as a smaller integer, wrapping around: Flink's SUM(INT) is an INT that overflows silently.
const fn narrow(
    name: &'static str,
    returns: fn(&[DataType]) -> DataType,
    invoke: fn(&[ArrayRef], usize) -> Result<ArrayRef>,
) -> FlinkFunction {
    FlinkFunction {
        name,
        parameters: &[Parameter::Long],
        least: 1,
        most: 1,
        returns,
        invoke,
        signature: pure,
    }
}
