//! The way of one query from syntax to an optimised plan: what is put in before DataFusion's planner, what after it,
//! and how the errors of either get a place in the file.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef, IntervalMonthDayNano, TimeUnit};
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DataFusionError, Result, SchemaError, TableReference, plan_err};
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::planner::{ContextProvider, ExprPlanner, PlannerResult, RelationPlanner, TypePlanner};
use datafusion_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableSource, WindowUDF,
    lit,
};
use datafusion_optimizer::analyzer::Analyzer;
use datafusion_optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion_optimizer::common_subexpr_eliminate::CommonSubexprEliminate;
use datafusion_optimizer::decorrelate_predicate_subquery::DecorrelatePredicateSubquery;
use datafusion_optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion_optimizer::eliminate_duplicated_expr::EliminateDuplicatedExpr;
use datafusion_optimizer::eliminate_outer_join::EliminateOuterJoin;
use datafusion_optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion_optimizer::optimize_projections::OptimizeProjections;
use datafusion_optimizer::optimize_unions::OptimizeUnions;
use datafusion_optimizer::push_down_filter::PushDownFilter;
use datafusion_optimizer::replace_distinct_aggregate::ReplaceDistinctWithAggregate;
use datafusion_optimizer::simplify_expressions::SimplifyExpressions;
use datafusion_optimizer::{Optimizer, OptimizerContext};
use datafusion_sql::planner::{NullOrdering, ParserOptions, SqlToRel};
use datafusion_sql::sqlparser::ast::{
    DataType as SqlType, Expr as SqlExpr, LimitClause, OrderBy, OrderByKind, Query, TimezoneInfo,
};
use datafusion_sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use laxity_connect::is_bounded;
use laxity_text::closest;

use crate::aggregates;
use crate::catalog::{CatalogAt, Relation, Source, Table};
use crate::error::{Fault, NOWHERE, SqlErrorKind};
use crate::lookup::{self, LookupPlanner};
use crate::slips;
use crate::unnest::{self, UnnestPlanner};
use crate::window_function::{self, WindowFunctionPlanner};
use crate::written_out::{self, WrittenOut};
use crate::{
    compare, data_type, dialect, functions, group_window, named_cast, operands, proctime, refuse, rewrite,
};

/// Plans queries against a catalog: SQL to an optimised logical plan with Flink's meaning.
pub(crate) struct Planner<'a> {
    context: Context<'a>,
    /// Tokens of the statement, for finding the place of a name that an error mentions.
    tokens: &'a [TokenWithSpan],
}

impl<'a> Planner<'a> {
    pub fn new(catalog: CatalogAt<'a>, tokens: &'a [TokenWithSpan]) -> Planner<'a> {
        Planner { context: Context::new(catalog), tokens }
    }

    /// A query before optimisation, as a view keeps it.
    pub fn query(&self, query: &Query) -> std::result::Result<LogicalPlan, Box<Fault>> {
        self.query_with(query, None)
    }

    /// A SELECT on its own, which may have an ORDER BY and a LIMIT if all that it reads ends.
    pub fn printed_query(&self, query: &Query) -> std::result::Result<LogicalPlan, Box<Fault>> {
        let Some(at) = refuse::place_of_order(query) else { return self.query(query) };
        let mut bare = query.clone();
        let order = TopOrder::take(&mut bare)?;
        let plan = self.query_with(&bare, Some(order))?;
        match tables_of(&plan).into_iter().find(|(table, is_lookup)| !is_lookup && !is_bounded(&table.spec)) {
            None => Ok(plan),
            Some((table, _)) => Err(Fault::new(
                SqlErrorKind::Unsupported,
                at,
                format!("ORDER BY and LIMIT are for what ends, and table '{}' does not", table.spec.name),
            )
            .hint("bound the source, such as with 'number-of-rows'")),
        }
    }

    fn query_with(
        &self,
        query: &Query,
        order: Option<TopOrder>,
    ) -> std::result::Result<LogicalPlan, Box<Fault>> {
        WrittenOut::of(query, self.context.catalog)?;
        let mut query = query.clone();
        unnest::rewrite(&mut query)?;
        group_window::rewrite(&mut query)?;
        refuse::refuse_unsupported(&query).map_err(|fault| {
            let at = slips::place_of_quoted(&fault.message, self.tokens);
            fault.or_at(at.unwrap_or(NOWHERE))
        })?;
        rewrite::rewrite_query(&mut query)?;
        if let Some(order) = order {
            order.put(&mut query)?;
        }
        let statement = datafusion_sql::sqlparser::ast::Statement::Query(Box::new(query));
        let plan = SqlToRel::new_with_options(&self.context, parser_options())
            .sql_statement_to_plan(statement)
            .and_then(unnest::with_joins)
            .map_err(|error| self.fault(error))?;
        let plan =
            proctime::as_columns(plan, self.place_of_word("proctime")).map_err(|error| self.fault(error))?;
        lookup::check(&plan)?;
        let plan = operands::with_flink_types(plan).map_err(|error| self.fault(error))?;
        written_out::refuse_large_expressions(&plan)?;
        Ok(plan)
    }

    /// An expression over these columns, typed and simplified.
    pub fn expression(
        &self,
        expr: &SqlExpr,
        columns: &arrow::datatypes::SchemaRef,
    ) -> std::result::Result<Expr, Box<Fault>> {
        refuse::refuse_unsupported_in(expr)?;
        // Most watermarks are that; a plan of it takes longer than the rest of its table.
        if let SqlExpr::Identifier(name) = expr
            && columns.index_of(&name.value).is_ok()
        {
            return Ok(Expr::Column(datafusion_common::Column::new_unqualified(&name.value)));
        }
        let mut expr = expr.clone();
        rewrite::rewrite_expr(&mut expr)?;
        let plan = || -> Result<LogicalPlan> {
            let source = Arc::new(Source::Columns(Arc::clone(columns)));
            let scan = LogicalPlanBuilder::scan("this table", source, None)?.build()?;
            let planned = SqlToRel::new_with_options(&self.context, parser_options()).sql_to_expr(
                expr,
                scan.schema(),
                &mut datafusion_sql::planner::PlannerContext::new(),
            )?;
            if proctime::calls(&planned) {
                return Err(proctime::misplaced(self.place_of_word("proctime")));
            }
            LogicalPlanBuilder::from(scan).project([planned])?.build().and_then(operands::with_flink_types)
        };
        let plan = plan().and_then(analyze).map_err(|error| self.fault(error))?;
        let simplified = Optimizer::with_rules(vec![Arc::new(SimplifyExpressions::new())])
            .optimize(plan, &optimizer_context(), |_, _| {})
            .map_err(|error| self.fault(error))?;
        let LogicalPlan::Projection(projection) = simplified else {
            return Err(Fault::internal(NOWHERE, "an expression did not plan to a projection"));
        };
        let unqualified = projection.expr[0].clone().unalias().transform(|expr| {
            Ok(match expr {
                Expr::Column(column) => {
                    Transformed::yes(Expr::Column(datafusion_common::Column::new_unqualified(column.name)))
                }
                other => Transformed::no(other),
            })
        });
        unqualified.map(|t| t.data).map_err(|error| self.fault(error))
    }

    fn place_of_word(&self, lower_case: &str) -> Location {
        let word = |token: &&TokenWithSpan| matches!(&token.token, Token::Word(word) if word.value.eq_ignore_ascii_case(lower_case));
        self.tokens.iter().find(word).map_or(NOWHERE, |token| token.span.start)
    }

    /// Types, then the rewrites that hold for streams.
    ///
    /// Columns of these names are kept up to the window functions, for a late table to receive.
    pub fn optimize(
        &self,
        plan: LogicalPlan,
        keep: &[String],
    ) -> std::result::Result<LogicalPlan, Box<Fault>> {
        analyze(plan)
            .and_then(|plan| window_function::keep_columns(plan, keep))
            .and_then(|plan| optimizer().optimize(plan, &optimizer_context(), |_, _| {}))
            .and_then(|plan| rewritten(plan, compare::float_columns_compared))
            .map_err(|error| self.fault(error))
    }

    /// Where the first of these expressions that names a column stands in the statement. Columns of a view
    /// stand elsewhere and are passed over.
    pub fn place_of<'e>(&self, exprs: impl IntoIterator<Item = &'e Expr>) -> Location {
        let inside = |at: Location| {
            let first = self.tokens.first().map(|token| token.span.start);
            let last = self.tokens.last().map(|token| token.span.end);
            first.is_some_and(|first| first <= at) && last.is_some_and(|last| at <= last)
        };
        let mut place = NOWHERE;
        for expr in exprs {
            // The closure never fails.
            let _ = expr.apply(|node| {
                if let Expr::Column(column) = node
                    && let Some(span) = column.spans().first()
                {
                    let at = Location { line: span.start.line, column: span.start.column };
                    if inside(at) {
                        place = at;
                        return Ok(TreeNodeRecursion::Stop);
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            });
            if place != NOWHERE {
                break;
            }
        }
        place
    }

    /// Finds the place in the file that an error is about.
    pub fn fault(&self, error: DataFusionError) -> Box<Fault> {
        let span = error.diagnostic().and_then(|diagnostic| diagnostic.span);
        let fallback =
            span.map_or(NOWHERE, |span| Location { line: span.start.line, column: span.start.column });
        let mut fault = describe(error, self.tokens, &self.context);
        if fault.at == NOWHERE {
            fault.at = fallback;
        }
        if fault.at == NOWHERE
            && let Some(first) = self.tokens.first()
        {
            fault.at = first.span.start;
        }
        fault
    }
}

/// ORDER BY, LIMIT and OFFSET of the outermost query, which nothing else looks at.
struct TopOrder {
    order_by: Option<OrderBy>,
    limit: Option<LimitClause>,
}

/// `FETCH NEXT n ROWS ONLY` as the LIMIT that it is.
fn fetched(query: &mut Query) {
    let Some(fetch) = query.fetch.take_if(|fetch| !fetch.with_ties && !fetch.percent) else { return };
    let one = || SqlExpr::value(datafusion_sql::sqlparser::ast::Value::Number("1".into(), false));
    let limit = Some(fetch.quantity.unwrap_or_else(one));
    let offset = match query.limit_clause.take() {
        Some(LimitClause::LimitOffset { offset, .. }) => offset,
        _ => None,
    };
    query.limit_clause = Some(LimitClause::LimitOffset { limit, offset, limit_by: Vec::new() });
}

impl TopOrder {
    fn take(query: &mut Query) -> std::result::Result<TopOrder, Box<Fault>> {
        fetched(query);
        let order = TopOrder { order_by: query.order_by.take(), limit: query.limit_clause.take() };
        if let Some(OrderByKind::Expressions(by)) = order.order_by.as_ref().map(|order| &order.kind) {
            by.iter().try_for_each(|order| refuse::refuse_unsupported_in(&order.expr))?;
        }
        Ok(order)
    }

    fn put(mut self, query: &mut Query) -> std::result::Result<(), Box<Fault>> {
        if let Some(OrderByKind::Expressions(by)) = self.order_by.as_mut().map(|order| &mut order.kind) {
            // A number is the place of a column, and not a value.
            let computed = by.iter_mut().filter(|order| !matches!(order.expr, SqlExpr::Value(_)));
            computed.map(|order| &mut order.expr).try_for_each(rewrite::rewrite_expr)?;
        }
        (query.order_by, query.limit_clause) = (self.order_by, self.limit);
        Ok(())
    }
}

fn parser_options() -> ParserOptions {
    ParserOptions::new()
        .with_parse_float_as_decimal(true)
        .with_enable_ident_normalization(false)
        .with_support_varchar_with_length(true)
        .with_map_string_types_to_utf8view(false)
        .with_collect_spans(true)
        // Flink: NULL is the lowest value.
        .with_default_null_ordering(NullOrdering::NullsMin)
}

fn analyze(plan: LogicalPlan) -> Result<LogicalPlan> {
    let analyzer = Analyzer::with_rules(vec![Arc::new(TypeCoercion::new())]);
    let plan = analyzer.execute_and_check(plan, options(), |_, _| {})?;
    with_flink_casts(plan)
}

/// Casts whose values Flink makes otherwise than Arrow.
fn with_flink_casts(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewritten(plan, functions::flink_cast)
}

/// The plan with another expression wherever `rewrite` has one, from the leaves up. Names stay.
fn rewritten(
    plan: LogicalPlan,
    rewrite: fn(&Expr, &datafusion_common::DFSchema) -> Option<Expr>,
) -> Result<LogicalPlan> {
    let transformed = plan.transform_up_with_subqueries(|node| {
        let mut schema = datafusion_common::DFSchema::empty();
        for input in node.inputs() {
            schema.merge(input.schema());
        }
        let preserver = datafusion_expr::expr_rewriter::NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = preserver.save(&expr);
            let rewritten = expr.transform_up(|expr| {
                Ok(match rewrite(&expr, &schema) {
                    Some(other) => Transformed::yes(other),
                    None => Transformed::no(expr),
                })
            })?;
            Ok(rewritten.update_data(|data| name.restore(data)))
        })
    })?;
    Ok(transformed.data)
}

fn optimizer() -> Optimizer {
    Optimizer::with_rules(vec![
        Arc::new(OptimizeUnions::new()),
        Arc::new(SimplifyExpressions::new()),
        Arc::new(ReplaceDistinctWithAggregate::new()),
        Arc::new(DecorrelatePredicateSubquery::new()),
        Arc::new(ExtractEquijoinPredicate::new()),
        Arc::new(EliminateDuplicatedExpr::new()),
        Arc::new(EliminateCrossJoin::new()),
        Arc::new(EliminateOuterJoin::new()),
        Arc::new(PushDownFilter::new()),
        Arc::new(CommonSubexprEliminate::new()),
        Arc::new(OptimizeProjections::new()),
    ])
}

/// Without a start time, so that CURRENT_TIMESTAMP is not frozen at planning.
fn optimizer_context() -> OptimizerContext {
    OptimizerContext::new_with_config_options(Arc::clone(options())).without_query_execution_start_time()
}

/// Of an expression that is lowered.
pub(crate) fn execution_props() -> ExecutionProps {
    ExecutionProps { config_options: Some(Arc::clone(options())), ..ExecutionProps::new() }
}

/// DataFusion's, hundreds of them: none is set here, and each call of a function keeps them.
fn options() -> &'static Arc<ConfigOptions> {
    static OPTIONS: LazyLock<Arc<ConfigOptions>> = LazyLock::new(Arc::default);
    &OPTIONS
}

/// A fault on its way through DataFusion.
#[derive(Debug)]
struct Carried(Box<Fault>);

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Carried {}

/// There is none of that name.
#[derive(Debug)]
struct NoTable(TableReference);

impl fmt::Display for NoTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no table {}", self.0)
    }
}

impl std::error::Error for NoTable {}

pub(crate) fn fault_in_error(fault: Box<Fault>) -> DataFusionError {
    DataFusionError::External(Box::new(Carried(fault)))
}

/// Milliseconds of an interval without months, if they are whole.
pub(crate) fn time_part_of(interval: IntervalMonthDayNano) -> Option<i64> {
    const NS_PER_MS: i64 = 1_000_000;
    if interval.months != 0 || interval.nanoseconds % NS_PER_MS != 0 {
        return None;
    }
    i64::from(interval.days).checked_mul(86_400_000)?.checked_add(interval.nanoseconds / NS_PER_MS)
}

/// A message for users out of one for developers.
fn describe(error: DataFusionError, tokens: &[TokenWithSpan], context: &Context<'_>) -> Box<Fault> {
    let place = |name: &str| {
        let word = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.value == name);
        tokens.iter().find(|token| word(token)).map_or(NOWHERE, |token| token.span.start)
    };
    match error {
        DataFusionError::External(inner) => match inner.downcast::<Carried>() {
            Ok(carried) => carried.0,
            Err(other) => match other.downcast::<NoTable>() {
                Ok(no_table) => unknown_table(&no_table.0, context, place),
                Err(other) => Fault::internal(NOWHERE, other),
            },
        },
        DataFusionError::Diagnostic(diagnostic, inner) => {
            let mut fault = describe(*inner, tokens, context);
            if let Some(span) = diagnostic.span {
                fault.at = Location { line: span.start.line, column: span.start.column };
            }
            fault
        }
        DataFusionError::Context(_, inner) => describe(*inner, tokens, context),
        DataFusionError::Shared(inner) => match Arc::try_unwrap(inner) {
            Ok(inner) => describe(inner, tokens, context),
            Err(inner) => Fault::internal(NOWHERE, inner),
        },
        DataFusionError::Collection(mut all) if !all.is_empty() => describe(all.remove(0), tokens, context),
        DataFusionError::SchemaError(schema_error, _) => match *schema_error {
            SchemaError::FieldNotFound { field, valid_fields } => {
                unknown_column(&field.name, field.relation.as_ref(), &valid_fields, place(&field.name))
            }
            SchemaError::AmbiguousReference { field } => Fault::new(
                SqlErrorKind::UnknownColumn,
                place(&field.name),
                format!("column '{}' is in several inputs", field.name),
            )
            .hint("put the table's name or alias before it"),
            SchemaError::DuplicateQualifiedField { name, .. }
            | SchemaError::DuplicateUnqualifiedField { name } => {
                Fault::new(SqlErrorKind::Invalid, place(&name), format!("two columns are named '{name}'"))
                    .hint("name one of them otherwise with AS")
            }
        },
        DataFusionError::NotImplemented(message) => {
            Fault::new(SqlErrorKind::Unsupported, NOWHERE, tidy(&message))
        }
        DataFusionError::Plan(message) => {
            slips::by_phrase(&message, tokens).unwrap_or_else(|| about_function(&message, tokens))
        }
        DataFusionError::Execution(message) => about_function(&message, tokens),
        DataFusionError::Internal(message) => {
            slips::by_phrase(&message, tokens).unwrap_or_else(|| Fault::internal(NOWHERE, tidy(&message)))
        }
        DataFusionError::ArrowError(inner, _) => {
            Fault::new(SqlErrorKind::Invalid, NOWHERE, tidy(&inner.to_string()))
        }
        other => Fault::new(SqlErrorKind::Invalid, NOWHERE, tidy(&other.strip_backtrace())),
    }
}

fn unknown_table(
    name: &TableReference,
    context: &Context<'_>,
    place: impl Fn(&str) -> Location,
) -> Box<Fault> {
    if !in_one_database(name) {
        let database = [name.catalog(), name.schema()].into_iter().flatten().collect::<Vec<_>>().join(".");
        let at = place(name.catalog().or(name.schema()).unwrap_or(&database));
        let message = format!("unknown database '{database}'; there is one, default_database");
        return Fault::new(SqlErrorKind::UnknownTable, at, message).hint("write the table's name alone");
    }
    let name = name.table();
    let fault = Fault::new(SqlErrorKind::UnknownTable, place(name), format!("unknown table '{name}'"));
    match closest(name, context.catalog.names()) {
        Some(near) => fault.hint(format!("did you mean '{near}'?")),
        None => fault.hint(known_tables(context.catalog)),
    }
}

fn in_one_database(name: &TableReference) -> bool {
    name.schema().is_none_or(|schema| schema == "default_database")
        && name.catalog().is_none_or(|catalog| catalog == "default_catalog")
}

fn known_tables(catalog: CatalogAt) -> String {
    let names: Vec<_> = catalog.names().collect();
    if names.is_empty() {
        return "there are no tables yet; write CREATE TABLE before this".into();
    }
    format!("the tables are {}", names.join(", "))
}

fn unknown_column(
    name: &str,
    relation: Option<&TableReference>,
    valid: &[datafusion_common::Column],
    at: Location,
) -> Box<Fault> {
    let written = match relation {
        Some(relation) => format!("{relation}.{name}"),
        None => name.to_string(),
    };
    let fault = Fault::new(SqlErrorKind::UnknownColumn, at, format!("unknown column '{written}'"));
    let mut names: Vec<&str> = valid.iter().map(|column| column.name.as_str()).collect();
    names.dedup();
    match closest(name, names.iter().copied()) {
        Some(near) if near != name => fault.hint(format!("did you mean '{near}'?")),
        _ if names.is_empty() => fault,
        _ => fault.hint(format!("the columns are {}", names.join(", "))),
    }
}

/// Messages about calls name the function in quotes; its first call is where they are placed. The part for
/// users may be wrapped in DataFusion's advice to developers.
fn about_function(message: &str, tokens: &[TokenWithSpan]) -> Box<Fault> {
    let inner = message.split("Error during planning: ").last().unwrap_or(message);
    let inner = inner.split(" No function matches").next().unwrap_or(inner).trim_end_matches('.');
    let quoted = message.split('\'').nth(1).map(|name| name.rsplit('.').next().unwrap_or(name));
    let at = quoted.map_or(NOWHERE, |name| {
        let word = |token: &&TokenWithSpan| {
            matches!(&token.token, Token::Word(word) if word.value.eq_ignore_ascii_case(name))
        };
        tokens.iter().find(word).map_or(NOWHERE, |token| token.span.start)
    });
    Fault::new(kind_of(message), at, tidy(inner))
}

fn kind_of(message: &str) -> SqlErrorKind {
    let about_types = ["coerc", "Cannot infer common", "signature", "type", "cast"];
    if about_types.iter().any(|word| message.contains(word)) {
        SqlErrorKind::Type
    } else {
        SqlErrorKind::Invalid
    }
}

/// One line, lower-case start, without the names of DataFusion's errors.
fn tidy(message: &str) -> String {
    let first = message.lines().next().unwrap_or("");
    let first = first.strip_prefix("Error during planning: ").unwrap_or(first);
    let mut chars = first.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(c), Some(second)) if c.is_uppercase() && second.is_lowercase() => {
            c.to_lowercase().chain(chars).collect()
        }
        _ => first.to_string(),
    }
}

/// What SqlToRel asks: tables, functions, types.
struct Context<'a> {
    catalog: CatalogAt<'a>,
    expr_planners: Vec<Arc<dyn ExprPlanner>>,
    relation_planners: Vec<Arc<dyn RelationPlanner>>,
    row_number: BTreeMap<&'static str, Arc<WindowUDF>>,
}

impl<'a> Context<'a> {
    fn new(catalog: CatalogAt<'a>) -> Context<'a> {
        Context {
            catalog,
            expr_planners: vec![
                Arc::new(FieldPlanner),
                Arc::new(datafusion_functions::core::planner::CoreFunctionPlanner::default()),
                Arc::new(datafusion_functions::unicode::planner::UnicodeFunctionPlanner),
                Arc::new(datafusion_functions_aggregate::planner::AggregateFunctionPlanner),
            ],
            relation_planners: vec![
                Arc::new(LookupPlanner),
                Arc::new(WindowFunctionPlanner),
                Arc::new(UnnestPlanner),
            ],
            row_number: BTreeMap::from([(
                "row_number",
                datafusion_functions_window::row_number::row_number_udwf(),
            )]),
        }
    }
}

/// `r.x` by our own `get_field`, as DataFusion's next planner would by its.
#[derive(Debug)]
struct FieldPlanner;

impl ExprPlanner for FieldPlanner {
    fn plan_compound_identifier(
        &self,
        field: &Field,
        qualifier: Option<&TableReference>,
        names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let column = Expr::Column(Column::from((qualifier, field)));
        let field_of =
            |row: Expr, name: &String| functions::own("get_field").call(vec![row, lit(name.as_str())]);
        Ok(PlannerResult::Planned(names.iter().fold(column, field_of)))
    }
}

impl ContextProvider for Context<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        match self.catalog.get(name.table()).filter(|_| in_one_database(&name)) {
            Some(Relation::Table(table)) => Ok(Arc::new(Source::Table(Arc::clone(table)))),
            Some(Relation::View(plan, _)) => {
                let schema = Arc::new(plan.schema().as_arrow().clone());
                Ok(Arc::new(Source::View(Arc::clone(plan), schema)))
            }
            None => Err(DataFusionError::External(Box::new(NoTable(name)))),
        }
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.expr_planners
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &self.relation_planners
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(FlinkTypes))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let name = name.to_lowercase();
        functions::all().get(&name).cloned().or_else(|| named_cast::by_name(&name))
    }

    fn get_higher_order_meta(&self, _name: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        aggregates::by_name(&name.to_lowercase())
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.row_number.get(name.to_lowercase().as_str()).cloned()
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        options()
    }

    fn udf_names(&self) -> Vec<String> {
        functions::public_names().map(str::to_string).collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        vec![]
    }

    fn udaf_names(&self) -> Vec<String> {
        aggregates::NAMES.iter().map(|name| name.to_string()).collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        vec!["row_number".into()]
    }
}

/// Types of casts (parsed by our own rules) and of literals such as `TIMESTAMP '…'`.
#[derive(Debug)]
struct FlinkTypes;

impl TypePlanner for FlinkTypes {
    fn plan_type_field(&self, sql_type: &SqlType) -> Result<Option<FieldRef>> {
        let data_type = match sql_type {
            SqlType::Timestamp(_, TimezoneInfo::None) => DataType::Timestamp(TimeUnit::Millisecond, None),
            SqlType::Time(..) => DataType::Time32(TimeUnit::Millisecond),
            other => match dialect::decode(other) {
                Some(sql) => match data_type::parse_text(sql) {
                    Ok(parsed) => parsed.data_type,
                    Err(error) => return plan_err!("{error}"),
                },
                None => return Ok(None),
            },
        };
        Ok(Some(Arc::new(Field::new("", data_type, true))))
    }
}

/// The tables that a plan reads, and whether rows are looked up in them.
pub(crate) fn tables_of(plan: &LogicalPlan) -> Vec<(Arc<Table>, bool)> {
    let mut tables = Vec::new();
    // The closure never fails.
    let _ = plan.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(source) = scan.source.downcast_ref::<Source>()
        {
            match source {
                Source::Table(table) => tables.push((Arc::clone(table), false)),
                Source::Lookup(table, _) => tables.push((Arc::clone(table), true)),
                Source::View(..) | Source::Columns(_) => {}
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    tables
}

/// Whether any expression below still has a subquery: they are not run here.
pub(crate) fn has_subquery(expr: &Expr) -> bool {
    let mut found = false;
    let _ = expr.apply(|expr| {
        found |= matches!(
            expr,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::OuterReferenceColumn(..)
        );
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}
