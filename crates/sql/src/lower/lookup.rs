//! Joins with a table that is kept in memory, and how its rows get there while the query runs.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::Field;
use datafusion_common::JoinType;
use datafusion_expr::Join;
use laxity_connect::{LookupFeed, PrimaryKey, ScanSpec, TableSpec, follow_table};
use laxity_graph::{ProcessingTime, RowErrors};
use laxity_operators::{
    Chain, Emitted, Flow, InstanceContext, JoinKind, LookupJoinSpec, LookupRows, LookupTable, OperatorError,
    OperatorFactory, Outbox, StreamBatch,
};

use super::join::{keys_detail, kind_text};
use super::relation::{OpenStage, Output, Relation, Role, Slot, Waiting, WaitingLookup, column_of, plain};
use super::{Lowered, Lowering, chained, unsupported};
use crate::error::{Fault, NOWHERE};

impl Lowering<'_> {
    /// A join with a table that is kept in memory. It follows the stream's operators in their instances, and
    /// leaves the stream's time and windows as they are.
    pub(super) fn lookup_join(&mut self, join: &Join) -> Lowered<Relation> {
        let kind = match join.join_type {
            JoinType::Inner => JoinKind::Inner,
            JoinType::Left => JoinKind::Left,
            other => return Err(unsupported(&format!("a lookup join of kind {other} is not supported"))),
        };
        let mut stream = self.relation(&join.left)?;
        let table = self.relation(&join.right)?;
        let mut stream_keys = Vec::new();
        let mut table_keys = Vec::new();
        for (left, right) in &join.on {
            stream_keys.push(self.physical(left, join.left.schema())?);
            table_keys.push(self.physical(right, join.right.schema())?);
        }
        if join.filter.is_some() || stream_keys.iter().any(|key| stream.uses_window(key)) {
            stream = self.expand(stream)?;
        }
        let (mut stream, stream_keys) = self.key_columns(stream, &stream_keys)?;
        let (mut table, table_keys) = self.key_columns(table, &table_keys)?;
        let condition = match &join.filter {
            Some(filter) => Some(self.joined_expression(filter, join, &stream, &table)?),
            None => None,
        };
        let key = table.primary_key(&table_keys);
        table.open.make_calc();
        let OpenStage::Source(scan, _) = table.open.stage else {
            return Err(Fault::internal(NOWHERE, "rows are looked up in what is no table"));
        };
        let mut detail = format!("{} join with {}", kind_text(kind), scan.table.name);
        if let Some(keys) = keys_detail(&stream.schema, &stream_keys, &table.schema, &table_keys) {
            detail.push_str(&format!(" {keys}"));
        }
        if let Some(condition) = &condition {
            detail.push_str(&format!(" where {}", plain(&condition.to_string())));
        }
        let spec = LookupJoinSpec {
            row_errors: self.settings.row_errors,
            name: "LookupJoin".into(),
            kind,
            stream_schema: Arc::clone(&stream.schema),
            stream_keys,
            table_schema: Arc::clone(&table.schema),
            table_keys,
            condition,
        };
        let width = stream.schema.fields().len();
        stream.schema = spec.output_schema();
        let columns = table.outputs.iter().map(|output| match output.slot {
            Slot::Column(column) => Ok(Output { slot: Slot::Column(width + column), role: Role::Plain }),
            slot => Err(Fault::internal(NOWHERE, format!("{slot:?} of a table"))),
        });
        let columns = columns.collect::<Lowered<Vec<_>>>()?;
        stream.outputs.extend(columns);
        let source = LookupSource(Arc::new(Mutex::new(scan)));
        self.lookups.push(source.clone());
        let fed = Fed { source, chain: Chain::factory(table.open.chain), spec, key: None };
        // There is one pair of each row at most. Rows over which a condition fails would have to be told of.
        let is_whole = fed.spec.condition.is_none() || self.settings.row_errors == RowErrors::Fail;
        let key = key.filter(|_| is_whole && self.settings.approximate.error.is_some());
        let Some(key) = key else {
            chained(&mut stream.open, "LookupJoin", Some(detail), fed.factory());
            return Ok(stream);
        };
        stream.open.make_calc();
        let LookupJoinSpec { stream_schema, table_keys, .. } = &fed.spec;
        let required = (kind == JoinKind::Inner).then(|| width + table_keys[0]);
        let padded = LookupJoinSpec { kind: JoinKind::Left, ..fed.spec.clone() };
        stream.open.calc = Some(Waiting::Lookup(Box::new(WaitingLookup {
            detail,
            stream: Arc::clone(stream_schema),
            joined: padded.output_schema(),
            required,
            padded: Fed { spec: padded, key: Some(key), ..fed.clone() }.factory(),
            join: fed.factory(),
            behind: None,
        })));
        Ok(stream)
    }
}

impl Relation {
    /// Names of the PRIMARY KEY of the table that this is read from, if it has one and all of it is among the columns.
    fn primary_key(&self, columns: &[usize]) -> Option<String> {
        let OpenStage::Source(scan, _) = &self.open.stage else { return None };
        let field = |column: usize| match &self.open.calc {
            None => Some(self.schema.field(column)),
            Some(Waiting::Calc(calc)) => {
                Some(calc.input_schema.field(column_of(&calc.projection[column].0)?))
            }
            Some(_) => None,
        };
        let places = |of: &Field| PrimaryKey::place(of);
        let mut key: Vec<(usize, &str)> = columns
            .iter()
            .filter_map(|&column| field(column))
            .filter_map(|field| Some((places(field)?, field.name().as_str())))
            .collect();
        key.sort_unstable();
        key.dedup();
        let declared = scan.table.schema.fields().iter().filter(|field| places(field).is_some()).count();
        let names: Vec<&str> = key.iter().map(|(_, name)| *name).collect();
        (declared > 0 && key.len() == declared).then(|| names.join(", "))
    }
}

/// The table of a lookup join, which is opened when the query starts.
#[derive(Debug, Clone)]
pub struct LookupSource(Arc<Mutex<ScanSpec>>);

impl LookupSource {
    /// The table.
    pub fn table(&self) -> Arc<TableSpec> {
        self.scan().table
    }

    /// Has it read another table in its place, one of the same columns.
    pub fn change(&self, change: impl FnOnce(&TableSpec) -> TableSpec) {
        let mut scan = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        scan.table = Arc::new(change(&scan.table));
    }

    fn scan(&self) -> ScanSpec {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A lookup join with where its table is from.
#[derive(Clone)]
struct Fed {
    source: LookupSource,
    /// Computed columns, filters and projections of the table.
    chain: OperatorFactory,
    spec: LookupJoinSpec,
    /// Names of a PRIMARY KEY that is relied on.
    key: Option<String>,
}

/// A table that is being kept up to date.
type Kept = (Arc<LookupTable>, LookupFeed);

impl Fed {
    /// The table is read when the first instance is made, and shared by all.
    fn factory(self) -> OperatorFactory {
        let kept: Mutex<Option<Kept>> = Mutex::new(None);
        OperatorFactory::new(move |context| {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let table = match &*kept {
                Some((table, _)) => Arc::clone(table),
                None => {
                    let (table, feed) = self.open(context)?;
                    *kept = Some((Arc::clone(&table), feed));
                    table
                }
            };
            self.spec.operator(table, context.batch_rows)
        })
    }

    fn open(&self, context: &InstanceContext) -> Result<Kept, OperatorError> {
        let failed = |message: String| OperatorError::Row { operator: self.spec.name.clone(), message };
        let reader = self.reader(*context);
        let empty = reader(vec![]).map_err(failed)?;
        let table = Arc::new(LookupTable::new(empty, context.parallelism));
        let target = Arc::clone(&table);
        let take = move |batches| reader(batches).map(|version| target.replace(version));
        let feed = follow_table(&self.source.scan(), Box::new(take)).map_err(|error| {
            let source =
                std::error::Error::source(&error).map_or(String::new(), |source| format!(": {source}"));
            failed(format!("{error}{source}"))
        })?;
        Ok((table, feed))
    }

    /// Makes a version of the table from the rows of its files.
    fn reader(
        &self,
        context: InstanceContext,
    ) -> impl Fn(Vec<RecordBatch>) -> Result<LookupRows, String> + Send + use<> {
        let chain = self.chain.clone();
        let (schema, keys) = (Arc::clone(&self.spec.table_schema), self.spec.table_keys.clone());
        let (table, unique) = (self.source.table().name.clone(), self.key.clone());
        move |batches| {
            let text = |error: OperatorError| error.to_string();
            let mut operator = chain.make(&context).map_err(text)?;
            let mut rows = Vec::new();
            for batch in batches {
                let mut out = Outbox::default();
                let batch = StreamBatch::on_time(batch);
                let mut flow = operator.on_batch(0, batch, ProcessingTime::ZERO, &mut out).map_err(text)?;
                while flow == Flow::More {
                    flow = operator.resume(&mut out).map_err(text)?;
                }
                rows.extend(out.emitted.into_iter().filter_map(|emitted| match emitted {
                    Emitted::Batch { batch, .. } => Some(batch.rows),
                    Emitted::Watermark(_) => None,
                }));
            }
            let rows = LookupRows::new(&schema, &keys, &rows).map_err(|error| error.to_string())?;
            match unique.as_ref().zip(rows.repeated()) {
                None => Ok(rows),
                Some((key, repeated)) => Err(format!(
                    "PRIMARY KEY ({key}) of {table} is declared, and {repeated} of its rows have the key of another: an \
                     approximate query leaves rows out before they are looked up and relies on it; take the key out of \
                     CREATE TABLE {table}, or the rows out of the table"
                )),
            }
        }
    }
}
