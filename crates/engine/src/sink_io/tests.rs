//! Made-up encoders and outputs: order, accounts, who waits for whom, and how it ends.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use laxity_connect::{ConnectError, Encoder, OutputPosition};
use laxity_graph::{QueryId, QuerySettings};
use laxity_operators::StreamBatch;
use laxity_runtime::{Outcome, Process};

use super::*;

mod ahead;

const PATIENCE: Duration = Duration::from_secs(30);

/// Encodes a batch as the number of its rows; it cannot encode one of 13.
struct Counts;

impl Encoder for Counts {
    fn encode(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        if rows.num_rows() == 13 {
            let message = "thirteen".to_owned();
            return Err(ConnectError::Encode { path: "x".into(), format: "counts", message });
        }
        out.extend(format!("{} ", rows.num_rows()).bytes());
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        out.extend(b"end");
        Ok(())
    }
}

/// Keeps what is written, and takes nothing while it is stalled.
#[derive(Clone, Default)]
struct Kept {
    text: Arc<Mutex<String>>,
    is_closed: Arc<AtomicBool>,
    is_stalled: Arc<AtomicBool>,
}

impl Output for Kept {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectError> {
        while self.is_stalled.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.text.lock().push_str(std::str::from_utf8(bytes).unwrap());
        Ok(())
    }

    fn close(&mut self) -> Result<(), ConnectError> {
        self.is_closed.store(true, SeqCst);
        Ok(())
    }

    fn prepare(&mut self, _checkpoint: u64) -> Result<OutputPosition, ConnectError> {
        Ok(OutputPosition::Length { bytes: self.text.lock().len() as u64 })
    }
}

fn added(sink: OpenSink, table: &Arc<TableSpec>) -> Added<'_> {
    Added { sink, waiting: Waiting::default(), table, writers: 1, is_result: true, finish: None, part: None }
}

struct Outputs {
    clock: Clock,
    pool: Arc<SinkPool>,
    process: Arc<Process>,
    shared: Vec<JoinHandle<()>>,
}

impl Outputs {
    fn new() -> Outputs {
        let clock = Clock::start();
        let pool = Arc::new(SinkPool::new(clock));
        let shared = (0..2).map(|_| {
            let pool = pool.clone();
            std::thread::Builder::new().spawn(move || pool.run()).unwrap()
        });
        Outputs { clock, shared: shared.collect(), pool, process: Arc::new(Process::new(1 << 30, 1 << 20)) }
    }

    fn add(&self, name: &str, output: &Kept, may_stall: bool) -> Arc<Outlet> {
        let settings = QuerySettings::named(name);
        let query = Arc::new(Query::new(QueryId(0), settings, 1, self.process.clone()));
        let sink = open(output, may_stall, false);
        self.pool.add(&query, added(sink, &table(name)))
    }

    /// One more query that writes a table with others, or begins to.
    fn enter(&self, name: &str, of: &str, output: &Kept) -> Arc<Outlet> {
        let settings = QuerySettings::named(name);
        let query = Arc::new(Query::new(QueryId(0), settings, 1, self.process.clone()));
        let table = table(of);
        let joined = self.pool.join(&query, &table, 1, true);
        joined.unwrap_or_else(|| self.pool.add(&query, added(open(output, false, true), &table)))
    }

    fn write(&self, sink: &Arc<Outlet>, count: usize) {
        let now = self.clock.now();
        let (rows, stamps) = (StreamBatch::on_time(rows(count)), Stamps::admitted(now, now));
        let mut writes = Vec::new();
        sink.send::<ArrowRows>(rows, stamps, None, now, &mut writes);
        writes.into_iter().for_each(|write| self.put(sink, write.what));
    }

    /// As a run does.
    fn put(&self, sink: &Arc<Outlet>, what: Written<StreamBatch>) {
        sink.query.admit(what.in_flight());
        self.pool.write(Write { outlet: sink.clone(), what });
    }

    /// Waits for what comes about by itself.
    fn until(&self, what: impl Fn() -> bool) {
        let deadline = self.clock.now().plus(PATIENCE);
        while !what() {
            assert!(self.clock.now() < deadline, "it does not come about");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops the pool, and says how long that took.
    fn stop(&mut self) -> Duration {
        let started = self.clock.now();
        self.pool.stop();
        self.shared.drain(..).for_each(|thread| thread.join().unwrap());
        Duration::from_nanos(self.clock.now().since_ns(started))
    }
}

fn open(output: &Kept, may_stall: bool, serves_all: bool) -> OpenSink {
    let output = Some(Box::new(output.clone()) as Box<dyn Output>);
    OpenSink { encoder: Box::new(Counts), output, may_stall, serves_all }
}

fn table(name: &str) -> Arc<TableSpec> {
    let schema = rows(0).schema();
    Arc::new(TableSpec { name: name.into(), schema, options: Default::default(), base: "".into() })
}

fn rows(count: usize) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..count as i64));
    RecordBatch::try_from_iter([("n", numbers)]).unwrap()
}

#[test]
fn bytes_leave_in_the_order_of_the_rows_and_are_accounted_for() {
    for may_stall in [false, true] {
        let mut outputs = Outputs::new();
        let kept = Kept::default();
        kept.is_stalled.store(true, SeqCst);
        let sink = outputs.add("ordered", &kept, may_stall);
        (1..=5).for_each(|count| outputs.write(&sink, count));
        assert_eq!(sink.query.in_flight.load(SeqCst), 5);
        assert_eq!(sink.query.in_flight_bytes.load(SeqCst), "1 2 3 4 5 ".len() as i64);
        assert_eq!(sink.query.rows_out.load(SeqCst), 0, "nothing has left");
        outputs.put(&sink, Written::End);
        outputs.pool.close(&sink);
        kept.is_stalled.store(false, SeqCst);
        outputs.until(|| sink.query.outcome() == Outcome::Finished && sink.query.drained());
        assert_eq!(*kept.text.lock(), "1 2 3 4 5 end");
        assert!(kept.is_closed.load(SeqCst));
        assert_eq!((sink.query.rows_out.load(SeqCst), outputs.process.memory.used_bytes()), (15, 0));
        outputs.stop();
    }
}

#[test]
fn queries_that_write_one_table_write_one_stream() {
    let mut outputs = Outputs::new();
    let (kept, other) = (Kept::default(), Kept::default());
    kept.is_stalled.store(true, SeqCst);
    let first = outputs.enter("first", "t", &kept);
    let second = outputs.enter("second", "t", &kept);
    let apart = outputs.enter("apart", "u", &other);
    assert_eq!(first.number, second.number);
    assert_ne!(first.number, apart.number);
    for (sink, count) in [(&first, 1), (&second, 2), (&first, 3), (&apart, 4), (&second, 13), (&first, 5)] {
        outputs.write(sink, count);
    }
    // The second could not be encoded, and has failed; what was encoded of it before is part of the stream.
    assert!(second.query.failed() && !first.query.failed());
    outputs.put(&second, Written::End);
    kept.is_stalled.store(false, SeqCst);
    outputs.until(|| second.query.drained() && first.query.drained());
    assert!(!kept.is_closed.load(SeqCst), "the first still writes");
    // Who comes later writes on, where the others are.
    let third = outputs.enter("third", "t", &kept);
    assert_eq!(third.number, first.number);
    outputs.put(&first, Written::End);
    outputs.until(|| first.query.outcome() == Outcome::Finished);
    outputs.write(&third, 6);
    outputs.put(&third, Written::End);
    outputs.until(|| third.query.outcome() == Outcome::Finished && third.query.drained());
    assert!(kept.is_closed.load(SeqCst));
    assert_eq!(*kept.text.lock(), "1 2 3 5 6 end");
    let rows_out = |sink: &Arc<Outlet>| sink.query.rows_out.load(SeqCst);
    assert_eq!((rows_out(&first), rows_out(&second), rows_out(&third)), (9, 2, 6));
    // Nobody joins what is complete.
    let late = outputs.enter("late", "t", &other);
    outputs.pool.close(&late);
    outputs.pool.close(&apart);
    outputs.until(|| late.query.outcome() == Outcome::Finished && apart.query.drained());
    // Nor is what comes then told to be out.
    outputs.write(&late, 7);
    assert_eq!((rows_out(&late), late.query.rows_dropped.load(SeqCst)), (0, 7));
    assert_eq!(outputs.process.memory.used_bytes(), 0);
    outputs.stop();
}

#[test]
fn stalled_outputs_hold_up_nobody_and_are_left_behind() {
    let mut outputs = Outputs::new();
    let stalled: Vec<(Kept, Arc<Outlet>)> = (0..3)
        .map(|number| {
            let kept = Kept::default();
            kept.is_stalled.store(true, SeqCst);
            let sink = outputs.add(&format!("stalled {number}"), &kept, true);
            (1..=5).for_each(|count| outputs.write(&sink, count));
            (kept, sink)
        })
        .collect();
    for may_stall in [false, true] {
        let kept = Kept::default();
        let sink = outputs.add("well", &kept, may_stall);
        outputs.write(&sink, 7);
        outputs.until(|| sink.query.rows_out.load(SeqCst) == 7);
        assert!(!outputs.pool.is_stalled(&sink));
        outputs.pool.close(&sink);
    }
    outputs.until(|| stalled.iter().all(|(_, sink)| outputs.pool.is_stalled(sink)));
    stalled.iter().for_each(|(_, sink)| outputs.pool.close(sink));
    // The grace, and time for a busy machine.
    assert!(outputs.stop() < Duration::from_secs(10));
    for (kept, sink) in &stalled {
        assert_eq!(sink.query.rows_out.load(SeqCst), 0);
        kept.is_stalled.store(false, SeqCst);
    }
    // What they had in their hands is all that still comes.
    outputs.until(|| stalled.iter().all(|(kept, _)| *kept.text.lock() == "1 "));
    assert!(stalled.iter().all(|(kept, _)| !kept.is_closed.load(SeqCst)));
}

#[test]
fn a_query_that_fails_before_its_first_result_leaves_what_was_there() {
    for (before, expected) in [(None, ""), (Some(2), "2 end")] {
        let mut outputs = Outputs::new();
        let kept = Kept::default();
        let sink = outputs.add("fails", &kept, false);
        before.into_iter().for_each(|count| outputs.write(&sink, count));
        outputs.until(|| sink.query.drained());
        outputs.write(&sink, 13);
        assert!(matches!(sink.query.outcome(), Outcome::Failed(why) if why.contains("thirteen")));
        outputs.write(&sink, 1);
        outputs.pool.close(&sink);
        outputs.until(|| sink.query.drained());
        outputs.stop();
        assert_eq!(*kept.text.lock(), expected);
        assert_eq!(kept.is_closed.load(SeqCst), before.is_some());
    }
}

/// Who writes through the output of another waits for whom that waits for.
#[test]
fn all_who_write_a_table_wait_for_whom_it_waits_for() {
    let outputs = Outputs::new();
    let (kept, of) = (Kept::default(), table("t"));
    let query = |id| {
        let settings = QuerySettings::named(format!("q{id}"));
        Arc::new(Query::new(QueryId(id), settings, 1, outputs.process.clone()))
    };
    let (first, second, other) = (query(1), query(2), query(3));
    let waiting = Waiting::default();
    let first_outlet =
        outputs.pool.add(&first, Added { waiting: waiting.clone(), ..added(open(&kept, false, true), &of) });
    let second_outlet = outputs.pool.join(&second, &of, 1, true).expect("one for all");
    let third_outlet = outputs.pool.add(&other, added(open(&kept, false, false), &of));
    waiting.begin("t", "Kafka at h:1", "no answer");
    let whom = |query: &Query| {
        let waits = outputs.pool.waits_of(query.id);
        waits.into_iter().map(|wait| wait.service).collect::<Vec<_>>()
    };
    assert_eq!(
        (whom(&first), whom(&second)),
        (vec!["Kafka at h:1".to_owned()], vec!["Kafka at h:1".to_owned()])
    );
    assert!(whom(&other).is_empty());
    outputs.pool.forget(first.id);
    assert!(whom(&first).is_empty() && !whom(&second).is_empty());
    waiting.end("t");
    assert!(whom(&second).is_empty());
    [first_outlet, second_outlet, third_outlet].iter().for_each(|outlet| outputs.pool.close(outlet));
}
