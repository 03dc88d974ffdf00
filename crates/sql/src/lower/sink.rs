//! Where rows leave a dataflow: columns of a query are brought to the types of its table, or INSERT is refused, by
//! Flink's rules.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, ScalarValue};
use datafusion_expr::{Expr, LogicalPlan, cast};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Literal;
use laxity_connect::{SinkSpec, TableSpec};
use laxity_graph::{Input, Partitioning};
use laxity_operators::Stage;

use super::relation::{Relation, Slot, column_of};
use super::{Lowered, Lowering, df_schema};
use crate::data_type::{CharLength, display};
use crate::error::{Fault, NOWHERE, SqlErrorKind};
use crate::functions;

impl Lowering<'_> {
    /// Writes a plan's rows to a table. `columns` are the table's columns that the query gives, in its order;
    /// the others are NULL. `lengths` are those of the table's CHAR and VARCHAR columns, or empty.
    pub fn insert(
        &mut self,
        plan: &LogicalPlan,
        table: &Arc<TableSpec>,
        lengths: &[Option<CharLength>],
        columns: &[usize],
    ) -> Lowered<()> {
        self.keeps_watermarks = super::current_watermark::is_asked_for(plan);
        self.divides = super::approximate::divides_aggregates(plan);
        let relation = self.relation(plan)?;
        let relation = self.expand(relation)?;
        // Flink's name for a column that is an expression without AS.
        let is_word = |name: &str| name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$');
        let fields = plan.schema().fields().iter().enumerate();
        let names: Vec<String> = fields
            .map(|(i, field)| if is_word(field.name()) { field.name().clone() } else { format!("EXPR${i}") })
            .collect();
        let relation = self.as_table(relation, &names, table, lengths, columns)?;
        self.constants = relation.open.constants();
        let parallelism = relation.open.parallelism;
        let from = self.close(relation)?;
        let edge = Input { from, partitioning: Partitioning::Forward };
        self.push(
            format!("Sink: {}", table.name),
            vec![],
            parallelism,
            vec![edge],
            None,
            Stage::Sink(SinkSpec { table: Arc::clone(table) }),
        )?;
        Ok(())
    }

    fn as_table(
        &self,
        relation: Relation,
        names: &[String],
        table: &TableSpec,
        lengths: &[Option<CharLength>],
        columns: &[usize],
    ) -> Lowered<Relation> {
        let given: Vec<DataType> = relation
            .outputs
            .iter()
            .filter_map(|output| match output.slot {
                Slot::Column(column) => Some(relation.schema.field(column).data_type().clone()),
                _ => None,
            })
            .collect();
        check_types(names, &given, &table.schema, &table.name, columns)?;
        let mut projection = Vec::new();
        for (index, field) in table.schema.fields().iter().enumerate() {
            let position = columns.iter().position(|column| *column == index);
            let expr: Arc<dyn PhysicalExpr> = match position.map(|position| relation.outputs[position].slot) {
                Some(Slot::Column(column)) => {
                    let given = relation.schema.field(column).data_type();
                    let length = lengths.get(index).copied().flatten();
                    self.stored(relation.column(column), given, field.data_type(), length)?
                }
                Some(slot) => return Err(Fault::internal(NOWHERE, format!("{slot:?} reaches a sink"))),
                None => {
                    let null = ScalarValue::try_from(field.data_type()).map_err(|e| self.planner.fault(e))?;
                    Arc::new(Literal::new(null))
                }
            };
            projection.push((expr, field.name().clone()));
        }
        relation.calc(projection).map_err(|e| self.planner.fault(e))
    }
}

impl Lowering<'_> {
    /// A value as a column takes it: Flink's implicit cast, cut or padded to the column's length.
    fn stored(
        &self,
        value: Arc<dyn PhysicalExpr>,
        given: &DataType,
        to: &DataType,
        length: Option<CharLength>,
    ) -> Lowered<Arc<dyn PhysicalExpr>> {
        if given.equals_datatype(to) && length.is_none() {
            return Ok(value);
        }
        let schema = df_schema(&Arc::new(Schema::new(vec![Field::new("value", given.clone(), true)])))?;
        let mut expr = Expr::Column(Column::new_unqualified("value"));
        if !given.equals_datatype(to) {
            let cast = cast(expr, to.clone());
            expr = functions::flink_cast(&cast, &schema).unwrap_or(cast);
        }
        let limited = |function: &str, length: u32| {
            let length = ScalarValue::Int32(i32::try_from(length).ok());
            functions::own(function).call(vec![expr.clone(), Expr::Literal(length, None)])
        };
        let expr = match length {
            Some(CharLength::Exactly(length)) => limited(functions::TO_CHAR, length),
            Some(CharLength::AtMost(length)) => limited(functions::TO_VARCHAR, length),
            None => expr,
        };
        let stored = self.physical(&expr, &schema)?.transform(|node| {
            let is_value = column_of(&node).is_some();
            Ok(if is_value { Transformed::yes(Arc::clone(&value)) } else { Transformed::no(node) })
        });
        stored.map(|stored| stored.data).map_err(|e| self.planner.fault(e))
    }
}

/// Flink's rule for INSERT: types may widen without a CAST and do nothing else.
fn check_types(
    names: &[String],
    given: &[DataType],
    sink: &SchemaRef,
    table: &str,
    columns: &[usize],
) -> Lowered<()> {
    let schemas = || {
        let query: Vec<_> = names.iter().zip(given).map(|(n, t)| format!("{n} {}", display(t))).collect();
        let sink: Vec<_> = columns
            .iter()
            .map(|column| sink.field(*column))
            .map(|field| format!("{} {}", field.name(), display(field.data_type())))
            .collect();
        format!("the query gives ({}), the table takes ({})", query.join(", "), sink.join(", "))
    };
    if given.len() != columns.len() {
        return Err(Fault::new(
            SqlErrorKind::Type,
            NOWHERE,
            format!("table '{table}' takes {} columns here, the query gives {}", columns.len(), given.len()),
        )
        .hint(schemas()));
    }
    for ((name, from), column) in names.iter().zip(given).zip(columns) {
        let to = sink.field(*column);
        if !is_implicit(from, to.data_type()) {
            return Err(Fault::new(
                SqlErrorKind::Type,
                NOWHERE,
                format!(
                    "column '{name}' is {}, which does not go into '{}' {} of table '{table}' without a CAST",
                    display(from),
                    to.name(),
                    display(to.data_type())
                ),
            )
            .hint(schemas()));
        }
    }
    Ok(())
}

/// Flink's `LogicalTypeCasts.supportsImplicitCast`.
fn is_implicit(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Binary, Date32, Decimal128, FixedSizeBinary, Float32, Float64, Int8, Int16, Int32, Int64, LargeUtf8,
        List, Map, Null, Struct, Time32, Time64, Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    let rank = |data_type: &DataType| match data_type {
        Int8 => Some(1),
        Int16 | UInt8 => Some(2),
        Int32 | UInt16 => Some(3),
        // Counts that DataFusion gives without a sign are BIGINT in Flink.
        Int64 | UInt32 | UInt64 => Some(4),
        _ => None,
    };
    if from.equals_datatype(to) {
        return true;
    }
    match (from, to) {
        (Null, _) => true,
        (
            Int8 | Int16 | Int32 | Int64 | UInt64 | Float32 | Float64 | Decimal128(..),
            Decimal128(..) | Float64,
        ) => true,
        (Int8 | Int16 | Int32 | Int64 | UInt64 | Decimal128(..), Float32) => true,
        (Timestamp(..), Timestamp(..) | Date32 | Time32(_) | Time64(_)) => true,
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) => true,
        (Utf8 | LargeUtf8 | Utf8View, Utf8) | (Binary | FixedSizeBinary(_), Binary) => true,
        (Struct(from), Struct(to)) => {
            from.len() == to.len()
                && from.iter().zip(to).all(|(f, t)| is_implicit(f.data_type(), t.data_type()))
        }
        (List(from), List(to)) | (Map(from, _), Map(to, _)) => is_implicit(from.data_type(), to.data_type()),
        _ => match (rank(from), rank(to)) {
            (Some(from), Some(to)) => from <= to,
            _ => false,
        },
    }
}
