//! Fields of ROWs. DataFusion's `get_field` gives what lies in a row's field; to SQL that is NULL where the row is.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::NullBuffer;
use arrow::compute::nullif;
use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::{Result, ScalarValue, plan_err};
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{
    ColumnarValue, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

use crate::data_type::display;
use crate::own;

/// In place of DataFusion's.
pub(crate) fn get_field() -> Arc<ScalarUDF> {
    let inner = datafusion_functions::core::get_field();
    Arc::new(ScalarUDF::new_from_impl(RowField { inner }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RowField {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for RowField {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.inner().schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let mut row = args.arg_fields.first();
        for name in args.scalar_arguments.iter().skip(1) {
            let name = name.and_then(|name| name.try_as_str().flatten());
            let (Some(DataType::Struct(fields)), Some(name)) = (row.map(|row| row.data_type()), name) else {
                break;
            };
            row = fields.iter().find(|field| field.name() == name);
            if row.is_none() {
                return plan_err!("a {} has no field '{name}'", display(&DataType::Struct(fields.clone())));
            }
        }
        self.inner.inner().return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(types)
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.inner.inner().placement(args)
    }

    /// A field of a field is one call with a longer way. The rest is the library's, which puts its own function back for what is
    /// left of a way.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let mut merged = args.clone();
        while let Some(Expr::ScalarFunction(call)) = merged.first()
            && call.func.inner().is::<RowField>()
        {
            let before = call.args.clone();
            merged.splice(..1, before);
        }
        let is_merged = merged.len() > args.len();
        Ok(match self.inner.inner().simplify(merged, info)? {
            ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)) if call.func == self.inner => {
                ExprSimplifyResult::Simplified(own(self.name()).call(call.args))
            }
            ExprSimplifyResult::Original(merged) if is_merged => {
                ExprSimplifyResult::Simplified(own(self.name()).call(merged))
            }
            ExprSimplifyResult::Original(_) => ExprSimplifyResult::Original(args),
            simplified => simplified,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some((row, way)) = args.args.split_first() else { return self.inner.invoke_with_args(args) };
        let is_constant = matches!(row, ColumnarValue::Scalar(_));
        let Some((values, nulls)) =
            field(&row.to_array(if is_constant { 1 } else { args.number_rows })?, way)
        else {
            return self.inner.invoke_with_args(args);
        };
        let values = match nulls {
            Some(nulls) => null_where(&values, &nulls)?,
            None => values,
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}

/// The field at the end of a way through rows alone, and where one of these is NULL; `None` of anything else.
fn field(row: &ArrayRef, way: &[ColumnarValue]) -> Option<(ArrayRef, Option<NullBuffer>)> {
    let mut values = row;
    let mut nulls = None;
    for name in way {
        let ColumnarValue::Scalar(name) = name else { return None };
        let rows = values.as_struct_opt()?;
        nulls = NullBuffer::union(nulls.as_ref(), rows.nulls());
        values = rows.column_by_name(name.try_as_str()??)?;
    }
    Some((Arc::clone(values), nulls))
}

/// NULL at these places, too.
pub(crate) fn null_where(values: &ArrayRef, nulls: &NullBuffer) -> Result<ArrayRef> {
    let both = NullBuffer::union(Some(nulls), values.nulls());
    // What sources make is most often NULL there by itself.
    if both.is_none_or(|both| both.null_count() == values.null_count()) {
        return Ok(Arc::clone(values));
    }
    Ok(nullif(values, &BooleanArray::new(!nulls.inner(), None))?)
}
