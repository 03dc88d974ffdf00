//! One scheduler or several shards behind one face, so that the rest of the simulator need not ask which.

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WorkerId};
use laxity_sched::{
    Config, Grant, LeavesOut, Message, OperatorSpec, QuerySpec, Recipe, Relief, RunReport, Scheduler, Shards,
};

/// Who decides on a machine what runs next: a scheduler, or several that share its queries. Ids are those of the machine.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one per machine")]
pub(crate) enum Order<T> {
    One(Scheduler<T>),
    Several(Shards<T>),
}

/// Other shards that a worker looks at beside its home, as in the engine.
const SAMPLED: usize = 1;

impl<T> Order<T> {
    /// With so few of them, and so many where queries crowd.
    pub fn new(few: usize, many: usize, policy: &Recipe, config: &Config) -> Order<T> {
        match many {
            0 | 1 => Order::One(Scheduler::new(policy.compose(), config.clone())),
            _ => Order::Several(Shards::new(few, many, SAMPLED, policy, config)),
        }
    }

    /// The one that there is, where queries span machines; `None` where there are several.
    pub fn only(&mut self) -> Option<&mut Scheduler<T>> {
        match self {
            Order::One(scheduler) => Some(scheduler),
            Order::Several(_) => None,
        }
    }

    pub fn add_query(&mut self, query: QuerySpec, operators: Vec<OperatorSpec>) {
        match self {
            Order::One(scheduler) => add_query(scheduler, query, operators),
            Order::Several(shards) => {
                shards.add_query(query, &operators);
            }
        }
    }

    /// A table, and its reader if it has but one.
    pub fn add_table(&mut self, query: QuerySpec, operator: OperatorSpec, reader: Option<QueryId>) {
        match self {
            Order::One(scheduler) => add_query(scheduler, query, vec![operator]),
            Order::Several(shards) => {
                shards.add_beside(reader, query, &[operator]);
            }
        }
    }

    /// What a query allows where not all can be done in time: rows are dropped, or left out.
    pub fn allow(&mut self, query: QueryId, drop: bool, leave_out: bool) {
        match self {
            Order::One(scheduler) => {
                scheduler.allow_shedding(query, drop);
                scheduler.allow_leaving_out(query, leave_out);
            }
            Order::Several(shards) => {
                shards.allow_shedding(query, drop);
                shards.allow_leaving_out(query, leave_out);
            }
        }
    }

    /// The scheduler where a worker is at home.
    pub fn home(&self, worker: WorkerId) -> usize {
        match self {
            Order::One(_) => 0,
            Order::Several(shards) => shards.home(worker),
        }
    }

    /// How many schedulers there are.
    pub fn shards(&self) -> usize {
        match self {
            Order::One(_) => 1,
            Order::Several(shards) => shards.shards().len(),
        }
    }

    /// Which of them has an operator.
    pub fn shard_of(&self, id: OperatorId) -> usize {
        match self {
            Order::One(_) => 0,
            Order::Several(shards) => shards.placement().locate(id).map_or(0, |address| address.shard),
        }
    }

    /// True if a unit became ready.
    pub fn on_message(&mut self, message: Message<T>, now: ProcessingTime) -> bool {
        match self {
            Order::One(scheduler) => scheduler.on_message(message, now),
            Order::Several(shards) => shards.on_message(message, now),
        }
    }

    /// The same of a message from another machine: then there is one scheduler here.
    pub fn on_remote_message(&mut self, message: Message<T>, now: ProcessingTime) -> bool {
        match self {
            Order::One(scheduler) => scheduler.on_remote_message(message, now),
            Order::Several(shards) => shards.on_message(message, now),
        }
    }

    /// After a run was reported: the worker goes on with what that made ready, if that is due.
    pub fn follow(&mut self, worker: WorkerId, operator: OperatorId, now: ProcessingTime) {
        match self {
            Order::One(scheduler) => scheduler.follow(worker, operator, now),
            Order::Several(shards) => shards.follow(worker, operator, now),
        };
    }

    pub fn on_progress(&mut self, source: OperatorId, progress: EventTime, ingested: ProcessingTime) {
        match self {
            Order::One(scheduler) => scheduler.on_progress(source, progress, ingested),
            Order::Several(shards) => shards.on_progress(source, progress, ingested),
        }
    }

    pub fn on_finished(&mut self, worker: WorkerId, report: RunReport, now: ProcessingTime) {
        match self {
            Order::One(scheduler) => scheduler.on_finished(worker, report, now),
            Order::Several(shards) => shards.on_finished(worker, report, now),
        }
    }

    pub fn on_memory(&mut self, used_bytes: u64, bound_bytes: u64) {
        match self {
            Order::One(scheduler) => scheduler.on_memory(used_bytes, bound_bytes),
            Order::Several(shards) => shards.on_memory(used_bytes, bound_bytes),
        }
    }

    pub fn next(&mut self, worker: WorkerId, now: ProcessingTime) -> Option<Grant<T>> {
        match self {
            Order::One(scheduler) => scheduler.next(worker, now),
            Order::Several(shards) => shards.next(worker, now),
        }
    }

    pub fn merge_if(
        &mut self,
        worker: WorkerId,
        rows_max: u32,
        now: ProcessingTime,
        fits: impl FnOnce(&Message<T>) -> bool,
    ) -> Option<Message<T>> {
        match self {
            Order::One(scheduler) => scheduler.merge_if(worker, rows_max, now, fits),
            Order::Several(shards) => shards.merge_if(worker, rows_max, now, fits),
        }
    }

    /// Another policy.
    pub fn set_policy(&mut self, policy: &Recipe, now: ProcessingTime) {
        match self {
            Order::One(scheduler) => scheduler.set_policy(policy.compose(), now),
            Order::Several(shards) => shards.set_policy(policy, now),
        }
    }

    pub fn relief(
        &mut self,
        source: OperatorId,
        rows: u32,
        leaves_out: LeavesOut,
        now: ProcessingTime,
    ) -> Relief {
        match self {
            Order::One(scheduler) => scheduler.relief(source, rows, leaves_out, now),
            Order::Several(shards) => shards.relief(source, rows, leaves_out, now),
        }
    }

    /// When a worker is to ask again although nothing happened: its home waits for nobody else.
    pub fn next_timeout(&self, worker: WorkerId) -> Option<ProcessingTime> {
        match self {
            Order::One(scheduler) => scheduler.next_timeout(),
            Order::Several(shards) => shards.shards()[shards.home(worker)].scheduler().next_timeout(),
        }
    }

    pub fn waiting_units(&self) -> usize {
        match self {
            Order::One(scheduler) => scheduler.waiting_units(),
            Order::Several(shards) => shards.waiting_units(),
        }
    }

    pub fn cycle_work(&self) -> u64 {
        match self {
            Order::One(scheduler) => scheduler.cycle_work(),
            Order::Several(shards) => shards.cycle_work(),
        }
    }

    pub fn began_dispatch(&self, worker: WorkerId) -> bool {
        match self {
            Order::One(scheduler) => scheduler.began_dispatch(worker),
            Order::Several(shards) => shards.began_dispatch(worker),
        }
    }

    pub fn queued_messages(&self, id: OperatorId) -> usize {
        match self {
            Order::One(scheduler) => scheduler.queued_messages(id),
            Order::Several(shards) => shards.queued_messages(id),
        }
    }

    pub fn queued_rows(&self, id: OperatorId) -> u64 {
        match self {
            Order::One(scheduler) => scheduler.queued_rows(id),
            Order::Several(shards) => shards.queued_rows(id),
        }
    }
}

/// A query with all its operators, from sources to sinks.
pub(crate) fn add_query<T>(scheduler: &mut Scheduler<T>, query: QuerySpec, operators: Vec<OperatorSpec>) {
    scheduler.add_query(query);
    operators.into_iter().for_each(|operator| scheduler.add_operator(operator));
}
