//! The one place that knows whether the scheduler or the operating system decides; the rest of the engine hands its
//! messages over here either way.

use std::sync::Arc;

use laxity_graph::{OperatorId, ProcessingTime, QueryId};
use laxity_operators::StreamBatch;
use laxity_runtime::{ArrowRows, Look, Parcel, Payload};
use laxity_sched::{Ladder, LeavesOut, Message, OperatorSpec, QuerySpec, Relief};

use crate::mailboxes::Mailboxes;
use crate::operator_threads::OperatorThreads;
use crate::tables::Table;
use crate::unit::Unit;

/// Who hands messages to operators: the scheduler core, or a thread for each operator.
#[expect(clippy::large_enum_variant, reason = "there is one per engine")]
pub(crate) enum Dispatch {
    Scheduled(Mailboxes<Payload<StreamBatch>, Unit>),
    Threads(Arc<OperatorThreads>),
}

impl Dispatch {
    /// So many operators more need threads that there is no room for: how many there are, and may be.
    pub(crate) fn lacks_room(&self, operators: u64) -> Option<(u64, u64)> {
        match self {
            Dispatch::Scheduled(_) => None,
            Dispatch::Threads(threads) => threads.lacks_room(operators),
        }
    }

    /// Adds a query with its operators.
    pub(crate) fn add_query(&self, query: QuerySpec, operators: &[OperatorSpec], units: &[Unit]) {
        match self {
            Dispatch::Scheduled(mailboxes) => mailboxes.add_query(query, operators, units),
            Dispatch::Threads(threads) => threads.add(operators, units),
        }
    }

    /// Adds a table, and its reader if it has but one. It rests until it is woken or an appointment is made.
    pub(crate) fn add_table(
        &self,
        query: QuerySpec,
        operator: OperatorSpec,
        table: &Arc<Table>,
        reader: Option<QueryId>,
    ) {
        let unit = Unit::Table(table.clone());
        match self {
            Dispatch::Scheduled(mailboxes) => mailboxes.add_table(query, operator, unit, reader),
            Dispatch::Threads(threads) => threads.add(&[operator], &[unit]),
        }
    }

    /// A query or a table has another target, weight or QoS from now on. To threads that is nothing.
    pub(crate) fn alter_query(&self, query: QuerySpec, now: ProcessingTime) {
        if let Dispatch::Scheduled(mailboxes) = self {
            mailboxes.alter_query(query, now);
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
            Dispatch::Scheduled(mailboxes) => mailboxes.wake(table, now),
            Dispatch::Threads(threads) => threads.wake(table),
        }
    }

    /// A table is to be looked at for the first time.
    pub(crate) fn appoint(&self, table: OperatorId, at: ProcessingTime, now: ProcessingTime) {
        match self {
            Dispatch::Scheduled(mailboxes) => mailboxes.appoint(table, Look::due(at), now),
            Dispatch::Threads(threads) => threads.wake(table),
        }
    }

    /// Tells the scheduler, where there is one, how full the memory is.
    pub(crate) fn on_memory(&self, used_bytes: u64, bound_bytes: u64) {
        if let Dispatch::Scheduled(mailboxes) = self {
            mailboxes.on_memory(used_bytes, bound_bytes);
        }
    }

    /// The steps against too much work that its scheduler has taken for a query; `None` if there is none.
    pub(crate) fn ladder(&self, query: QueryId) -> Option<Ladder> {
        match self {
            Dispatch::Scheduled(mailboxes) => mailboxes.ladder(query),
            Dispatch::Threads(_) => None,
        }
    }

    /// Rows of the query may be dropped under overload. Without a scheduler nobody sees overload, and none are.
    pub(crate) fn allow_shedding(&self, query: QueryId) {
        if let Dispatch::Scheduled(mailboxes) = self {
            mailboxes.allow_shedding(query);
        }
    }

    /// The query leaves rows out when it is told to. Without a scheduler it does so when it is behind, of itself.
    pub(crate) fn allow_leaving_out(&self, query: QueryId) {
        if let Dispatch::Scheduled(mailboxes) = self {
            mailboxes.allow_leaving_out(query);
        }
    }

    /// What is to be done with rows that have come to a source.
    pub(crate) fn relief(
        &self,
        source: OperatorId,
        rows: u32,
        leaves_out: LeavesOut,
        now: ProcessingTime,
    ) -> Relief {
        match self {
            Dispatch::Scheduled(mailboxes) => mailboxes.relief(source, rows, leaves_out, now),
            Dispatch::Threads(_) => Relief::default(),
        }
    }

    /// Forgets a query or a table with its operators; the messages they still had.
    pub(crate) fn remove_query(
        &self,
        query: QueryId,
        operators: &[OperatorId],
        now: ProcessingTime,
    ) -> Vec<Message<Payload<StreamBatch>>> {
        match self {
            Dispatch::Scheduled(mailboxes) => mailboxes.remove_query(query, now),
            Dispatch::Threads(threads) => threads.remove(operators),
        }
    }

    pub(crate) fn stop(&self) {
        match self {
            Dispatch::Scheduled(mailboxes) => mailboxes.stop(),
            Dispatch::Threads(threads) => threads.stop(),
        }
    }
}
