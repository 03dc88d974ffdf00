//! An output whose writes return before they have arrived, and that connects before the first.

use std::sync::atomic::AtomicUsize;

use super::*;

/// Keeps what is written; the test says what has arrived, and what could not.
#[derive(Clone, Default)]
struct Ahead {
    text: Arc<Mutex<String>>,
    may_arrive: Arc<AtomicUsize>,
    told: Arc<AtomicUsize>,
    /// The number of a write that does not arrive.
    fails: Option<usize>,
    /// How often it does not connect yet; the last time for good.
    connects_after: Option<usize>,
    connects_never: bool,
    attempts: Arc<AtomicUsize>,
    prepared: Arc<AtomicBool>,
}

fn refused(why: &str) -> ConnectError {
    ConnectError::Service { service: "it".into(), action: "write".into(), message: why.into() }
}

impl Output for Ahead {
    fn connects(&self) -> bool {
        self.connects_after.is_some()
    }

    fn connect(&mut self) -> Result<Option<Duration>, ConnectError> {
        let attempt = self.attempts.fetch_add(1, SeqCst);
        match self.connects_after {
            Some(after) if attempt < after => Ok(Some(Duration::from_millis(1))),
            _ if self.connects_never => Err(refused("no such place")),
            _ => Ok(None),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectError> {
        self.text.lock().push_str(std::str::from_utf8(bytes).unwrap());
        Ok(())
    }

    fn arrived(&mut self) -> Option<Result<(), ConnectError>> {
        let next = self.told.load(SeqCst);
        if next >= self.may_arrive.load(SeqCst) {
            return None;
        }
        self.told.store(next + 1, SeqCst);
        Some(if self.fails == Some(next) { Err(refused("too large")) } else { Ok(()) })
    }

    fn close(&mut self) -> Result<(), ConnectError> {
        self.text.lock().push('.');
        Ok(())
    }

    fn prepare(&mut self, _checkpoint: u64) -> Result<OutputPosition, ConnectError> {
        self.prepared.store(true, SeqCst);
        Ok(OutputPosition::None)
    }
}

impl Outputs {
    fn enter_ahead(&self, name: &str, output: &Ahead, serves_all: bool) -> Arc<Outlet> {
        let query = Arc::new(Query::new(QueryId(0), QuerySettings::named(name), 1, self.process.clone()));
        let of = table("t");
        self.pool.join(&query, &of, 1, true).unwrap_or_else(|| {
            let output = Some(Box::new(output.clone()) as Box<dyn Output>);
            let sink = OpenSink { encoder: Box::new(Counts), output, may_stall: true, serves_all };
            self.pool.add(&query, added(sink, &of))
        })
    }
}

/// Any batch is a quarter of what may be under way.
struct Long;

const QUARTER: usize = UNDER_WAY_BYTES_MAX as usize / 4;

impl Encoder for Long {
    fn encode(&mut self, _rows: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        out.resize(QUARTER, b'x');
        Ok(())
    }

    fn finish(&mut self, _out: &mut Vec<u8>) -> Result<(), ConnectError> {
        Ok(())
    }
}

fn rows_out(sink: &Arc<Outlet>) -> u64 {
    sink.query.rows_out.load(SeqCst)
}

#[test]
fn writes_follow_each_other_and_are_out_when_they_have_arrived() {
    let mut outputs = Outputs::new();
    let ahead = Ahead::default();
    let sink = outputs.enter_ahead("ahead", &ahead, false);
    (1..=3).for_each(|count| outputs.write(&sink, count));
    outputs.until(|| *ahead.text.lock() == "1 2 3 ");
    assert_eq!((rows_out(&sink), sink.query.in_flight.load(SeqCst)), (0, 3));
    ahead.may_arrive.store(2, SeqCst);
    outputs.until(|| rows_out(&sink) == 3);
    outputs.until(|| sink.query.in_flight.load(SeqCst) == 1);
    outputs.write(&sink, 4);
    outputs.put(&sink, Written::End);
    outputs.until(|| *ahead.text.lock() == "1 2 3 4 ");
    outputs.until(|| outputs.pool.is_stalled(&sink));
    assert_eq!(sink.query.outcome(), Outcome::Running);
    ahead.may_arrive.store(4, SeqCst);
    outputs.until(|| sink.query.outcome() == Outcome::Finished && sink.query.drained());
    assert_eq!((ahead.text.lock().as_str(), rows_out(&sink)), ("1 2 3 4 end.", 10));
    assert_eq!(outputs.process.memory.used_bytes(), 0);
    outputs.stop();
}

#[test]
fn a_write_that_does_not_arrive_ends_those_who_wrote_it() {
    let outputs = Outputs::new();
    let ahead = Ahead { fails: Some(1), ..Ahead::default() };
    let first = outputs.enter_ahead("first", &ahead, true);
    let second = outputs.enter_ahead("second", &ahead, true);
    for (sink, count, text) in [(&first, 1, "1 "), (&second, 2, "1 2 "), (&first, 3, "1 2 3 ")] {
        outputs.write(sink, count);
        outputs.until(|| *ahead.text.lock() == text);
    }
    outputs.put(&second, Written::End);
    ahead.may_arrive.store(3, SeqCst);
    outputs.until(|| first.query.drained() && second.query.drained());
    assert!(matches!(second.query.outcome(), Outcome::Failed(why) if why.contains("too large")));
    assert_eq!((rows_out(&first), rows_out(&second), first.query.outcome()), (4, 0, Outcome::Running));
    outputs.pool.close(&first);
    outputs.until(|| ahead.text.lock().ends_with("end."));
}

#[test]
fn what_is_under_way_is_bounded() {
    let outputs = Outputs::new();
    let ahead = Ahead::default();
    let query = Arc::new(Query::new(QueryId(0), QuerySettings::named("much"), 1, outputs.process.clone()));
    let output = Some(Box::new(ahead.clone()) as Box<dyn Output>);
    let open = OpenSink { encoder: Box::new(Long), output, may_stall: true, serves_all: false };
    let sink = outputs.pool.add(&query, added(open, &table("t")));
    (0..8).for_each(|_| outputs.write(&sink, 1));
    let written = || ahead.text.lock().len() / QUARTER;
    outputs.until(|| written() == 4);
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(written(), 4);
    ahead.may_arrive.store(1, SeqCst);
    outputs.until(|| written() == 5);
    ahead.may_arrive.store(8, SeqCst);
    outputs.until(|| rows_out(&sink) == 8);
    outputs.pool.close(&sink);
}

#[test]
fn a_checkpoint_waits_for_what_is_under_way_and_is_none_where_that_fails() {
    for fails in [None, Some(0)] {
        let outputs = Outputs::new();
        let ahead = Ahead { fails, ..Ahead::default() };
        let sink = outputs.enter_ahead("kept", &ahead, false);
        outputs.write(&sink, 1);
        let (reply, replies) = std::sync::mpsc::channel();
        outputs.pool.prepare(&sink, 1, 0, reply);
        outputs.until(|| *ahead.text.lock() == "1 ");
        std::thread::sleep(Duration::from_millis(30));
        assert!(!ahead.prepared.load(SeqCst));
        ahead.may_arrive.store(1, SeqCst);
        let prepared = replies.recv_timeout(PATIENCE);
        assert_eq!((prepared.is_ok(), ahead.prepared.load(SeqCst)), (fails.is_none(), fails.is_none()));
        assert_eq!(sink.query.failed(), fails.is_some());
        outputs.pool.close(&sink);
        outputs.until(|| sink.query.drained());
    }
}

#[test]
fn who_connects_does_so_before_the_first_write_and_says_if_that_cannot_help() {
    let outputs = Outputs::new();
    let ahead = Ahead { connects_after: Some(3), ..Ahead::default() };
    let sink = outputs.enter_ahead("connects", &ahead, false);
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(ahead.attempts.load(SeqCst), 0, "nobody has asked for it");
    outputs.pool.connect(&sink);
    outputs.pool.connect(&sink);
    outputs.until(|| ahead.attempts.load(SeqCst) == 4);
    outputs.pool.close(&sink);
    outputs.until(|| sink.query.outcome() == Outcome::Finished);
    assert_eq!(ahead.attempts.load(SeqCst), 4);

    let never = Ahead { connects_after: Some(1), connects_never: true, ..Ahead::default() };
    let first = outputs.enter_ahead("first", &never, true);
    let second = outputs.enter_ahead("second", &never, true);
    outputs.pool.connect(&first);
    outputs.until(|| first.query.failed() && second.query.failed());
    assert!(matches!(first.query.outcome(), Outcome::Failed(why) if why.contains("no such place")));
    [first, second].iter().for_each(|sink| outputs.pool.close(sink));
}
