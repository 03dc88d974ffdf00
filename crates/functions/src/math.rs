//! Functions of DOUBLEs, as Java's `Math` has them: of any number, NaN and infinities where there is no value.

use std::f64::consts::LN_2;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Float64Type};
use datafusion_common::Result;

use crate::{FlinkFunction, Parameter, pure};

pub(crate) const FUNCTIONS: &[FlinkFunction] = &[
    // Math.pow(x, 0.5), which is 0 of -0 and Infinity of -Infinity.
    of_one("sqrt", |args, _| {
        one(args, |x| if x == f64::NEG_INFINITY { f64::INFINITY } else { x.sqrt() + 0.0 })
    }),
    of_one("exp", |args, _| one(args, f64::exp)),
    of_one("ln", |args, _| one(args, f64::ln)),
    of_one("log10", |args, _| one(args, f64::log10)),
    of_one("log2", |args, _| one(args, |x| x.ln() / LN_2)),
    of_one("sin", |args, _| one(args, f64::sin)),
    of_one("cos", |args, _| one(args, f64::cos)),
    of_one("tan", |args, _| one(args, f64::tan)),
    of_one("cot", |args, _| one(args, |x| 1.0 / x.tan())),
    of_one("asin", |args, _| one(args, f64::asin)),
    of_one("acos", |args, _| one(args, f64::acos)),
    of_one("atan", |args, _| one(args, f64::atan)),
    of_one("sinh", |args, _| one(args, f64::sinh)),
    of_one("cosh", |args, _| one(args, f64::cosh)),
    of_one("tanh", |args, _| one(args, f64::tanh)),
    of_one("degrees", |args, _| one(args, f64::to_degrees)),
    of_one("radians", |args, _| one(args, f64::to_radians)),
    of_two("power", |args, _| two(args, f64::powf)),
    of_two("atan2", |args, _| two(args, f64::atan2)),
    of_two("log", |args, _| two(args, |base, x| x.ln() / base.ln())),
];

type Invoke = fn(&[ArrayRef], usize) -> Result<ArrayRef>;

const fn of_one(name: &'static str, invoke: Invoke) -> FlinkFunction {
    of_doubles(name, 1, invoke)
}

const fn of_two(name: &'static str, invoke: Invoke) -> FlinkFunction {
    of_doubles(name, 2, invoke)
}

const fn of_doubles(name: &'static str, count: usize, invoke: Invoke) -> FlinkFunction {
    FlinkFunction {
        name,
        parameters: &[Parameter::Double],
        least: count,
        most: count,
        returns: |_| DataType::Float64,
        invoke,
        signature: pure,
    }
}

fn one(args: &[ArrayRef], function: impl Fn(f64) -> f64) -> Result<ArrayRef> {
    Ok(Arc::new(args[0].as_primitive::<Float64Type>().unary::<_, Float64Type>(function)))
}

fn two(args: &[ArrayRef], function: impl Fn(f64, f64) -> f64) -> Result<ArrayRef> {
    let (left, right) = (args[0].as_primitive::<Float64Type>(), args[1].as_primitive::<Float64Type>());
    let values: PrimitiveArray<Float64Type> = arrow::compute::binary(left, right, function)?;
    Ok(Arc::new(values))
}
