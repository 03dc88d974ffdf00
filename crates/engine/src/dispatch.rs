use std::sync::Arc;

use laxity_graph::{OperatorId, ProcessingTime, QueryId};
use laxity_operators::StreamBatch;
use laxity_runtime::{ArrowRows, Look, Parcel, Payload};
use laxity_sched::{Message, OperatorSpec, QuerySpec};

use crate::mailboxes::Mailboxes;
use crate::operator_threads::OperatorThreads;
use crate::worker::Unit;

/// Who hands messages to operators: the scheduler core, or a thread for each operator.
#[expect(clippy::large_enum_variant, reason = "there is one per engine")]
pub(crate) enum Dispatch {
    Scheduled(Mailboxes<Payload<StreamBatch>>),
    Threads(Arc<OperatorThreads>),
}

impl Dispatch {
    /// Adds a query with its operators, or a table.
    pub(crate) fn add_query(&self, query: QuerySpec, operators: Vec<OperatorSpec>, units: &[Unit]) {
        match self {
            Dispatch::Scheduled(mailboxes) => mailboxes.add_query(query, &operators),
            Dispatch::Threads(threads) => threads.add(query.id, &operators, units),
        }
    }

    /// Takes what tables admit. Never blocks: a table asks for credit first. What is left in `messages` is for
    /// operators of a query that has ended.
    pub(crate) fn enqueue(&self, messages: &mut Vec<Parcel<ArrowRows>>, now: ProcessingTime) {
        match self {
            Dispatch::Scheduled(mailboxes) => mailboxes.enqueue(messages, now),
            Dispatch::Threads(threads) => threads.enqueue(messages, now),
        }
    }

    /// A table is to be looked at now.
    pub(crate) fn wake(&self, table: OperatorId, now: ProcessingTime) {
        match self {
            Dispatch::Scheduled(mailboxes) => {
                mailboxes.wake(table, now);
            }
            Dispatch::Threads(threads) => threads.wake(table),
        }
    }

    /// A table is to be looked at for the first time.
    pub(crate) fn appoint(&self, table: OperatorId, at: ProcessingTime, now: ProcessingTime) {
        match self {
            Dispatch::Scheduled(mailboxes) => mailboxes.appoint(table, Look { at, due: at }, now),
            Dispatch::Threads(threads) => threads.wake(table),
        }
    }

    /// Tells the scheduler, where there is one, how full the memory is.
    pub(crate) fn on_memory(&self, used_bytes: u64, bound_bytes: u64) {
        if let Dispatch::Scheduled(mailboxes) = self {
            mailboxes.on_memory(used_bytes, bound_bytes);
        }
    }

    /// Rows of the query may be dropped under overload. Without a scheduler nobody sees overload, and none are.
    pub(crate) fn allow_shedding(&self, query: QueryId) {
        if let Dispatch::Scheduled(mailboxes) = self {
            mailboxes.allow_shedding(query);
        }
    }

    /// How many of the rows that have come to a source are to be dropped.
    pub(crate) fn rows_to_shed(&self, source: OperatorId, rows: u32, now: ProcessingTime) -> u32 {
        match self {
            Dispatch::Scheduled(mailboxes) => mailboxes.rows_to_shed(source, rows, now),
            Dispatch::Threads(_) => 0,
        }
    }

    /// Forgets a query or a table; the messages it still had.
    pub(crate) fn remove_query(
        &self,
        query: QueryId,
        now: ProcessingTime,
    ) -> Vec<Message<Payload<StreamBatch>>> {
        match self {
            Dispatch::Scheduled(mailboxes) => mailboxes.remove_query(query, now),
            Dispatch::Threads(threads) => threads.remove_query(query),
        }
    }

    pub(crate) fn stop(&self) {
        match self {
            Dispatch::Scheduled(mailboxes) => mailboxes.stop(),
            Dispatch::Threads(threads) => threads.stop(),
        }
    }
}

/// What the message that a table is to be looked at carries: nothing.
pub(crate) fn look() -> Payload<StreamBatch> {
    Payload::look()
}
