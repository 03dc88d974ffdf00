//! Whether a run may take one more message in: judged here by slack, carried out by the driver.

use laxity_graph::{ProcessingTime, WorkerId};

use crate::{Event, Message, Scheduler};

/// Batches grow with slack: fewer calls while there is time, none put off when there is not.
impl<T> Scheduler<T> {
    /// Another message for the run that this worker was just granted, to be processed with it as one batch.
    /// Ask until it says `None`, before running; the report then covers all of them.
    ///
    /// Batches grow with slack. Given is the next message of the same operator, if it came by the same channel,
    /// both carry rows, all together have at most `rows_max` of them, and the batch is predicted to take no
    /// longer than the quantum. And only where nothing is lost by it: while the first message's result is still
    /// due after the whole batch has gone all the way, or is late anyway.
    pub fn merge(&mut self, worker: WorkerId, rows_max: u32, now: ProcessingTime) -> Option<Message<T>> {
        self.merge_if(worker, rows_max, now, |_| true)
    }

    /// As [`merge`](Scheduler::merge), for a driver that cannot process every two messages as one batch.
    pub fn merge_if(
        &mut self,
        worker: WorkerId,
        rows_max: u32,
        now: ProcessingTime,
        fits: impl FnOnce(&Message<T>) -> bool,
    ) -> Option<Message<T>> {
        let place = worker.index();
        let worker = self.workers.get(place)?;
        let (id, run) = (worker.running?, worker.granted);
        let operator = self.operators[id.index()].as_mut()?;
        let next = &operator.mailbox.head()?.message;
        if run.rows == 0 || next.rows == 0 || next.channel != run.channel {
            return None;
        }
        let rows = run.rows.checked_add(next.rows).filter(|&rows| rows <= rows_max)?;
        let cost_ns = operator.cost.predict_ns(rows);
        if cost_ns > self.config.quantum_ns {
            return None;
        }
        let slack_ns = run.deadline.since_ns(now);
        if slack_ns > 0 && slack_ns < cost_ns + operator.path_cost_ns {
            return None;
        }
        if !fits(next) {
            return None;
        }
        let bytes = operator.mailbox.bytes();
        let queued = operator.mailbox.pop()?;
        self.pressure.see(self.config.mailbox_bytes_max, bytes, operator.mailbox.bytes());
        if slack_ns == 0
            && let Some(query) = self.queries[operator.query.index()].as_mut()
        {
            query.ladder.get_or_insert_default().larger_batches.see(now);
        }
        if self.needs.told.started {
            let (query, source) = (operator.query, operator.is_source.then_some(id));
            let ingested = queued.message.ingested;
            self.composition.rank.on(Event::Started { query, source, ingested });
        }
        self.workers[place].granted.rows = rows;
        self.view.touch(id);
        self.unblock_upstream(id, now);
        Some(queued.message)
    }
}

#[cfg(test)]
mod tests {
    use laxity_graph::{EventTime, OperatorId, QueryId};

    use super::*;
    use crate::{Composition, Config, Llf, OperatorSpec, QuerySpec, RunReport};

    const TARGET_NS: u64 = 100_000;
    const WORKER: WorkerId = WorkerId(0);

    /// One operator that costs 1 000 ns and 20 ns per row (the prior), with these messages (channel, rows)
    /// ingested at 0 and the first of them granted at `now`.
    fn granted(messages: &[(u32, u32)], now: u64) -> Scheduler<usize> {
        let mut scheduler = Scheduler::new(Composition::of(Llf), Config::default());
        scheduler.add_query(QuerySpec { id: QueryId(0), target_ns: TARGET_NS, weight: 1.0, qos: None });
        scheduler.add_operator(OperatorSpec {
            id: OperatorId(0),
            query: QueryId(0),
            upstream: vec![],
            window: None,
            channels: 2,
        });
        for (body, &(channel, rows)) in messages.iter().enumerate() {
            let ingested = ProcessingTime::ZERO;
            let message = Message {
                to: OperatorId(0),
                channel,
                progress: EventTime::MIN,
                ingested,
                rows,
                bytes: 8,
                body,
            };
            scheduler.on_message(message, ingested);
        }
        scheduler.next(WORKER, ProcessingTime(now)).unwrap();
        scheduler
    }

    fn merged(messages: &[(u32, u32)], rows_max: u32, now: u64) -> Vec<usize> {
        let mut scheduler = granted(messages, now);
        let mut bodies = Vec::new();
        while let Some(message) = scheduler.merge(WORKER, rows_max, ProcessingTime(now)) {
            bodies.push(message.body);
        }
        let left = scheduler.queued_messages(OperatorId(0));
        assert_eq!(bodies.len() + left + 1, messages.len(), "none lost");
        bodies
    }

    #[test]
    fn rows_of_one_channel_merge_up_to_the_limit() {
        assert_eq!(merged(&[(0, 10), (0, 20), (0, 30), (0, 40)], 60, 0), [1, 2]);
    }

    #[test]
    fn a_watermark_or_another_channel_ends_the_batch() {
        assert_eq!(merged(&[(0, 10), (0, 10), (0, 0), (0, 10)], 1_000, 0), [1]);
        assert_eq!(merged(&[(0, 10), (1, 10), (0, 10)], 1_000, 0), []);
        assert_eq!(merged(&[(0, 0), (0, 10)], 1_000, 0), []);
    }

    #[test]
    fn near_the_deadline_nothing_merges() {
        // Two messages of 1 000 rows cost 41 000 ns together: in time at 50 000, not at 70 000. Past the
        // deadline it is too late to spoil anything.
        let messages = [(0, 1_000), (0, 1_000)];
        assert_eq!(merged(&messages, 10_000, 50_000), [1]);
        assert_eq!(merged(&messages, 10_000, 70_000), []);
        assert_eq!(merged(&messages, 10_000, 100_000), [1]);
    }

    #[test]
    fn a_batch_stays_within_the_quantum() {
        // 40 000 rows cost 801 000 ns, 50 000 would cost 1 001 000.
        let messages = [(0, 20_000), (0, 20_000), (0, 10_000)];
        assert_eq!(merged(&messages, u32::MAX, TARGET_NS), [1]);
    }

    #[test]
    fn nothing_merges_without_a_run() {
        let mut scheduler = granted(&[(0, 10), (0, 10)], 0);
        scheduler.on_finished(WORKER, RunReport { rows_in: 10, ..RunReport::default() }, ProcessingTime(1));
        assert!(scheduler.merge(WORKER, 100, ProcessingTime(1)).is_none());
        assert!(scheduler.merge(WorkerId(7), 100, ProcessingTime(1)).is_none());
    }
}
