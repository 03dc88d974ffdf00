//! The arguments of a query's aggregates, computed for the rows that were taken and no others.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DataFusionError, Result};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr::utils::collect_columns;

use crate::expression::with_known_fields;

/// What the aggregates are of, over those columns alone that it needs: nothing else of a row that is taken is copied.
pub(super) struct Values {
    /// Of the input, ascending.
    columns: Vec<usize>,
    /// Over those.
    expressions: Vec<Arc<dyn PhysicalExpr>>,
}

impl Values {
    /// Expressions over a schema's columns.
    pub(super) fn new(expressions: &[Arc<dyn PhysicalExpr>], schema: &Schema) -> Result<Values> {
        let needed = expressions.iter().flat_map(collect_columns).map(|column| column.index());
        let mut columns: Vec<usize> = needed.collect();
        columns.sort_unstable();
        columns.dedup();
        if columns.is_empty() && !expressions.is_empty() && !schema.fields().is_empty() {
            // A constant still has as many rows as they are.
            columns.push(0);
        }
        let narrowed = |expression: &Arc<dyn PhysicalExpr>| {
            let narrowed = Arc::clone(expression).transform(|node| {
                let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
                let place = columns.partition_point(|&needed| needed < column.index());
                Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as Arc<dyn PhysicalExpr>))
            })?;
            Ok::<_, DataFusionError>(narrowed.data)
        };
        let narrow_schema = schema.project(&columns)?;
        let known = |expression| with_known_fields(&narrowed(expression)?, &narrow_schema);
        let expressions = expressions.iter().map(known).collect::<Result<_>>()?;
        Ok(Values { columns, expressions })
    }

    /// The columns that they need.
    pub(super) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Them as DOUBLEs, of rows of those columns.
    pub(super) fn of(&self, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let columns = self.as_they_are(rows)?;
        columns.iter().map(|column| Ok(cast(column, &DataType::Float64)?)).collect()
    }

    /// Them of their own types, likewise.
    pub(super) fn as_they_are(&self, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let of = |expression: &Arc<dyn PhysicalExpr>| expression.evaluate(rows)?.into_array(rows.num_rows());
        self.expressions.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Float64Array, Int64Array};
    use arrow::datatypes::Float64Type;
    use datafusion_expr::Operator;
    use datafusion_physical_expr::expressions::{BinaryExpr, lit};

    use super::*;

    #[test]
    fn expressions_are_of_the_columns_they_need() {
        let column = |values: [i64; 4]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        let batch = RecordBatch::try_from_iter([
            ("a", column([1, 2, 3, 4])),
            ("b", column([0, 0, 0, 0])),
            ("c", column([10, 20, 30, 40])),
        ]);
        let batch = batch.unwrap();
        let (a, c) = (Arc::new(Column::new("a", 0)), Arc::new(Column::new("c", 2)));
        let sum: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(a, Operator::Plus, c.clone()));
        let values = Values::new(&[sum, c, lit(7.0)], &batch.schema()).unwrap();
        assert_eq!(values.columns(), [0, 2]);
        let told = values.of(&batch.slice(1, 2).project(values.columns()).unwrap()).unwrap();
        let numbers = |at: usize| told[at].as_primitive::<Float64Type>().clone();
        assert_eq!(numbers(0), Float64Array::from(vec![22.0, 33.0]));
        assert_eq!(numbers(1), Float64Array::from(vec![20.0, 30.0]));
        assert_eq!(numbers(2), Float64Array::from(vec![7.0, 7.0]));
    }
}
