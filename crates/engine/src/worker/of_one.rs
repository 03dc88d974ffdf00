//! The loop of a thread that has one unit for itself, under the policy `os`.

use std::sync::Arc;

use laxity_graph::{EventTime, ProcessingTime};
use laxity_runtime::{ArrowRows, InFlight, Instance, Parcel, Payload, RunContext};
use laxity_sched::Work;

use crate::operator_threads::{Mailbox, OperatorThreads};
use crate::shared::Shared;
use crate::tables::Table;
use crate::unit::Unit;

/// What the thread of a unit does: takes what comes for it, until it is stopped.
pub(crate) fn serve(shared: &Arc<Shared>, threads: &OperatorThreads, unit: &Unit, mailbox: &Mailbox) {
    match unit {
        Unit::Operator(instance) => run(shared, threads, instance, mailbox),
        Unit::Table(table) => read(shared, table, mailbox),
    }
}

fn run(shared: &Shared, threads: &OperatorThreads, instance: &Instance<ArrowRows>, mailbox: &Mailbox) {
    let (mut staged, mut merged, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    // When the operator wants to be told the time.
    let mut wake: Option<ProcessingTime> = None;
    while let Some(taken) = mailbox.take(wake, &shared.clock) {
        let (message, enqueued) = taken.unwrap_or_else(|due| {
            wake = None;
            let (progress, body) = (EventTime::MIN, Payload::look());
            let to = instance.id;
            (Parcel::<ArrowRows> { to, channel: 0, progress, ingested: due, rows: 0, bytes: 0, body }, due)
        });
        let mut work = Work::Message { message, enqueued };
        loop {
            let mut context = RunContext {
                clock: &shared.clock,
                quantum_ns: shared.config.quantum.as_nanos() as u64,
                merged: &mut merged,
                staged: &mut staged,
                writes: &mut writes,
                operator_ns: 0,
            };
            let run = instance.run(work, &mut context);
            wake = run.wake.or(wake);
            shared.write(&mut writes);
            if run.returned_credit {
                shared.wake(instance.query.wake());
            }
            let now = shared.clock.now();
            for message in staged.drain(..) {
                let refused = match threads.mailbox(message.to) {
                    Some(to) => to.put_when_there_is_room(message, now),
                    None => Some(message),
                };
                if let Some(message) = refused {
                    shared.release(&instance.query, InFlight::one(message.rows, message.bytes));
                }
            }
            if !run.report.more {
                break;
            }
            work = Work::Resume;
        }
    }
}

fn read(shared: &Arc<Shared>, table: &Arc<Table>, mailbox: &Mailbox) {
    let mut staged = Vec::new();
    // It begins when it is woken for the first time.
    let mut look = None;
    while mailbox.rest(look, &shared.clock) {
        let looked = shared.look_at(table, &mut staged);
        look = looked.look;
        shared.hand_over(&mut staged);
    }
}
