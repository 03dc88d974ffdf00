//! Fields of ROWs that a table reads without the rest of them: where a query wants nothing of a ROW but some fields, they become
//! columns of the scan, as a table with a column for each would have them. Several queries of a script over one table read ROWs
//! whole: these are the same columns for all, whose rows are then told apart all at once, and that is worth more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DFSchema, Result, internal_err};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::{Expr, Filter, LogicalPlan, Projection, SubqueryAlias, TableScan, TableScanBuilder};
use laxity_connect::FieldColumn;

use crate::catalog::{Source, Table, TableColumn};
use crate::planning::tables_of;
use crate::template::TableKey;

/// The names of the fields on the way from a column.
type Way = Vec<String>;

/// What is wanted of a column.
#[derive(Clone)]
enum Wanted {
    Fields(BTreeSet<Way>),
    All,
}

/// Where a column has gone.
enum Place {
    Column(usize),
    /// Into its fields.
    Fields(BTreeMap<Way, usize>),
}

/// The plan in which scans read fields instead of ROWs where that is enough: below a projection, with filters in between. What is
/// behind other operators, a window function among them, is read whole.
pub(crate) fn read_alone(plan: LogicalPlan) -> Result<LogicalPlan> {
    let read = plan.transform_down(|node| match &node {
        LogicalPlan::Projection(projection) if has_fields(&projection.input) => {
            let all = vec![Wanted::All; projection.expr.len()];
            Ok(Transformed::new(narrowed(&node, &all)?.0, true, TreeNodeRecursion::Jump))
        }
        LogicalPlan::TableScan(scan) if has_fields(&node) => {
            let all = vec![Wanted::All; scan.projected_schema.fields().len()];
            Ok(Transformed::yes(narrowed_scan(scan, &all)?.0))
        }
        _ => Ok(Transformed::no(node)),
    });
    read.data()
}

/// The tables of a plan that have fields, each once.
pub(crate) fn tables(plan: &LogicalPlan) -> BTreeSet<TableKey> {
    let tables = tables_of(plan).into_iter().filter(|(table, is_lookup)| !is_lookup && is_by_fields(table));
    tables.map(|(table, _)| TableKey::of(&table.spec)).collect()
}

fn is_by_fields(table: &Table) -> bool {
    table.spec.schema.fields().iter().any(|field| FieldColumn::way(field).is_some())
}

/// Whether this is a scan of a table with fields, perhaps filtered and projected.
fn has_fields(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_fields(&projection.input),
        LogicalPlan::Filter(filter) => has_fields(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => has_fields(&alias.input),
        LogicalPlan::TableScan(scan) => {
            let source = scan.source.downcast_ref::<Source>();
            matches!(source, Some(Source::Table(table)) if is_by_fields(table))
        }
        _ => false,
    }
}

/// The plan, of whose columns so much is wanted, and where they have gone.
fn narrowed(plan: &LogicalPlan, wanted: &[Wanted]) -> Result<(LogicalPlan, Vec<Place>)> {
    match plan {
        LogicalPlan::TableScan(scan) => narrowed_scan(scan, wanted),
        LogicalPlan::SubqueryAlias(alias) => {
            let (input, places) = narrowed(&alias.input, wanted)?;
            let alias = SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?;
            Ok((LogicalPlan::SubqueryAlias(alias), places))
        }
        LogicalPlan::Filter(filter) => {
            let schema = filter.input.schema();
            let mut wanted = wanted.to_vec();
            want(&filter.predicate, schema, &mut wanted)?;
            let (input, places) = narrowed(&filter.input, &wanted)?;
            let predicate = over(filter.predicate.clone(), schema, &places, input.schema())?;
            Ok((LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?), places))
        }
        LogicalPlan::Projection(projection) => narrowed_projection(projection, wanted),
        other => internal_err!("{} has no fields", other.display()),
    }
}

fn narrowed_projection(projection: &Projection, wanted: &[Wanted]) -> Result<(LogicalPlan, Vec<Place>)> {
    let schema = projection.input.schema();
    let mut below = vec![Wanted::Fields(BTreeSet::new()); schema.fields().len()];
    for (expr, wanted) in projection.expr.iter().zip(wanted) {
        match (wanted, way_of(expr)) {
            (Wanted::Fields(ways), Some((column, before))) => {
                let ways = ways.iter().map(|way| [before.as_slice(), way.as_slice()].concat());
                add(&mut below[schema.index_of_column(column)?], ways);
            }
            _ => want(expr, schema, &mut below)?,
        }
    }
    let (input, moved) = narrowed(&projection.input, &below)?;
    let mut exprs = Vec::new();
    let mut places = Vec::new();
    let mut names: BTreeSet<String> =
        projection.schema.fields().iter().map(|field| field.name().clone()).collect();
    let preserver = NamePreserver::new_for_projection();
    for ((expr, wanted), column) in projection.expr.iter().zip(wanted).zip(projection.schema.fields()) {
        let split = match (wanted, way_of(expr)) {
            (Wanted::Fields(ways), Some((of, before))) => match &moved[schema.index_of_column(of)?] {
                Place::Fields(fields) => Some((ways, before, fields)),
                Place::Column(_) => None,
            },
            _ => None,
        };
        let Some((ways, before, fields)) = split else {
            places.push(Place::Column(exprs.len()));
            let name = preserver.save(expr);
            exprs.push(name.restore(over(expr.clone(), schema, &moved, input.schema())?));
            continue;
        };
        let mut of_ways = BTreeMap::new();
        for way in ways {
            let Some(&field) = fields.get(&[before.as_slice(), way.as_slice()].concat()) else {
                return internal_err!("field {} of {} is not read", way.join("."), column.name());
            };
            of_ways.insert(way.clone(), exprs.len());
            let field = Expr::Column(Column::from(input.schema().qualified_field(field)));
            let mut name = format!("{}.{}", column.name(), way.join("."));
            while !names.insert(name.clone()) {
                name.push('\'');
            }
            exprs.push(field.alias(name));
        }
        places.push(Place::Fields(of_ways));
    }
    Ok((LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?), places))
}

fn narrowed_scan(scan: &TableScan, wanted: &[Wanted]) -> Result<(LogicalPlan, Vec<Place>)> {
    let Some(Source::Table(table)) = scan.source.downcast_ref::<Source>() else {
        return internal_err!("{} has no fields", scan.table_name);
    };
    let stored = &table.spec.schema;
    let of_scan: Vec<usize> = match &scan.projection {
        Some(projection) => projection.clone(),
        None => (0..table.schema.fields().len()).collect(),
    };
    // By the field's place among what is stored.
    let mut read = BTreeMap::new();
    let split = of_scan.iter().zip(wanted).map(|(column, wanted)| {
        let (Wanted::Fields(ways), TableColumn::Physical(of)) = (wanted, &table.columns[*column]) else {
            return None;
        };
        if !scan.filters.is_empty() {
            return None;
        }
        let fields = ways.iter().map(|way| Some((way.clone(), field_column(stored, *of, way)?)));
        fields.collect::<Option<BTreeMap<_, _>>>().filter(|fields| !fields.is_empty())
    });
    let split: Vec<Option<BTreeMap<Way, usize>>> = split.collect();
    read.extend(split.iter().flatten().flat_map(BTreeMap::values).map(|field| (*field, 0)));
    let mut fields = table.schema.fields().to_vec();
    let mut columns = table.columns.clone();
    for column in &mut columns {
        if let TableColumn::Computed(expr) = column {
            *expr = of_columns(std::mem::take(expr), stored)?;
        }
    }
    for (field, column) in &mut read {
        *column = fields.len();
        fields.push(Arc::new(FieldColumn::unmarked(stored.field(*field))));
        columns.push(TableColumn::Physical(*field));
    }
    let mut projection: Vec<usize> =
        of_scan.iter().zip(&split).filter(|(_, split)| split.is_none()).map(|(column, _)| *column).collect();
    let first_field = projection.len();
    projection.extend(read.values());
    let mut places = Vec::new();
    let mut kept = 0..;
    for split in split {
        places.push(match split {
            None => Place::Column(kept.next().unwrap_or_default()),
            Some(ways) => {
                let place = |field: usize| first_field + read.range(..field).count();
                Place::Fields(ways.into_iter().map(|(way, field)| (way, place(field))).collect())
            }
        });
    }
    let table = Table { schema: Arc::new(Schema::new(fields)), columns, ..Table::clone(table) };
    let narrowed = TableScanBuilder::new(scan.table_name.clone(), Arc::new(Source::Table(Arc::new(table))))
        .with_projection(Some(projection))
        .with_filters(scan.filters.clone())
        .with_fetch(scan.fetch)
        .build()?;
    Ok((LogicalPlan::TableScan(narrowed), places))
}

/// What a table computes, over the columns that it stores, fields among them.
fn of_columns(expr: Expr, stored: &Schema) -> Result<Expr> {
    let moved = expr.transform_down(|node| {
        let Some((column, way)) = field_of(&node) else { return Ok(Transformed::no(node)) };
        Ok(match stored.index_of(&column.name).ok().and_then(|place| field_column(stored, place, &way)) {
            Some(field) => moved(Column::new_unqualified(stored.field(field).name())),
            None => Transformed::no(node),
        })
    });
    moved.data()
}

/// The column of a table that is this field of another, if there is one.
fn field_column(stored: &Schema, column: usize, way: &[String]) -> Option<usize> {
    let mut data_type = stored.field(column).data_type();
    let mut places = Vec::new();
    for name in way {
        let DataType::Struct(fields) = data_type else { return None };
        let (place, field) = fields.find(name)?;
        places.push(place);
        data_type = field.data_type();
    }
    stored.fields().iter().position(|field| {
        FieldColumn::way(field).is_some_and(|(of, fields)| of == column && fields == places)
    })
}

/// Adds what an expression reads.
fn want(expr: &Expr, schema: &DFSchema, wanted: &mut [Wanted]) -> Result<()> {
    expr.apply(|node| {
        if let Some((column, way)) = field_of(node) {
            add(&mut wanted[schema.index_of_column(column)?], [way]);
            return Ok(TreeNodeRecursion::Jump);
        }
        if let Expr::Column(column) = node {
            wanted[schema.index_of_column(column)?] = Wanted::All;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn add(wanted: &mut Wanted, ways: impl IntoIterator<Item = Way>) {
    if let Wanted::Fields(fields) = wanted {
        fields.extend(ways);
    }
}

/// An expression over columns that have gone to these places.
fn over(expr: Expr, from: &DFSchema, places: &[Place], to: &DFSchema) -> Result<Expr> {
    let column_at = |place: usize| Column::from(to.qualified_field(place));
    let over = expr.transform_down(|node| {
        if let Some((column, way)) = field_of(&node)
            && let Place::Fields(fields) = &places[from.index_of_column(column)?]
        {
            let Some(&field) = fields.get(&way) else {
                return internal_err!("field {} of {column} is not read", way.join("."));
            };
            return Ok(moved(column_at(field)));
        }
        let Expr::Column(column) = &node else { return Ok(Transformed::no(node)) };
        match &places[from.index_of_column(column)?] {
            Place::Column(place) => Ok(moved(column_at(*place))),
            Place::Fields(_) => internal_err!("{column} is not read whole"),
        }
    });
    over.data()
}

fn moved(column: Column) -> Transformed<Expr> {
    Transformed::new(Expr::Column(column), true, TreeNodeRecursion::Jump)
}

/// The column that an expression is, or of which it takes a field, and the way to that.
fn way_of(expr: &Expr) -> Option<(&Column, Way)> {
    match expr {
        Expr::Alias(alias) => way_of(&alias.expr),
        Expr::Column(column) => Some((column, Vec::new())),
        _ => field_of(expr),
    }
}

/// The column of which an expression takes a field.
fn field_of(expr: &Expr) -> Option<(&Column, Way)> {
    let Expr::ScalarFunction(call) = expr else { return None };
    if call.name() != "get_field" {
        return None;
    }
    let (row, names) = call.args.split_first()?;
    let names = names.iter().map(|name| match name {
        Expr::Literal(name, _) => name.try_as_str().flatten().map(str::to_owned),
        _ => None,
    });
    let names = names.collect::<Option<Way>>()?;
    let (column, mut way) = match row {
        Expr::Column(column) => (column, Vec::new()),
        inner => field_of(inner)?,
    };
    way.extend(names);
    Some((column, way))
}
