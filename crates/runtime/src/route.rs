//! From one instance to the next: rows go by key or in turn, watermarks to all, and order is kept by channel.

use std::sync::Arc;

use laxity_graph::{EventTime, OperatorId, ProcessingTime};
use laxity_sched::Stamps;

use crate::payload::parcel;
use crate::{Content, Outlet, Parcel, Payload, Write};

/// Where the output of one instance goes along one edge.
pub enum Route<C: Content> {
    /// To the instances of another operator.
    Operator {
        /// Which.
        targets: Vec<OperatorId>,
        /// The channel by which each of them hears this instance.
        channel: u32,
        /// Who gets what.
        spread: Spread<C::Partitioner>,
    },
    /// Out of the runtime.
    Outlet(Arc<Outlet>),
}

/// Which target gets which rows.
#[derive(Debug)]
pub enum Spread<P> {
    /// There is one.
    All,
    /// By hash of a key.
    Hash(P),
    /// Whole batches in turn.
    RoundRobin {
        /// Whose turn it is.
        next: usize,
    },
}

/// What a run has sent so far, in order per channel.
pub(crate) struct Sent<'a, C: Content> {
    pub staged: &'a mut Vec<Parcel<C>>,
    pub writes: &'a mut Vec<Write<C>>,
    /// Batches are not to be merged: somebody behind judges them by when they came.
    pub is_alone: bool,
}

impl<C: Content> Route<C> {
    pub(crate) fn batch(
        &mut self,
        batch: C::Batch,
        stamps: Stamps,
        window_end: Option<EventTime>,
        progress: EventTime,
        now: ProcessingTime,
        sent: &mut Sent<'_, C>,
    ) -> Result<(), C::Error> {
        match self {
            Route::Outlet(outlet) => outlet.send(batch, stamps, window_end, now, sent.writes),
            Route::Operator { targets, channel, spread } => {
                let is_alone = sent.is_alone;
                let mut send = |to: OperatorId, batch: C::Batch| {
                    let payload = Payload {
                        batch: Some(batch),
                        watermark: None,
                        idle: false,
                        is_alone,
                        tells_time: false,
                        stamps,
                        window_end,
                    };
                    sent.staged.push(parcel::<C>(to, *channel, progress, payload));
                };
                match spread {
                    Spread::All => send(targets[0], batch),
                    Spread::RoundRobin { next } => {
                        send(targets[*next], batch);
                        *next = (*next + 1) % targets.len();
                    }
                    Spread::Hash(partitioner) => {
                        for (part, &to) in C::split(partitioner, &batch)?.into_iter().zip(targets.iter()) {
                            if let Some(part) = part {
                                send(to, part);
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Tells every target of the watermark: with the rows just staged for it, else by a message of its own.
    pub(crate) fn watermark(
        &mut self,
        watermark: EventTime,
        stamps: Stamps,
        sent: &mut Sent<'_, C>,
        staged_from: usize,
    ) {
        match self {
            Route::Outlet(outlet) => outlet.on_watermark(watermark, sent.writes),
            Route::Operator { targets, channel, .. } => {
                for &to in targets.iter() {
                    let with_rows = sent.staged[staged_from..]
                        .iter_mut()
                        .rev()
                        .find(|message| message.to == to && message.channel == *channel);
                    if let Some(message) = with_rows {
                        message.body.watermark = Some(watermark);
                        message.progress = watermark;
                        continue;
                    }
                    let payload = Payload {
                        batch: None,
                        watermark: Some(watermark),
                        idle: false,
                        is_alone: false,
                        tells_time: false,
                        stamps,
                        window_end: None,
                    };
                    sent.staged.push(parcel::<C>(to, *channel, watermark, payload));
                }
            }
        }
    }

    /// Tells every target that this channel holds nothing back for now.
    pub(crate) fn idle(&mut self, stamps: Stamps, progress: EventTime, sent: &mut Sent<'_, C>) {
        if let Route::Operator { targets, channel, .. } = self {
            for &to in targets.iter() {
                let payload = Payload {
                    batch: None,
                    watermark: None,
                    idle: true,
                    is_alone: false,
                    tells_time: false,
                    stamps,
                    window_end: None,
                };
                sent.staged.push(parcel::<C>(to, *channel, progress, payload));
            }
        }
    }
    /// Tells every target that all rows that were due by then came before this.
    pub(crate) fn time(&mut self, stamps: Stamps, progress: EventTime, sent: &mut Sent<'_, C>) {
        if let Route::Operator { targets, channel, .. } = self {
            for &to in targets.iter() {
                let payload = Payload { tells_time: true, stamps, ..Payload::look() };
                sent.staged.push(parcel::<C>(to, *channel, progress, payload));
            }
        }
    }
}
