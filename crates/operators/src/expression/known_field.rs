//! Arguments of functions whose types are known: DataFusion's functions ask each argument for its field at every call, and one
//! that is computed answers by deriving its type and writing out its name, a quarter of the time where batches are small.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::expressions::{Column, Literal};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};

/// The same expression, with the fields of its functions' arguments worked out. Over rows of that schema alone.
pub(crate) fn with_known_fields(
    expr: &Arc<dyn PhysicalExpr>,
    input: &Schema,
) -> Result<Arc<dyn PhysicalExpr>> {
    let known = Arc::clone(expr).transform_up(|node| {
        if !node.is::<ScalarFunctionExpr>() {
            return Ok(Transformed::no(node));
        }
        let known = |argument: &Arc<dyn PhysicalExpr>| {
            if argument.is::<Column>() || argument.is::<Literal>() {
                return Ok(Arc::clone(argument));
            }
            let field = argument.return_field(input)?;
            Ok(Arc::new(KnownField { expr: Arc::clone(argument), field }) as Arc<dyn PhysicalExpr>)
        };
        let arguments = node.children().into_iter().map(known).collect::<Result<Vec<_>>>()?;
        Ok(Transformed::yes(node.with_new_children(arguments)?))
    })?;
    Ok(known.data)
}

/// An expression with its field.
#[derive(Debug, Eq)]
struct KnownField {
    expr: Arc<dyn PhysicalExpr>,
    field: FieldRef,
}

impl PartialEq for KnownField {
    fn eq(&self, other: &KnownField) -> bool {
        self.expr.as_ref() == other.expr.as_ref() && self.field == other.field
    }
}

impl Hash for KnownField {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.expr.hash(state);
        self.field.hash(state);
    }
}

impl fmt::Display for KnownField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt(f)
    }
}

impl PhysicalExpr for KnownField {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(self.field.is_nullable())
    }

    fn return_field(&self, _: &Schema) -> Result<FieldRef> {
        Ok(Arc::clone(&self.field))
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<ColumnarValue> {
        self.expr.evaluate(rows)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.expr]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let [expr] = <[_; 1]>::try_from(children).expect("it has one");
        Ok(Arc::new(KnownField { expr, field: Arc::clone(&self.field) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt_sql(f)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Float64Array};
    use arrow::datatypes::{Field, Float64Type};
    use datafusion_common::config::ConfigOptions;
    use datafusion_expr::Operator;
    use datafusion_physical_expr::expressions::{BinaryExpr, lit};

    use super::*;

    #[test]
    fn it_is_the_same_with_its_fields_at_hand() {
        let schema = Schema::new(vec![Field::new("x", DataType::Float64, true)]);
        let x: Arc<dyn PhysicalExpr> = Arc::new(Column::new("x", 0));
        let half: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(x, Operator::Multiply, lit(0.5)));
        let config = Arc::new(ConfigOptions::default());
        let unless_one = |of| {
            let function = datafusion_functions::core::nullif();
            let of = vec![of, lit(1.0)];
            Arc::new(ScalarFunctionExpr::try_new(function, of, &schema, Arc::clone(&config)).unwrap())
                as Arc<dyn PhysicalExpr>
        };
        let expr = unless_one(unless_one(half));
        let known = with_known_fields(&expr, &schema).unwrap();
        assert_eq!(known.to_string(), expr.to_string());
        assert_eq!(known.return_field(&schema).unwrap(), expr.return_field(&schema).unwrap());
        assert!(known.children()[0].is::<KnownField>());
        let rows = [("x", Arc::new(Float64Array::from(vec![Some(3.0), Some(2.0)])) as ArrayRef)];
        let rows = RecordBatch::try_from_iter(rows).unwrap();
        let value = known.evaluate(&rows).unwrap().into_array(2).unwrap();
        assert_eq!(value.as_primitive::<Float64Type>(), &Float64Array::from(vec![Some(1.5), None]));
    }
}
