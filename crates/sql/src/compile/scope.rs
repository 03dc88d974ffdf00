//! Plans one query with all that is in force at its place. It changes nothing of the session, so that many queries can
//! be planned at one time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion_expr::LogicalPlan;
use datafusion_sql::sqlparser::ast::{Ident, Query};
use datafusion_sql::sqlparser::tokenizer::{Span, TokenWithSpan};
use laxity_connect::{SinkSpec, TableSpec, validate_lookup, validate_source};
use laxity_graph::CheckpointPlace;
use laxity_operators::{LateColumn, Stage};
use laxity_text::closest;

use super::{
    CompileOptions, Done, LateSink, PathPlace, Place, PlannedQuery, SqlFile, check_written, option_fault,
    sink_columns,
};
use crate::alike::Alike;
use crate::apart::Windows;
use crate::catalog::{CatalogAt, Relation, Table};
use crate::data_type::{display, flink_type};
use crate::error::{Fault, NOWHERE, SqlErrorKind};
use crate::explain::{explain, shape};
use crate::lower::{LookupSource, Lowering};
use crate::origin::Origin;
use crate::planning::Planner;
use crate::row_fields;
use crate::settings::SessionSettings;
use crate::statement::{Insert, Statement, StatementKind};
use crate::template::{self, Shape, TableKey, Templates};
use crate::words::words_within;

/// What a query is planned with.
pub(super) struct Scope<'a> {
    pub files: &'a [SqlFile],
    pub texts: &'a [Arc<str>],
    pub options: CompileOptions,
    pub catalog: CatalogAt<'a>,
    pub templates: &'a Templates,
    /// `None`: it is planned by itself.
    pub alike: Option<&'a Alike>,
    pub settings: &'a SessionSettings,
    /// Who is alone with its table so far is planned again when others come.
    pub awaits_others: bool,
}

/// What is known of an INSERT or a SELECT when it is planned.
struct Inserted {
    /// The table that nobody else has read so far, if that keeps it from doing things with others.
    lone_with: Option<TableKey>,
    /// Tables that nobody else has read so far, and of which it reads fields of ROWs alone.
    lone_rows: BTreeSet<TableKey>,
    windows: Windows,
}

impl Scope<'_> {
    pub fn origin(&self, place: &Place) -> Arc<Origin> {
        let (file, text) = (self.files[place.file].path.clone(), Arc::clone(&self.texts[place.file]));
        Origin::new(file, text, place.span, place.tokens, |name| self.catalog.origin(name).cloned())
    }

    /// Plans an INSERT or a SELECT that is run or explained; `set`: the STATEMENT SET that it is a part of.
    pub fn plan(
        &self,
        statement: &Statement,
        place: &Place,
        name: String,
        set: Option<String>,
    ) -> Done<PlannedQuery> {
        // A plan that was made for many has not the places of these words, which an error is told with.
        let alone = || Scope { alike: None, ..*self }.plan_once(statement, place, name.clone(), set.clone());
        match self.alike {
            Some(_) => self.plan_once(statement, place, name.clone(), set.clone()).or_else(|_| alone()),
            None => alone(),
        }
    }

    fn plan_once(
        &self,
        statement: &Statement,
        place: &Place,
        name: String,
        set: Option<String>,
    ) -> Done<PlannedQuery> {
        let plain_name = name.clone();
        let planner = Planner::new(self.catalog, place.tokens);
        let mut lowering = Lowering::new(&planner, self.settings, name, self.options.processing_origin_ms);
        lowering.origin = Some(self.origin(place));
        lowering.verifies = self.options.verify_approximate;
        lowering.late_columns = self.late_table()?.map_or(vec![], |table| {
            table.sink.schema.fields().iter().map(|field| field.name().clone()).collect()
        });
        let Inserted { lone_with, lone_rows, windows } = match &statement.kind {
            StatementKind::Insert(insert) => self.insert(insert, place.tokens, &planner, &mut lowering)?,
            StatementKind::Query(query) => self.print(query, &planner, &mut lowering)?,
            other => return Err(Fault::internal(place.span.start, format!("{other:?} is planned"))),
        };
        let late = self.late_sink(&lowering)?;
        let late_table = late.as_ref().map(|late: &LateSink| (late.sink.table.name.as_str(), late.node));
        self.place_checkpoints(&mut lowering, &self.files[place.file].path);
        let explain = explain(&lowering.dataflow, &lowering.details, self.settings, late_table);
        Ok(PlannedQuery {
            paths: self.paths_of(&lowering),
            lookups: lowering.lookups,
            explain,
            shape: shape(&lowering.dataflow, &lowering.details),
            late,
            dataflow: lowering.dataflow,
            file: self.files[place.file].path.clone(),
            lines: (place.span.start.line, place.span.end.line),
            set,
            plain_name,
            lone_with,
            lone_rows,
            windows,
        })
    }

    /// The plan, with no more of ROWs than it wants if nobody else reads its tables; and which these are then.
    fn by_fields(&self, plan: LogicalPlan, planner: &Planner) -> Done<(LogicalPlan, BTreeSet<TableKey>)> {
        let tables = row_fields::tables(&plan);
        if tables.is_empty() || !self.awaits_others || !self.templates.reads_rows_first(&tables) {
            return Ok((plan, BTreeSet::new()));
        }
        let plan = row_fields::read_alone(plan).map_err(|error| planner.fault(error))?;
        Ok((plan, tables))
    }

    /// A folder is named as seen from the file.
    fn place_checkpoints(&self, lowering: &mut Lowering, file: &Path) {
        let base = file.parent().unwrap_or(Path::new(""));
        let checkpoints = lowering.dataflow.settings.checkpoints.as_mut();
        if let Some(CheckpointPlace::Folder(folder)) =
            checkpoints.and_then(|checkpoints| checkpoints.place.as_mut())
        {
            *folder = base.join(&*folder);
        }
    }

    fn paths_of(&self, lowering: &Lowering) -> Vec<PathPlace> {
        let specs = lowering.dataflow.nodes().iter().filter_map(|node| match &node.stage {
            Stage::Source { scan, .. } => Some(Arc::clone(&scan.table)),
            Stage::Sink(sink) => Some(Arc::clone(&sink.table)),
            Stage::Operator(_) => None,
        });
        let specs = specs.chain(lowering.lookups.iter().map(LookupSource::table));
        let place = |spec: Arc<TableSpec>| {
            let Some(Relation::Table(table)) = self.catalog.get(&spec.name) else { return None };
            let option = table
                .options
                .entries
                .get("path")
                .filter(|_| [&table.spec, &table.sink].into_iter().any(|own| Arc::ptr_eq(own, &spec)))?;
            let file = self.files[table.file].path.display();
            let (line, column) = (option.value_at.line, option.value_at.column);
            let written = option.value.strip_prefix("file://").unwrap_or(&option.value);
            Some(PathPlace { path: spec.base.join(written), place: format!("{file}:{line}:{column}") })
        };
        specs.filter_map(place).collect()
    }

    fn insert(
        &self,
        insert: &Insert,
        words: &[TokenWithSpan],
        planner: &Planner,
        lowering: &mut Lowering,
    ) -> Done<Inserted> {
        let table = match self.catalog.get(&insert.table.value) {
            Some(Relation::Table(table)) => table,
            Some(Relation::View(..)) => {
                return Err(Fault::new(
                    SqlErrorKind::Invalid,
                    insert.table.span.start,
                    format!("'{}' is a view, which cannot be written to", insert.table.value),
                ));
            }
            None => return Err(self.unknown_table(&insert.table)),
        };
        check_written(table)?;
        let columns = sink_columns(table, &insert.columns)?;
        let keep = &lowering.late_columns;
        let alone = || planner.query(&insert.query).and_then(|plan| planner.optimize(plan, keep));
        let words = words_within(words, Span::new(insert.query_at, insert.span.end));
        let plan = match self.alike {
            Some(alike) => alike.plan(words, self.catalog, keep, alone)?,
            None => alone()?,
        };
        self.check_read(&plan)?;
        let (plan, lone_rows) = self.by_fields(plan, planner)?;
        lowering.insert(&plan, &table.sink, &table.lengths, &columns)?;
        let interval = self.settings.checkpoint_interval;
        let shape = |links| Shape::of(&plan, links, &table.sink.schema, &table.lengths, &columns, interval);
        let constants = std::mem::take(&mut lowering.constants);
        let flow = &mut lowering.dataflow;
        let lone_with = self.awaits_others.then(|| self.templates.lone_with(flow)).flatten();
        let mut windows = Windows::of(&plan, self.settings);
        if lone_with.is_some() {
            template::keep_what_gains(flow);
        } else if !template::find(shape, &constants, self.templates, planner, self.settings, flow) {
            windows = windows.without_template(&plan);
        }
        Ok(Inserted { lone_with, lone_rows, windows })
    }

    /// A SELECT that is not inserted anywhere goes to standard output.
    fn print(&self, query: &Query, planner: &Planner, lowering: &mut Lowering) -> Done<Inserted> {
        let plan = planner.optimize(planner.printed_query(query)?, &lowering.late_columns)?;
        self.check_read(&plan)?;
        let (plan, lone_rows) = self.by_fields(plan, planner)?;
        let fields = plan.schema().fields().iter().map(|field| {
            let data_type = flink_type(field.data_type());
            field.as_ref().clone().with_data_type(data_type).with_nullable(true)
        });
        let fields: Vec<Field> = fields.collect();
        let columns: Vec<usize> = (0..fields.len()).collect();
        let spec = TableSpec {
            name: "print".into(),
            schema: Arc::new(Schema::new(fields)),
            options: BTreeMap::from([("connector".to_string(), "print".to_string())]),
            base: PathBuf::new(),
        };
        lowering.insert(&plan, &Arc::new(spec), &[], &columns)?;
        template::keep_what_gains(&mut lowering.dataflow);
        Ok(Inserted { lone_with: None, lone_rows, windows: Windows::None })
    }

    /// Checks that the tables of a plan can be read.
    fn check_read(&self, plan: &LogicalPlan) -> Done<()> {
        for (table, is_lookup) in crate::planning::tables_of(plan) {
            let validate = if is_lookup { validate_lookup } else { validate_source };
            validate(&table.spec).map_err(|error| option_fault(&table, &error))?;
        }
        Ok(())
    }

    fn late_table(&self) -> Done<Option<&Arc<Table>>> {
        let Some(name) = &self.settings.late_table else { return Ok(None) };
        match self.catalog.get(name) {
            Some(Relation::Table(table)) => {
                check_written(table)?;
                Ok(Some(table))
            }
            _ => {
                let fault = Fault::new(
                    SqlErrorKind::UnknownTable,
                    NOWHERE,
                    format!("'laxity.late.table' names the unknown table '{name}'"),
                );
                Err(match closest(name, self.catalog.names()) {
                    Some(near) => fault.hint(format!("did you mean '{near}'?")),
                    None => fault.hint("write its CREATE TABLE before this"),
                })
            }
        }
    }

    fn late_sink(&self, lowering: &Lowering) -> Done<Option<LateSink>> {
        let (Some(table), Some((node, input))) = (self.late_table()?, &lowering.first_window) else {
            return Ok(None);
        };
        let mut columns = Vec::new();
        for field in table.sink.schema.fields() {
            let column = match input.index_of(field.name()) {
                Ok(index) => LateColumn::Input(index),
                Err(_) if field.name() == "window_end" => LateColumn::WindowEnd,
                Err(_) => {
                    let mut names: Vec<_> = input.fields().iter().map(|f| f.name().as_str()).collect();
                    names.retain(|name| !name.starts_with("__"));
                    names.push("window_end");
                    return Err(Fault::new(
                        SqlErrorKind::UnknownColumn,
                        NOWHERE,
                        format!(
                            "column '{}' of the late table '{}' is not in the input of {}",
                            field.name(),
                            table.spec.name,
                            lowering.dataflow.node(*node).name
                        ),
                    )
                    .hint(format!("there are {}", names.join(", "))));
                }
            };
            let given = match column {
                LateColumn::Input(index) => input.field(index).data_type().clone(),
                LateColumn::WindowEnd => DataType::Timestamp(TimeUnit::Millisecond, None),
            };
            if !arrow::compute::can_cast_types(&given, field.data_type()) {
                return Err(Fault::new(
                    SqlErrorKind::Type,
                    NOWHERE,
                    format!(
                        "column '{}' of the late table '{}' is {}, the late rows have {}",
                        field.name(),
                        table.spec.name,
                        display(field.data_type()),
                        display(&given)
                    ),
                ));
            }
            columns.push(column);
        }
        Ok(Some(LateSink { sink: SinkSpec { table: Arc::clone(&table.sink) }, node: *node, columns }))
    }

    pub fn unknown_table(&self, name: &Ident) -> Box<Fault> {
        let fault = Fault::new(
            SqlErrorKind::UnknownTable,
            name.span.start,
            format!("unknown table '{}'", name.value),
        );
        match closest(&name.value, self.catalog.names()) {
            Some(near) => fault.hint(format!("did you mean '{near}'?")),
            None => fault,
        }
    }
}
