//! ORDER BY and LIMIT of a SELECT that is printed. The planner has made sure that all its inputs end.

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion_expr::logical_plan::{FetchType, SkipType};
use datafusion_expr::{Limit, LogicalPlan, Sort};
use laxity_operators::SortSpec;

use super::relation::{Open, OpenStage, Relation, plain};
use super::{Lowered, Lowering, unsupported};

impl Lowering<'_> {
    /// `ORDER BY …` of a bounded SELECT.
    pub(super) fn sort(&mut self, sort: &Sort) -> Lowered<Relation> {
        self.sort_within(sort, 0, sort.fetch)
    }

    fn sort_within(&mut self, sort: &Sort, skip: usize, fetch: Option<usize>) -> Lowered<Relation> {
        let input = self.relation(&sort.input)?;
        let exprs = sort.expr.iter().map(|order| self.physical(&order.expr, sort.input.schema()));
        let exprs = exprs.collect::<Lowered<Vec<_>>>()?;
        let input = self.expand(input)?;
        let (input, columns) = self.key_columns(input, &exprs)?;
        let options = sort
            .expr
            .iter()
            .map(|order| SortOptions { descending: !order.asc, nulls_first: order.nulls_first });
        let order = columns.into_iter().zip(options).collect();
        self.sorted(input, order, skip, fetch)
    }

    /// `LIMIT … OFFSET …` of a bounded SELECT.
    pub(super) fn limit(&mut self, limit: &Limit) -> Lowered<Relation> {
        let error = |e| self.planner.fault(e);
        let (skip, fetch) = (limit.get_skip_type().map_err(error)?, limit.get_fetch_type().map_err(error)?);
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) = (skip, fetch) else {
            return Err(unsupported("LIMIT and OFFSET take a number"));
        };
        // No more rows are kept than are wanted.
        if let LogicalPlan::Sort(sort) = limit.input.as_ref()
            && sort.fetch.is_none()
        {
            return self.sort_within(sort, skip, fetch);
        }
        let input = self.relation(&limit.input)?;
        let input = self.expand(input)?;
        self.sorted(input, vec![], skip, fetch)
    }

    fn sorted(
        &mut self,
        input: Relation,
        order: Vec<(usize, SortOptions)>,
        skip: usize,
        fetch: Option<usize>,
    ) -> Lowered<Relation> {
        let input = input.apply_filter().map_err(|e| self.planner.fault(e))?;
        let schema = Arc::clone(&input.schema);
        let outputs = input.outputs.clone();
        let mut details = Vec::new();
        if !order.is_empty() {
            let column = |(column, options): &(usize, SortOptions)| {
                let direction = if options.descending { " descending" } else { "" };
                format!("{}{direction}", plain(schema.field(*column).name()))
            };
            let columns: Vec<String> = order.iter().map(column).collect();
            details.push(format!("by {}", columns.join(", ")));
        }
        if skip > 0 {
            details.push(format!("without the first {skip}"));
        }
        details.extend(fetch.map(|fetch| format!("no more than {fetch}")));
        let (edge, parallelism) = self.keyed(input, &[], false)?;
        let name = if order.is_empty() { "Limit" } else { "Sort" };
        let spec = SortSpec { name: name.into(), input_schema: Arc::clone(&schema), order, skip, fetch };
        Ok(Relation {
            open: Open {
                name: spec.name.clone(),
                details,
                parallelism,
                inputs: vec![edge],
                window: None,
                stage: OpenStage::Operator,
                chain: vec![spec.factory()],
                calc: None,
                meets_late_rows: None,
            },
            schema,
            outputs,
            window: None,
            predicate: None,
            unfired: None,
        })
    }
}
