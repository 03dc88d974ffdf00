//! Calls that stand for a CAST until types are known.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Result, ScalarValue, internal_err, plan_err};
use datafusion_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::data_type::parse_text;

/// Name of the call that stands for a CAST until types are known; its second argument is the type as text.
pub(crate) const CAST: &str = "cast";

/// The same for a TRY_CAST.
pub(crate) const TRY_CAST: &str = "try_cast";

/// The function of one of these names. The planner calls a CAST like its argument, so that `SUM(x), SUM(CAST(x AS DOUBLE))`
/// would be two columns of one name; a call has a name of its own.
pub(crate) fn by_name(name: &str) -> Option<Arc<ScalarUDF>> {
    let name = [CAST, TRY_CAST].into_iter().find(|cast| *cast == name)?;
    let signature = Signature::user_defined(Volatility::Immutable);
    Some(Arc::new(ScalarUDF::new_from_impl(NamedCast { name, signature })))
}

/// The CAST that such a call stands for.
pub(crate) fn as_cast(call: &ScalarFunction) -> Option<Expr> {
    let lenient = match call.func.name() {
        CAST => false,
        TRY_CAST => true,
        _ => return None,
    };
    let [expr, Expr::Literal(ScalarValue::Utf8(Some(sql)), _)] = call.args.as_slice() else { return None };
    let to = parse_text(sql).ok()?.data_type;
    let expr = Box::new(expr.clone());
    Some(if lenient { Expr::TryCast(TryCast::new(expr, to)) } else { Expr::Cast(Cast::new(expr, to)) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NamedCast {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for NamedCast {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        Ok(given.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of a CAST is its second argument")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let Some(Some(ScalarValue::Utf8(Some(sql)))) = args.scalar_arguments.get(1) else {
            return internal_err!("a CAST without a type");
        };
        match parse_text(sql) {
            Ok(parsed) => Ok(Arc::new(Field::new(self.name, parsed.data_type, true))),
            Err(error) => plan_err!("{error}"),
        }
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("a CAST is called by its name")
    }
}
