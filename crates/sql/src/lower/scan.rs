//! Where rows enter a dataflow: the columns and the watermark of a table, and windows where no aggregation assigns
//! them.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion_common::DFSchema;
use datafusion_expr::{Expr, TableScan};
use laxity_connect::{FieldColumn, ScanSpec, SplitColumn};
use laxity_graph::RowErrors;
use laxity_operators::{
    Access, KeepWatermarks, SessionExpandSpec, SourceColumn, SourceSpec, Template, WatermarkSpec,
    WindowExpandSpec, WindowKind,
};

use super::relation::{Open, OpenStage, Output, PendingWindow, Relation, Role, Shareable, Slot};
use super::{Lowered, Lowering, chained};
use crate::catalog::{Source, Table, TableColumn};
use crate::error::{Fault, NOWHERE, SqlErrorKind};
use crate::explain::{duration_text, window_text};
use crate::window_function::WindowFunction;

impl Lowering<'_> {
    /// Reads the columns asked for, and those that the watermark needs.
    pub(super) fn scan(&mut self, scan: &TableScan) -> Lowered<Relation> {
        let (table, is_lookup) = match scan.source.downcast_ref::<Source>() {
            Some(Source::Table(table)) => (table, false),
            Some(Source::Lookup(table, _)) => (table, true),
            _ => return Err(Fault::internal(NOWHERE, format!("{} is not a table", scan.table_name))),
        };
        let wanted: Vec<usize> = match &scan.projection {
            Some(projection) => projection.clone(),
            None => (0..table.columns.len()).collect(),
        };
        // Nothing waits for the times of a table that rows are looked up in.
        let watermark = if is_lookup { None } else { watermark_of(table, &wanted) };
        let columns = self.columns_to_fill(table, watermark, &wanted)?;
        let mut physical = physical_columns(table, &columns);
        // Parts of the input have watermarks of their own.
        let last = table.spec.schema.fields().len().saturating_sub(1);
        let is_split = table.spec.schema.fields().last().is_some_and(|field| SplitColumn::is(field));
        physical.extend(watermark.filter(|_| is_split).map(|_| last));
        let scanned: SchemaRef =
            Arc::new(table.spec.schema.project(&physical).map_err(|e| Fault::internal(NOWHERE, e))?);
        let (mut sources, mut fields) = self.source_columns(table, &columns, &physical, &scanned)?;
        let split_column = (is_split && watermark.is_some()).then(|| {
            sources.push(SourceColumn::Physical(physical.len() - 1));
            fields.push(scanned.field(physical.len() - 1).clone());
            fields.len() - 1
        });
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let mut details = vec![read_detail(table, &physical)];
        let watermark = match watermark {
            None => None,
            Some((time, expr)) => {
                let expression = self.physical(expr, &df_schema(&schema)?)?;
                details.push(format!("watermark {}", super::relation::plain(&expression.to_string())));
                let time_column =
                    columns.binary_search(time).map_err(|_| Fault::internal(NOWHERE, "no time column"))?;
                let max_ahead_ms = self.max_ahead_ms(table)?;
                Some(WatermarkSpec { time_column, expression, max_ahead_ms, split_column })
            }
        };
        let read = match &self.work {
            Some(_) => Template::with_member(&schema),
            None => Arc::clone(&schema),
        };
        self.read_columns = Arc::clone(&schema);
        let stamp = sources.iter().position(|column| matches!(column, SourceColumn::ProcessingTime));
        self.read_time = watermark.as_ref().map(|watermark| watermark.time_column).or(stamp);
        let spec = SourceSpec {
            name: format!("Source: {}", table.spec.name),
            columns: sources,
            output_schema: schema,
            watermark,
            processing_origin_ms: self.processing_origin_ms,
        };
        let mut chain = vec![spec.clone().factory()];
        if self.keeps_watermarks
            && let Some(watermark) = &spec.watermark
        {
            let keeping = KeepWatermarks { name: spec.name.clone(), watermark: watermark.clone() };
            chain.push(keeping.factory());
        }
        Ok(Relation {
            open: Open {
                name: spec.name.clone(),
                details,
                parallelism: 1,
                inputs: vec![],
                window: None,
                stage: OpenStage::Source(
                    ScanSpec { table: Arc::clone(&table.spec), columns: physical },
                    self.shareable(&spec),
                ),
                chain,
                calc: None,
                meets_late_rows: None,
            },
            schema: read,
            outputs: read_outputs(table, &wanted, &columns),
            window: None,
            predicate: None,
            unfired: None,
        })
    }

    /// How the columns of a table are filled from the physical ones that are `scanned`.
    fn source_columns(
        &self,
        table: &Table,
        columns: &[usize],
        physical: &[usize],
        scanned: &SchemaRef,
    ) -> Lowered<(Vec<SourceColumn>, Vec<Field>)> {
        let scanned_df = df_schema(scanned)?;
        let mut sources = Vec::new();
        let mut fields = Vec::new();
        for column in columns {
            let declared = table.schema.field(*column);
            let (source, field) = match &table.columns[*column] {
                TableColumn::Physical(index) => {
                    let position = physical.binary_search(index).map_err(|_| {
                        Fault::internal(NOWHERE, format!("column {} is not scanned", declared.name()))
                    })?;
                    (SourceColumn::Physical(position), scanned.field(position))
                }
                TableColumn::Computed(expr) => {
                    (SourceColumn::Computed(self.physical(expr, &scanned_df)?), declared)
                }
                TableColumn::ProcessingTime => (SourceColumn::ProcessingTime, declared),
            };
            sources.push(source);
            fields.push(FieldColumn::unmarked(field));
        }
        Ok((sources, fields))
    }

    /// The part of a source that others can do too, unless the query does not want that or could not wait for them.
    fn shareable(&self, spec: &SourceSpec) -> Option<Box<Shareable>> {
        // Beside event time, which moves windows on, each is to say itself when its rows came.
        let is_stamped = spec.is_stamped() && spec.watermark.is_some();
        // Rows that an open window still takes change its result at once.
        let is_patient = self.settings.allowed_lateness_ms > 0;
        // A row over which a computed column fails is each query's own to refuse.
        let refuses_rows = self.settings.row_errors == RowErrors::DeadLetter;
        // What a template is made of is not read by itself.
        let may = self.settings.share
            && self.work.is_none()
            && !self.keeps_watermarks
            && !is_patient
            && !refuses_rows
            && !is_stamped;
        let access = Some(Access::to_every_row());
        may.then(|| Box::new(Shareable { source: spec.clone(), access, calcs: vec![] }))
    }

    /// The table's own bound on times in the future, or the session's.
    fn max_ahead_ms(&self, table: &Table) -> Lowered<Option<i64>> {
        let Some(option) = table.options.entries.get("laxity.max.event.ahead") else {
            return Ok(self.settings.max_event_ahead_ms);
        };
        let ahead = laxity_text::parse_flink_duration(&option.value)
            .ok()
            .filter(|ahead| !ahead.is_zero())
            .ok_or_else(|| {
                Fault::new(
                    SqlErrorKind::Option,
                    option.value_at,
                    format!("'laxity.max.event.ahead' takes a duration above zero, not '{}'", option.value),
                )
            })?;
        Ok(i64::try_from(ahead.as_millis()).ok())
    }

    /// The table's columns to fill, ascending: those wanted and those that the watermark reads.
    fn columns_to_fill(
        &self,
        table: &Table,
        watermark: Option<&(usize, Expr)>,
        wanted: &[usize],
    ) -> Lowered<Vec<usize>> {
        let mut columns: BTreeSet<usize> = wanted.iter().copied().collect();
        if let Some((time, expr)) = watermark {
            columns.insert(*time);
            for column in expr.column_refs() {
                columns.insert(table.schema.index_of(&column.name).map_err(|e| Fault::internal(NOWHERE, e))?);
            }
        }
        // Operators carry the number of rows in their columns.
        if columns.is_empty() && !table.columns.is_empty() {
            let cheapest = table.columns.iter().position(|c| matches!(c, TableColumn::Physical(_)));
            columns.insert(cheapest.unwrap_or(0));
        }
        Ok(columns.into_iter().collect())
    }

    pub(super) fn window_function(
        &mut self,
        input: Relation,
        function: &WindowFunction,
    ) -> Lowered<Relation> {
        let mut relation = Relation { unfired: None, ..self.expand(input)? };
        let position = function.input.schema().maybe_index_of_column(&function.time);
        let position = position.ok_or_else(|| Fault::internal(function.at, "the time column was pruned"))?;
        let output = relation.outputs[position];
        let (Some(processing), Slot::Column(time)) = (output.role.time_attribute(), output.slot) else {
            return Err(Fault::new(
                SqlErrorKind::Invalid,
                function.at,
                format!("'{}' is not a time attribute, so nothing says when a window over it is complete", function.time.name),
            )
            .hint(format!(
                "declare WATERMARK FOR {0} AS {0} - INTERVAL '5' SECOND in CREATE TABLE, and select the column as it is",
                function.time.name
            )));
        };
        let mut keys = Vec::new();
        for key in &function.keys {
            let position = function.input.schema().maybe_index_of_column(key);
            match position.map(|position| relation.outputs[position].slot) {
                Some(Slot::Column(column)) => keys.push(column),
                _ => return Err(Fault::internal(function.at, "a PARTITION BY column was pruned")),
            }
        }
        for output in &mut relation.outputs {
            output.role = match output.role {
                Role::WindowStart | Role::WindowEnd => Role::Plain,
                Role::WindowTime { processing: false } => Role::EventTime,
                Role::WindowTime { processing: true } => Role::ProcessingTime,
                other => other,
            };
        }
        relation.outputs.extend([
            Output { slot: Slot::WindowStart, role: Role::WindowStart },
            Output { slot: Slot::WindowEnd, role: Role::WindowEnd },
            Output { slot: Slot::WindowTime, role: Role::WindowTime { processing } },
        ]);
        relation.window = Some(PendingWindow { kind: function.kind, time, processing, keys });
        Ok(relation)
    }

    /// Makes the columns of a pending window real: each row once per window.
    pub(super) fn expand(&mut self, relation: Relation) -> Lowered<Relation> {
        let Some(pending) = relation.window.clone() else { return Ok(relation) };
        if let WindowKind::Session { gap_ms } = pending.kind {
            return self.expand_session(relation, pending, gap_ms);
        }
        let mut relation = relation.apply_filter().map_err(|e| self.planner.fault(e))?;
        let spec = WindowExpandSpec {
            name: "Window".into(),
            input_schema: Arc::clone(&relation.schema),
            time: pending.time,
            window: pending.kind,
            processing_time: pending.processing,
        };
        let width = relation.schema.fields().len();
        relation.schema = spec.output_schema();
        chained(&mut relation.open, "Window", Some(window_text(pending.kind)), spec.factory());
        relation.outputs = window_behind(relation.outputs, width);
        relation.window = None;
        relation.unfired = Some(pending.kind.shape());
        Ok(relation)
    }

    /// Sessions are known once they have ended, so this is an operator with state, partitioned by its keys.
    fn expand_session(
        &mut self,
        relation: Relation,
        pending: PendingWindow,
        gap_ms: i64,
    ) -> Lowered<Relation> {
        let input = Relation { window: None, ..relation };
        let input = input.apply_filter().map_err(|e| self.planner.fault(e))?;
        let spec = SessionExpandSpec {
            name: "SessionWindow".into(),
            input_schema: Arc::clone(&input.schema),
            time: pending.time,
            processing_time: pending.processing,
            keys: pending.keys.clone(),
            gap_ms,
        };
        let input_schema = Arc::clone(&input.schema);
        let outputs = window_behind(input.outputs.clone(), input_schema.fields().len());
        let (edge, parallelism) = self.keyed(input, &pending.keys, true)?;
        Ok(Relation {
            open: Open {
                name: spec.name.clone(),
                details: vec![window_text(pending.kind)],
                parallelism,
                inputs: vec![edge],
                window: Some(pending.kind.shape()),
                stage: OpenStage::Operator,
                meets_late_rows: Some(input_schema),
                chain: vec![spec.clone().factory()],
                calc: None,
            },
            schema: spec.output_schema(),
            outputs,
            window: None,
            predicate: None,
            unfired: None,
        })
    }

    /// What explain says about waiting for late rows.
    pub(super) fn lateness_detail(&self) -> Option<String> {
        let ms = self.settings.allowed_lateness_ms;
        (ms > 0).then(|| format!("allowed lateness {}", duration_text(ms)))
    }
}

/// The watermark that those who read these columns follow.
fn watermark_of<'a>(table: &'a Table, wanted: &[usize]) -> Option<&'a (usize, Expr)> {
    // Where only the processing time is read, the clock moves windows on, and event time must not.
    let is_clocked =
        wanted.iter().any(|column| matches!(table.columns[*column], TableColumn::ProcessingTime));
    table.watermark.as_ref().filter(|(time, _)| wanted.contains(time) || !is_clocked)
}

fn read_detail(table: &Table, physical: &[usize]) -> String {
    let names = physical.iter().map(|column| table.spec.schema.field(*column).name().as_str());
    let names: Vec<&str> = names.filter(|name| *name != SplitColumn::NAME).collect();
    format!("read {}", names.join(", "))
}

/// The logical columns of a scan, which fills `columns`, ascending.
fn read_outputs(table: &Table, wanted: &[usize], columns: &[usize]) -> Vec<Output> {
    let output = |column: &usize| {
        let role = match &table.columns[*column] {
            TableColumn::ProcessingTime => Role::ProcessingTime,
            _ if table.is_time_attribute(*column) => Role::EventTime,
            _ => Role::Plain,
        };
        Output { slot: Slot::Column(columns.binary_search(column).unwrap_or_default()), role }
    };
    wanted.iter().map(output).collect()
}

/// Logical columns when the window's have been appended behind `width` physical ones.
fn window_behind(mut outputs: Vec<Output>, width: usize) -> Vec<Output> {
    for output in &mut outputs {
        output.slot = match output.slot {
            Slot::WindowStart => Slot::Column(width),
            Slot::WindowEnd => Slot::Column(width + 1),
            Slot::WindowTime => Slot::Column(width + 2),
            column => column,
        };
    }
    outputs
}

/// Physical columns that these columns of a table are made of, ascending.
fn physical_columns(table: &Table, columns: &[usize]) -> Vec<usize> {
    let mut physical = BTreeSet::new();
    for column in columns {
        match &table.columns[*column] {
            TableColumn::Physical(index) => {
                physical.insert(*index);
            }
            TableColumn::Computed(expr) => physical.extend(read_by(expr, table)),
            TableColumn::ProcessingTime => {}
        }
    }
    // A scan of no column could not count its rows.
    if physical.is_empty() && !table.spec.schema.fields().is_empty() {
        physical.insert(0);
    }
    physical.into_iter().collect()
}

fn read_by(expr: &Expr, table: &Table) -> Vec<usize> {
    expr.column_refs().iter().filter_map(|column| table.spec.schema.index_of(&column.name).ok()).collect()
}

pub(crate) fn df_schema(schema: &SchemaRef) -> Lowered<DFSchema> {
    DFSchema::try_from(Arc::clone(schema)).map_err(|error| Fault::internal(NOWHERE, error))
}
