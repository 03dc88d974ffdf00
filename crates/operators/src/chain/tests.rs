//! Chains of operators that repeat rows, cut anywhere, against the same chains uncut. Cannot catch: what real operators
//! do inside one.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use proptest::prelude::*;

use super::*;
use crate::drive::{Answer, Sent, Step, drive};

/// Sends each row `copies` times, `limit` rows a batch: a join's shape. Names an ingestion time if told to, and
/// sends the row `-watermark` at each watermark, as a window would.
struct Repeat {
    copies: usize,
    limit: usize,
    ingested: Option<ProcessingTime>,
    left: VecDeque<i64>,
    watermark: Option<EventTime>,
}

impl Repeat {
    fn new(copies: usize, limit: usize) -> Repeat {
        Repeat { copies, limit, ingested: None, left: VecDeque::new(), watermark: None }
    }
}

fn rows(values: &[i64]) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, false)]));
    RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(values.to_vec())) as ArrayRef]).unwrap()
}

impl Operator for Repeat {
    fn on_batch(
        &mut self,
        _input: usize,
        batch: StreamBatch,
        _ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        use arrow::array::AsArray;
        assert!(self.left.is_empty() && self.watermark.is_none(), "called while it had work left");
        for value in batch.rows.column(0).as_primitive::<arrow::datatypes::Int64Type>().values() {
            self.left.extend(std::iter::repeat_n(*value, self.copies));
        }
        self.resume(out)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        assert!(self.left.is_empty() && self.watermark.is_none(), "called while it had work left");
        self.left.extend(std::iter::repeat_n(-watermark.0, self.copies));
        self.watermark = Some(watermark);
        self.resume(out)
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        Ok(OperatorState::default())
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        state.finish()
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let piece: Vec<i64> = self.left.drain(..self.limit.min(self.left.len())).collect();
        let batch = StreamBatch::on_time(rows(&piece));
        match self.ingested {
            Some(ingested) => out.result(batch, ingested, self.watermark),
            None => out.batch(batch),
        }
        if !self.left.is_empty() {
            return Ok(Flow::More);
        }
        if let Some(watermark) = self.watermark.take() {
            out.watermark(watermark);
        }
        Ok(Flow::Done)
    }

    fn state_bytes(&self) -> usize {
        100
    }
}

fn steps() -> Vec<Step> {
    vec![
        Step::Batch(StreamBatch::on_time(rows(&[1, 2])), ProcessingTime(5)),
        Step::Watermark(7),
        Step::Batch(StreamBatch::on_time(rows(&[3])), ProcessingTime(9)),
        Step::Watermark(8),
    ]
}

/// Rows and watermarks in order, as numbers and `w` numbers.
fn order(answer: &Answer) -> Vec<String> {
    let texts = answer.emitted.iter().flat_map(|sent| match sent {
        Sent::Batch { rows, .. } => rows.clone(),
        Sent::Watermark(watermark) => vec![format!("w{watermark}")],
    });
    texts.collect()
}

#[test]
fn a_chain_cuts_and_keeps_order() {
    let mut chain = Chain::new(vec![Box::new(Repeat::new(2, 1)), Box::new(Repeat::new(2, 3))]);
    assert_eq!(chain.state_bytes(), 200);
    let answer = drive(&mut chain, steps(), 3);
    // A watermark makes two rows of its own in the first link, each doubled in the second, and two in the second.
    let expected = "1 1 1 1 2 2 2 2 -7 -7 -7 -7 -7 -7 w7 3 3 3 3 -8 -8 -8 -8 -8 -8 w8";
    assert_eq!(order(&answer).join(" "), expected);
    assert!(answer.cuts >= 6, "{}", answer.cuts);
}

#[test]
fn results_keep_what_the_link_that_held_them_said() {
    let mut first = Repeat::new(1, 10);
    first.ingested = Some(ProcessingTime(3));
    let mut chain = Chain::new(vec![Box::new(first), Box::new(Repeat::new(1, 10))]);
    let answer = drive(&mut chain, vec![Step::Watermark(7)], 10);
    assert_eq!(
        answer.emitted,
        [
            Sent::Batch {
                rows: vec!["-7".into()],
                ingested: Some(ProcessingTime(3)),
                window_end: Some(EventTime(7))
            },
            // The second link's own row names nothing.
            Sent::Batch { rows: vec!["-7".into()], ingested: None, window_end: None },
            Sent::Watermark(7),
        ]
    );
}

proptest! {
    #[test]
    fn a_chain_is_its_links_one_after_another(
        links in proptest::collection::vec((1usize..4, 1usize..5), 1..4),
    ) {
        let uncut = |copies: &[(usize, usize)]| {
            let links = copies.iter().map(|&(copies, _)| Box::new(Repeat::new(copies, 10_000)) as Box<dyn Operator>);
            order(&drive(&mut Chain::new(links.collect()), steps(), 0))
        };
        let cut = links.iter().map(|&(copies, limit)| Box::new(Repeat::new(copies, limit)) as Box<dyn Operator>);
        let last_limit = links.last().unwrap().1;
        let answer = drive(&mut Chain::new(cut.collect()), steps(), last_limit);
        prop_assert_eq!(order(&answer), uncut(&links));
    }
}
