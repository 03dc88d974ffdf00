use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion_common::DFSchema;
use datafusion_expr::{Expr, TableScan};
use laxity_connect::ScanSpec;
use laxity_operators::{SourceColumn, SourceSpec, WatermarkSpec, WindowExpandSpec, WindowKind};

use super::relation::{Open, OpenStage, Output, PendingWindow, Relation, Role, Slot};
use super::{Lowered, Lowering, chained};
use crate::catalog::{Source, Table, TableColumn};
use crate::error::{Fault, NOWHERE, SqlErrorKind};
use crate::explain::{duration_text, window_text};
use crate::window_function::WindowFunction;

impl Lowering<'_> {
    /// Reads the columns asked for, and those that the watermark needs.
    pub(super) fn scan(&mut self, scan: &TableScan) -> Lowered<Relation> {
        let Some(Source::Table(table)) = scan.source.downcast_ref::<Source>() else {
            return Err(Fault::internal(NOWHERE, format!("{} is not a table", scan.table_name)));
        };
        let wanted: Vec<usize> = match &scan.projection {
            Some(projection) => projection.clone(),
            None => (0..table.columns.len()).collect(),
        };
        let columns = self.columns_to_fill(table, &wanted)?;
        let physical = physical_columns(table, &columns);
        let scanned: SchemaRef =
            Arc::new(table.spec.schema.project(&physical).map_err(|e| Fault::internal(NOWHERE, e))?);
        let scanned_df = df_schema(&scanned)?;

        let mut sources = Vec::new();
        let mut fields = Vec::new();
        for column in &columns {
            let declared = table.schema.field(*column);
            let field = match &table.columns[*column] {
                TableColumn::Physical(index) => {
                    let position = physical.binary_search(index).map_err(|_| {
                        Fault::internal(NOWHERE, format!("column {} is not scanned", declared.name()))
                    })?;
                    sources.push(SourceColumn::Physical(position));
                    scanned.field(position).clone()
                }
                TableColumn::Computed(expr) => {
                    sources.push(SourceColumn::Computed(self.physical(expr, &scanned_df)?));
                    declared.clone()
                }
                TableColumn::ProcessingTime => {
                    sources.push(SourceColumn::ProcessingTime);
                    declared.clone()
                }
            };
            fields.push(field);
        }
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let mut details = vec![format!(
            "read {}",
            physical
                .iter()
                .map(|c| table.spec.schema.field(*c).name().as_str())
                .collect::<Vec<_>>()
                .join(", ")
        )];
        let watermark = match &table.watermark {
            None => None,
            Some((time, expr)) => {
                let expression = self.physical(expr, &df_schema(&schema)?)?;
                details.push(format!("watermark {}", super::relation::plain(&expression.to_string())));
                let time_column =
                    columns.binary_search(time).map_err(|_| Fault::internal(NOWHERE, "no time column"))?;
                Some(WatermarkSpec { time_column, expression, max_ahead_ms: self.max_ahead_ms(table)? })
            }
        };
        let outputs = wanted
            .iter()
            .map(|column| {
                let position = columns.binary_search(column).unwrap_or_default();
                let role = match &table.columns[*column] {
                    TableColumn::ProcessingTime => Role::ProcessingTime,
                    _ if table.is_time_attribute(*column) => Role::EventTime,
                    _ => Role::Plain,
                };
                Output { slot: Slot::Column(position), role }
            })
            .collect();
        let spec = SourceSpec {
            name: format!("Source: {}", table.spec.name),
            columns: sources,
            output_schema: Arc::clone(&schema),
            watermark,
            processing_origin_ms: self.processing_origin_ms,
        };
        Ok(Relation {
            open: Open {
                name: spec.name.clone(),
                details,
                parallelism: 1,
                inputs: vec![],
                window: None,
                stage: OpenStage::Source(ScanSpec { table: Arc::clone(&table.spec), columns: physical }),
                chain: vec![spec.factory()],
                meets_late_rows: None,
            },
            schema,
            outputs,
            window: None,
            predicate: None,
        })
    }

    /// The table's own bound on times in the future, or the session's.
    fn max_ahead_ms(&self, table: &Table) -> Lowered<Option<i64>> {
        let Some(option) = table.options.entries.get("laxity.max.event.ahead") else {
            return Ok(self.settings.max_event_ahead_ms);
        };
        let ahead = crate::settings::parse_duration(&option.value)
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
    fn columns_to_fill(&self, table: &Table, wanted: &[usize]) -> Lowered<Vec<usize>> {
        let mut columns: BTreeSet<usize> = wanted.iter().copied().collect();
        if let Some((time, expr)) = &table.watermark {
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
        let mut relation = self.expand(input)?;
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
        if let WindowKind::Session { .. } = function.kind
            && processing
        {
            return Err(Fault::new(
                SqlErrorKind::Unsupported,
                function.at,
                "SESSION windows on processing time are not supported",
            ));
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
        relation.window = Some(PendingWindow { kind: function.kind, time, processing });
        Ok(relation)
    }

    /// Makes the columns of a pending window real: each row once per window.
    pub(super) fn expand(&mut self, relation: Relation) -> Lowered<Relation> {
        let Some(pending) = relation.window else { return Ok(relation) };
        if matches!(pending.kind, WindowKind::Session { .. }) {
            return Err(super::unsupported(
                "a SESSION window needs an aggregation directly over it: its bounds are not known row by row",
            )
            .hint("write SELECT …, window_start, window_end FROM TABLE(SESSION(…)) GROUP BY …, window_start, window_end"));
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
        for output in &mut relation.outputs {
            output.slot = match output.slot {
                Slot::WindowStart => Slot::Column(width),
                Slot::WindowEnd => Slot::Column(width + 1),
                Slot::WindowTime => Slot::Column(width + 2),
                column => column,
            };
        }
        relation.window = None;
        Ok(relation)
    }

    /// What explain says about waiting for late rows.
    pub(super) fn lateness_detail(&self) -> Option<String> {
        let ms = self.settings.allowed_lateness_ms;
        (ms > 0).then(|| format!("allowed lateness {}", duration_text(ms)))
    }
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
