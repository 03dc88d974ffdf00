//! Rows of an approximate query that are left out before anything is computed of them: what a projection in front of the
//! aggregation computes, such as an expression that two aggregates have in common, the sampler computes of the rows it takes.

use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr::utils::collect_columns;
use laxity_operators::approximate::Aggregate;
use laxity_operators::{CalcSpec, Template};

use super::below_lookup::{Known, Wanted, columns_read};
use super::relation::{PendingWindow, Relation, Slot, Waiting, before, column_of};
use super::{Lowered, Lowering};

impl Lowering<'_> {
    /// The rows before the projection that they come from, of which only what is needed of every row is computed: time and keys.
    pub(super) fn below_calc(
        &self,
        mut input: Relation,
        keys: &[Arc<dyn PhysicalExpr>],
        wanted: &mut Wanted,
    ) -> Lowered<Relation> {
        let calc = match input.open.calc.take() {
            Some(Waiting::Calc(calc)) => calc,
            other => {
                input.open.calc = other;
                return Ok(input);
            }
        };
        let fault = |error| self.planner.fault(error);
        let Some(columns) = known_before(&calc, &input, keys, wanted).map_err(fault)? else {
            input.open.calc = Some(Waiting::Calc(calc));
            return Ok(input);
        };
        for value in wanted.values.iter_mut().chain(&mut wanted.distinct) {
            *value = before(&calc, value).map_err(fault)?;
        }
        let CalcSpec { input_schema, predicate, .. } = calc;
        let input = Relation { schema: input_schema, predicate, ..input };
        of_read(input, columns, wanted).map_err(fault)
    }
}

/// The rows with what is read of them: by what is wanted, which is then over these columns, and what is known of every row.
fn of_read(input: Relation, known: Known, wanted: &mut Wanted) -> datafusion_common::Result<Relation> {
    let Known { time, columns } = known;
    let mut read = columns_read(wanted.values.iter().chain(&wanted.distinct));
    read.extend(columns.iter().filter_map(|(_, expr)| column_of(expr)));
    read.insert(time);
    let place = |column: usize| read.range(..column).count();
    for value in wanted.values.iter_mut().chain(&mut wanted.distinct) {
        let moved = Arc::clone(value).transform_down(|node| {
            let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
            let moved = Arc::new(Column::new(column.name(), place(column.index())));
            Ok(Transformed::new(moved as Arc<dyn PhysicalExpr>, true, TreeNodeRecursion::Jump))
        })?;
        *value = moved.data;
    }
    let name = |column: usize| input.schema.field(column).name().clone();
    let mut projection: Vec<(Arc<dyn PhysicalExpr>, String)> =
        read.iter().map(|&column| (input.column(column), name(column))).collect();
    let mut outputs = input.outputs.clone();
    for output in outputs.iter_mut().filter(|output| matches!(output.slot, Slot::Column(_))) {
        // Nothing reads the others.
        output.slot = Slot::Column(place(time));
    }
    for (logical, expr) in columns {
        let column = column_of(&expr).map(place).unwrap_or_else(|| {
            let name = format!("__key{}", projection.len() - read.len());
            projection.push((expr, name));
            projection.len() - 1
        });
        outputs[logical].slot = Slot::Column(column);
    }
    let window = input.window.clone().map(|window| PendingWindow { time: place(time), ..window });
    Ok(Relation { outputs, window, ..input.calc(projection)? })
}

/// The time and the columns that the keys read, over what the projection takes; `None` where it is to stay as it is.
fn known_before(
    calc: &CalcSpec,
    input: &Relation,
    keys: &[Arc<dyn PhysicalExpr>],
    wanted: &Wanted,
) -> datafusion_common::Result<Option<Known>> {
    let computes = |value: &Arc<dyn PhysicalExpr>| {
        let read = collect_columns(value);
        read.iter().any(|column| column_of(&calc.projection[column.index()].0).is_none())
    };
    let gains = wanted.values.iter().any(computes);
    // Who needs every row, or a column that is not computed of rows, takes them as they are.
    let sees_all = wanted.aggregates.contains(&Aggregate::Whole);
    let of_template = input.schema.index_of(Template::MEMBER).is_ok();
    if !gains || sees_all || of_template || input.predicate.is_some() {
        return Ok(None);
    }
    let Some(PendingWindow { time, .. }) = &input.window else { return Ok(None) };
    let Some(time) = column_of(&calc.projection[*time].0) else { return Ok(None) };
    let mut columns = Vec::new();
    for logical in columns_read(keys) {
        let Slot::Column(column) = input.outputs[logical].slot else { return Ok(None) };
        columns.push((logical, Arc::clone(&calc.projection[column].0)));
    }
    Ok(Some(Known { time, columns }))
}
