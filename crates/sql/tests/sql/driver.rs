//! Runs compiled queries on one thread, without an engine, and once more with operators that are saved and restored on
//! the way. Cannot catch: what only real threads do, such as messages that overtake one another.

use std::collections::{BTreeMap, VecDeque};
use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::compute::{cast, concat_batches};
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::FileWriter;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use laxity_connect::{ScanEnvironment, ScanEvent, ScanSpec, open_scan};
use laxity_graph::{EventTime, NodeId, Partitioning, ProcessingTime};
use laxity_operators::{
    Emitted, Flow, HashPartitioner, InstanceContext, Operator, OperatorState, Outbox, Stage, StatePart,
    StreamBatch,
};
use laxity_sql::PlannedQuery;

/// Rows of each table as lines of comma-separated text; nothing between commas is NULL.
pub type Tables<'a> = &'a [(&'a str, &'a [&'a str])];

/// Runs a query to the end of its inputs, one message after the other, and returns the rows of its sinks as
/// sorted text, and the late rows likewise.
pub fn run(query: &PlannedQuery, tables: Tables, batch_rows: usize) -> (Vec<String>, Vec<String>) {
    let mut run = run_tables(query, tables, batch_rows);
    let mut rows: Vec<String> = run.rows.iter().flat_map(texts).collect();
    rows.sort();
    run.late.sort();
    (rows, run.late)
}

/// The rows alone, in the order in which they reach the sinks.
pub fn run_in_order(query: &PlannedQuery, tables: Tables, batch_rows: usize) -> Vec<String> {
    run_tables(query, tables, batch_rows).rows.iter().flat_map(texts).collect()
}

fn run_tables<'a>(query: &'a PlannedQuery, tables: Tables, batch_rows: usize) -> Run<'a> {
    run_with(query, batch_rows, |scan| {
        let named = tables.iter().find(|(name, _)| *name == scan.table.name);
        parse(named.map_or(&["0"][..], |(_, lines)| lines), &scan.table.schema)
            .project(&scan.columns)
            .unwrap()
    })
}

/// The same over the tables' own files, row by row: the cells that reach the sinks, in that order. NULL is `None`.
pub fn run_cells(query: &PlannedQuery) -> Vec<Vec<Option<String>>> {
    let run = run_with(query, 1, |scan| {
        let env = ScanEnvironment::new(ProcessingTime::ZERO, EventTime(0));
        let mut open = open_scan(scan, &env).unwrap();
        let mut read = Vec::new();
        loop {
            match open.poll(ProcessingTime(i64::MAX as _)).unwrap() {
                ScanEvent::Batch(batch) => read.push(batch.rows),
                ScanEvent::End => break,
                _ => {}
            }
        }
        let schema = read.first().map(RecordBatch::schema).expect("a table has rows");
        concat_batches(&schema, &read).unwrap()
    });
    run.rows.iter().flat_map(cells).collect()
}

/// Every query runs once more with operators that are saved, dropped and restored after some of their messages: the same
/// comes out.
fn run_with(query: &PlannedQuery, batch_rows: usize, rows_of: impl Fn(&ScanSpec) -> RecordBatch) -> Run<'_> {
    let run = run_once(query, batch_rows, &rows_of, 0);
    let restarted = run_once(query, batch_rows, &rows_of, RESTARTED_AFTER);
    let rows = |run: &Run| run.rows.iter().flat_map(texts).collect::<Vec<_>>();
    assert_eq!(rows(&restarted), rows(&run), "restarted");
    assert_eq!(restarted.late, run.late, "late rows, restarted");
    run
}

/// See [`OperatorFactory::restarted`].
const RESTARTED_AFTER: u64 = 0x8001_0200_0410_0021;

fn run_once<'a>(
    query: &'a PlannedQuery,
    batch_rows: usize,
    rows_of: &impl Fn(&ScanSpec) -> RecordBatch,
    restarted_after: u64,
) -> Run<'a> {
    let mut run = Run::new(query, restarted_after);
    let mut sources: Vec<(NodeId, VecDeque<RecordBatch>)> = Vec::new();
    for (index, node) in query.dataflow.nodes().iter().enumerate() {
        let Stage::Source { scan, .. } = &node.stage else { continue };
        let rows = rows_of(scan);
        let cuts = (0..rows.num_rows()).step_by(batch_rows);
        let batches = cuts.map(|at| rows.slice(at, batch_rows.min(rows.num_rows() - at))).collect();
        sources.push((NodeId(index), batches));
    }
    while sources.iter().any(|(_, batches)| !batches.is_empty()) {
        for (node, batches) in &mut sources {
            if let Some(rows) = batches.pop_front() {
                run.deliver(*node, 0, 0, 0, Message::Batch(StreamBatch::on_time(rows)));
            }
        }
    }
    for (node, _) in &sources {
        run.deliver(*node, 0, 0, 0, Message::Watermark(EventTime::MAX));
    }
    run
}

/// State as it is after it was written as Arrow IPC and read again.
fn carried(state: OperatorState) -> OperatorState {
    let carried = state.whole().unwrap().parts.into_iter().map(|part| {
        let (name, pieces) = part.into_pieces();
        let rows = arrow::compute::concat_batches(&pieces[0].schema(), &pieces).unwrap();
        let mut file = Vec::new();
        let mut writer = FileWriter::try_new(&mut file, &rows.schema()).unwrap();
        writer.write(&rows).unwrap();
        writer.finish().unwrap();
        let mut reader = FileReader::try_new(Cursor::new(file), None).unwrap();
        StatePart::new(name, reader.next().unwrap().unwrap())
    });
    OperatorState::of(carried.collect())
}

#[derive(Clone)]
enum Message {
    Batch(StreamBatch),
    Watermark(EventTime),
}

struct Instance {
    operator: Box<dyn Operator>,
    /// Watermark of each channel: input and producer.
    channels: BTreeMap<(usize, usize), EventTime>,
    watermark: EventTime,
}

struct Run<'a> {
    query: &'a PlannedQuery,
    instances: Vec<Vec<Instance>>,
    rows: Vec<RecordBatch>,
    late: Vec<String>,
}

impl Run<'_> {
    fn new(query: &PlannedQuery, restarted_after: u64) -> Run<'_> {
        let flow = &query.dataflow;
        let instances = flow
            .nodes()
            .iter()
            .map(|node| {
                let factory = match &node.stage {
                    Stage::Source { operator, .. } | Stage::Operator(operator) if restarted_after != 0 => {
                        operator.clone().restarted(restarted_after, carried)
                    }
                    Stage::Source { operator, .. } | Stage::Operator(operator) => operator.clone(),
                    Stage::Sink(_) => return vec![],
                };
                (0..node.parallelism)
                    .map(|instance| {
                        let context =
                            InstanceContext { instance, parallelism: node.parallelism, batch_rows: 4 };
                        let mut channels = BTreeMap::new();
                        for (input, edge) in node.inputs.iter().enumerate() {
                            for producer in 0..flow.node(edge.from).parallelism {
                                if edge.partitioning != Partitioning::Forward || producer == instance {
                                    channels.insert((input, producer), EventTime::MIN);
                                }
                            }
                        }
                        if channels.is_empty() {
                            channels.insert((0, 0), EventTime::MIN);
                        }
                        let operator = factory.make(&context).unwrap();
                        Instance { operator, channels, watermark: EventTime::MIN }
                    })
                    .collect()
            })
            .collect();
        Run { query, instances, rows: vec![], late: vec![] }
    }

    fn deliver(&mut self, node: NodeId, instance: usize, input: usize, producer: usize, message: Message) {
        if let Stage::Sink(sink) = &self.query.dataflow.node(node).stage {
            if let Message::Batch(batch) = message {
                assert_eq!(batch.rows.num_columns(), sink.table.schema.fields().len());
                for (given, wanted) in batch.rows.schema().fields().iter().zip(sink.table.schema.fields()) {
                    assert_eq!(given.data_type(), wanted.data_type(), "{}", wanted.name());
                }
                self.rows.push(batch.rows);
            }
            return;
        }
        let target = &mut self.instances[node.0][instance];
        let mut out = Outbox::default();
        let mut flow = match message {
            Message::Batch(batch) => {
                target.operator.on_batch(input, batch, ProcessingTime::ZERO, &mut out).unwrap()
            }
            Message::Watermark(watermark) => {
                target.channels.insert((input, producer), watermark);
                let least = *target.channels.values().min().unwrap();
                if least <= target.watermark {
                    return;
                }
                target.watermark = least;
                target.operator.on_watermark(least, &mut out).unwrap()
            }
        };
        loop {
            self.forward(node, instance, out);
            if flow == Flow::Done {
                return;
            }
            out = Outbox::default();
            flow = self.instances[node.0][instance].operator.resume(&mut out).unwrap();
        }
    }

    fn forward(&mut self, node: NodeId, instance: usize, out: Outbox) {
        if self.query.late.as_ref().is_some_and(|late| late.node == node) {
            self.late.extend(out.late.iter().flat_map(|late| texts(&late.rows)));
        }
        let consumers: Vec<_> = self
            .query
            .dataflow
            .consumers(node)
            .map(|(consumer, input, partitioning)| (consumer, input, partitioning.clone()))
            .collect();
        for emitted in out.emitted {
            for (consumer, input, partitioning) in &consumers {
                let copies = self.query.dataflow.node(*consumer).parallelism;
                let mut send =
                    |to: usize, message: Message| self.deliver(*consumer, to, *input, instance, message);
                match (&emitted, partitioning) {
                    (Emitted::Watermark(watermark), Partitioning::Forward) => {
                        send(instance, Message::Watermark(*watermark));
                    }
                    (Emitted::Watermark(watermark), _) => {
                        (0..copies).for_each(|to| send(to, Message::Watermark(*watermark)));
                    }
                    (Emitted::Batch { batch, .. }, Partitioning::Forward) => {
                        send(instance, Message::Batch(batch.clone()));
                    }
                    (Emitted::Batch { batch, .. }, Partitioning::Gather | Partitioning::RoundRobin) => {
                        send(0, Message::Batch(batch.clone()));
                    }
                    (Emitted::Batch { batch, .. }, Partitioning::Hash(columns)) => {
                        let parts = HashPartitioner::new(columns.clone(), copies).split(batch).unwrap();
                        for (to, part) in parts.into_iter().enumerate() {
                            if let Some(part) = part {
                                send(to, Message::Batch(part));
                            }
                        }
                    }
                }
            }
        }
    }
}

fn parse(lines: &[&str], schema: &arrow::datatypes::SchemaRef) -> RecordBatch {
    let columns = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(column, field)| {
            let cells = lines.iter().map(|line| line.split(',').nth(column).filter(|cell| !cell.is_empty()));
            let text: ArrayRef = Arc::new(StringArray::from_iter(cells));
            cast(&text, field.data_type()).unwrap()
        })
        .collect();
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}

fn cells(rows: &RecordBatch) -> Vec<Vec<Option<String>>> {
    let options = FormatOptions::default().with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.3f"));
    let columns: Vec<_> =
        rows.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    let cell = |row: usize, column: usize| {
        let null = rows.column(column).is_null(row);
        (!null).then(|| columns[column].value(row).to_string())
    };
    (0..rows.num_rows()).map(|row| (0..columns.len()).map(|column| cell(row, column)).collect()).collect()
}

/// Rows as text, cells joined by commas, NULL as nothing.
fn texts(rows: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.3f"));
    let columns: Vec<_> =
        rows.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    (0..rows.num_rows())
        .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(","))
        .collect()
}
