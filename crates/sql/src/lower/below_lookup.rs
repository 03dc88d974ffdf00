//! Rows of an approximate query that are left out before they are looked up.
//!
//! Where a lookup finds at most one row for each (its table's PRIMARY KEY is among the keys of the join), leaving rows out below
//! it takes the same rows as leaving them out behind it: every estimate is what it was. What is needed of a row that is left out,
//! its time and its group, must be known below. Of an inner join, and where a filter is behind it, rows that do not come through
//! have no values: COUNT(*) counts those that do.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column, IsNotNullExpr, Literal, case};
use datafusion_physical_expr::utils::collect_columns;
use laxity_operators::CalcSpec;
use laxity_operators::approximate::{Aggregate, Beside};

use super::approximate::Sampled;
use super::never_fails::never_fails;
use super::relation::{Output, PendingWindow, Relation, Slot, Waiting, WaitingLookup, before, column_of};
use super::{Lowered, Lowering};

/// An expression over columns.
type Expr = Arc<dyn PhysicalExpr>;

/// What is computed of the rows of an approximate query, before it is known where they are left out.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Over the input, as are those of [`Wanted::distinct`].
    pub values: Vec<Expr>,
    pub distinct: Vec<Expr>,
    pub aggregates: Vec<Aggregate>,
    /// What each function becomes.
    pub sampled: Vec<Sampled>,
    /// See [`SamplerSpec::required`](laxity_operators::approximate::SamplerSpec::required).
    pub required: Option<usize>,
}

/// A lookup that rows are left out below.
pub(super) struct Below {
    pub beside: Beside,
    pub detail: String,
}

impl Lowering<'_> {
    /// The rows before the lookup that they come from, if none of those that are left out has to be looked up.
    pub(super) fn below_lookup(
        &self,
        mut input: Relation,
        keys: &[Expr],
        wanted: &mut Wanted,
    ) -> Lowered<(Relation, Option<Below>)> {
        let lookup = match input.open.calc.take() {
            Some(Waiting::Lookup(lookup)) => lookup,
            other => {
                input.open.calc = other;
                return Ok((input, None));
            }
        };
        let fault = |error| self.planner.fault(error);
        let sees_all = !wanted.distinct.is_empty() || wanted.aggregates.contains(&Aggregate::Whole);
        let Some(columns) = known_below(&lookup, &input, keys).map_err(fault)?.filter(|_| !sees_all) else {
            input.open.calc = Some(Waiting::Lookup(lookup));
            return Ok((input, None));
        };
        let condition = condition(&lookup, input.predicate.take()).map_err(fault)?;
        wanted.look_up(&lookup, condition).map_err(fault)?;
        let WaitingLookup { padded, detail, stream, joined, .. } = *lookup;
        let columns_of_stream = stream.fields().len();
        let below =
            Below { beside: Beside { lookup: padded, columns: columns_of_stream, schema: joined }, detail };
        Ok((of_stream(Relation { schema: stream, ..input }, columns).map_err(fault)?, Some(below)))
    }
}

/// What becomes of the logical columns that are read of every row.
pub(super) struct Known {
    pub time: usize,
    /// By logical column: over the stream.
    pub columns: Vec<(usize, Expr)>,
}

/// The time and the columns that the keys read, over the stream; `None` where one of them is looked up.
fn known_below(
    lookup: &WaitingLookup,
    input: &Relation,
    keys: &[Expr],
) -> datafusion_common::Result<Option<Known>> {
    let width = lookup.stream.fields().len();
    let of_stream = |column: usize| -> datafusion_common::Result<Option<Expr>> {
        let expr = behind(lookup, &input.column(column))?;
        let is_known = collect_columns(&expr).iter().all(|column| column.index() < width);
        Ok(Some(expr).filter(|_| is_known))
    };
    let Some(PendingWindow { time, .. }) = &input.window else { return Ok(None) };
    let Some(time) = of_stream(*time)?.as_ref().and_then(column_of) else { return Ok(None) };
    let mut columns = Vec::new();
    for logical in columns_read(keys) {
        let Slot::Column(column) = input.outputs[logical].slot else { return Ok(None) };
        let Some(expr) = of_stream(column)? else { return Ok(None) };
        columns.push((logical, expr));
    }
    Ok(Some(Known { time, columns }))
}

/// The columns that these read, each once.
pub(super) fn columns_read<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> BTreeSet<usize> {
    exprs.into_iter().flat_map(collect_columns).map(|column| column.index()).collect()
}

/// An expression over what comes out as one over what the lookup gives.
fn behind(lookup: &WaitingLookup, expr: &Expr) -> datafusion_common::Result<Expr> {
    match &lookup.behind {
        Some(calc) => before(calc, expr),
        None => Ok(Arc::clone(expr)),
    }
}

/// Which rows come out, over what the lookup gives; `None`: all.
fn condition(lookup: &WaitingLookup, predicate: Option<Expr>) -> datafusion_common::Result<Option<Expr>> {
    let partner = lookup.required.map(|column| {
        let column = Arc::new(Column::new(lookup.joined.field(column).name(), column));
        Arc::new(IsNotNullExpr::new(column)) as Expr
    });
    let filter = lookup.behind.as_ref().and_then(|CalcSpec { predicate, .. }| predicate.clone());
    let predicate = predicate.map(|predicate| behind(lookup, &predicate)).transpose()?;
    let both = |a: Expr, b: Expr| Arc::new(BinaryExpr::new(a, Operator::And, b)) as Expr;
    Ok([partner, filter, predicate].into_iter().flatten().reduce(both))
}

impl Wanted {
    /// The same over what the lookup gives.
    fn look_up(&mut self, lookup: &WaitingLookup, condition: Option<Expr>) -> datafusion_common::Result<()> {
        for value in &mut self.values {
            *value = behind(lookup, value)?;
        }
        let Some(condition) = condition else { return Ok(()) };
        // Quotients are of numbers that are 0 where there is none.
        let zeroed: Vec<usize> = self
            .aggregates
            .iter()
            .filter_map(|aggregate| match *aggregate {
                Aggregate::Ratio { over, under, product } => Some([over, under, product]),
                _ => None,
            })
            .flatten()
            .collect();
        for (number, value) in self.values.iter_mut().enumerate() {
            let data_type = value.data_type(&lookup.joined)?;
            let none = match zeroed.contains(&number) {
                true => Some(literal(ScalarValue::new_zero(&data_type)?)),
                false => None,
            };
            *value = case(None, vec![(Arc::clone(&condition), Arc::clone(value))], none)?;
        }
        let one = literal(ScalarValue::new_one(&DataType::Int64)?);
        self.values.push(case(None, vec![(condition, one)], None)?);
        let counted = self.values.len() - 1;
        self.required = Some(counted);
        self.count_by(counted);
        Ok(())
    }

    /// Where rows over which an expression fails are put aside, COUNT(*) is of those that are left: a row is in all aggregates or
    /// in none.
    pub(super) fn count_what_is_left(&mut self, schema: &Schema) -> datafusion_common::Result<()> {
        let may_fail = self.values.iter().any(|value| !never_fails(value, schema));
        if may_fail && self.aggregates.contains(&Aggregate::Rows) {
            self.values.push(literal(ScalarValue::new_one(&DataType::Int64)?));
            self.count_by(self.values.len() - 1);
        }
        Ok(())
    }

    /// Rows are those of which there is that value.
    fn count_by(&mut self, counted: usize) {
        let of_estimates = self.sampled.iter_mut().filter_map(|sampled| match sampled {
            Sampled::Estimated(estimator) => Some(&mut estimator.aggregate),
            Sampled::Whole => None,
        });
        for aggregate in self.aggregates.iter_mut().chain(of_estimates) {
            if *aggregate == Aggregate::Rows {
                *aggregate = Aggregate::Count(counted);
            }
        }
    }
}

fn literal(value: ScalarValue) -> Expr {
    Arc::new(Literal::new(value))
}

/// The stream, with the columns that are known of it.
fn of_stream(input: Relation, known: Known) -> datafusion_common::Result<Relation> {
    let Known { time, columns } = known;
    let exprs: Vec<Expr> = columns.iter().map(|(_, expr)| Arc::clone(expr)).collect();
    let window = input.window.clone().map(|window| PendingWindow { time, ..window });
    let (mut input, places) = Relation { window, ..input }.with_columns(&exprs)?;
    // Nothing reads the others: what is computed of them the sampler computes.
    let unread = |output: Output| match output.slot {
        Slot::Column(_) => Output { slot: Slot::Column(time), ..output },
        _ => output,
    };
    input.outputs = input.outputs.into_iter().map(unread).collect();
    for ((logical, _), place) in columns.into_iter().zip(places) {
        input.outputs[logical].slot = Slot::Column(place);
    }
    Ok(input)
}
