//! What a thread does with an output in its hands.

use std::sync::Arc;
use std::time::Duration;

use laxity_connect::{Output, OutputPosition};
use laxity_runtime::{InFlight, Outlet};

use super::encoding::Spare;
use super::finish::Finish;
use super::under_way::{Part, UnderWay};
use super::{Bytes, Prepared, Queued};
use crate::clock::Clock;
use crate::fault::Fault;

/// An output in the hands of a thread.
pub(super) struct Turn {
    pub has_written: bool,
    /// One that ended before had not failed.
    pub has_kept: bool,
    /// What was encoded is written whatever became of its query.
    pub is_one_stream: bool,
    pub output: Option<Box<dyn Output>>,
    pub spare: Spare,
    pub finish: Option<(Arc<Finish>, usize)>,
    pub under_way: UnderWay,
    /// What is no longer in flight.
    pub done: Vec<(Arc<Outlet>, InFlight)>,
}

/// Pauses between looks at what is under way, longer each time: nobody says when it has arrived. A broker on the same machine
/// takes half a millisecond at least; the pause that misses it is part of the latency that is told.
#[derive(Clone, Copy)]
pub(super) struct Looks(Duration);

impl Default for Looks {
    fn default() -> Looks {
        Looks(Duration::from_micros(200))
    }
}

impl Looks {
    const PAUSE_MAX: Duration = Duration::from_millis(20);

    pub fn next(&mut self) -> Duration {
        let next = (self.0 * 3 / 2).min(Looks::PAUSE_MAX);
        std::mem::replace(&mut self.0, next)
    }
}

impl Turn {
    /// Performs rows and ends in one go, or one thing of another kind; none, to see what has arrived.
    pub fn perform(&mut self, mut writes: Vec<Queued>, clock: &Clock) {
        if let Some(last) = writes.pop_if(|write| !write.what.is_of_rows()) {
            self.send(writes, clock);
            self.wait_for_all(clock);
            self.pass(last);
        } else {
            self.send(writes, clock);
            self.settle(clock);
        }
    }

    /// Sees what has arrived; true if something has.
    pub fn settle(&mut self, clock: &Clock) -> bool {
        let before = self.done.len();
        self.has_kept |= self.under_way.settle(self.output.as_deref_mut(), clock, &mut self.done);
        self.done.len() > before
    }

    /// For an output whose thread has nothing else to do meanwhile.
    pub fn wait_for_all(&mut self, clock: &Clock) {
        let mut looks = Looks::default();
        while !self.under_way.is_empty() {
            match self.settle(clock) {
                true => looks = Looks::default(),
                false => std::thread::sleep(looks.next()),
            }
        }
    }

    /// Writes rows in one go. Where others write too, what was encoded is part of the stream whatever became of its query.
    fn send(&mut self, writes: Vec<Queued>, clock: &Clock) {
        let (has_output, is_one_stream) = (self.output.is_some(), self.is_one_stream);
        let goes = |write: &Queued| match &write.what {
            Bytes::Rows { bytes, .. } => {
                has_output && !bytes.is_empty() && (is_one_stream || !write.outlet.query.failed())
            }
            _ => false,
        };
        let gone: Vec<bool> = writes.iter().map(goes).collect();
        let of_rows = writes.iter().zip(&gone).filter_map(|(write, gone)| match &write.what {
            Bytes::Rows { bytes, .. } if *gone => Some(bytes.as_slice()),
            _ => None,
        });
        let rows: Vec<&[u8]> = of_rows.collect();
        let written = match (&mut self.output, &rows[..]) {
            (None, _) | (_, []) => None,
            (Some(output), [bytes]) => Some(output.write(bytes)),
            (Some(output), _) => Some(output.write(&rows.concat())),
        };
        self.has_written |= written.is_some();
        let is_told = matches!(written, Some(Ok(())));
        let fault = written.and_then(Result::err).map(Fault::from);
        let mut parts = Vec::with_capacity(writes.len());
        for (Queued { outlet, what }, gone) in writes.into_iter().zip(gone) {
            let in_flight = what.in_flight();
            let part = match what {
                Bytes::Rows { bytes, rows, stamps, window_end, ready } => {
                    if let Some(fault) = fault.as_ref().filter(|_| gone) {
                        fault.end(&outlet.query);
                    }
                    self.spare.give(bytes);
                    Part::Rows { rows, stamps, window_end, ready, is_written: gone && is_told }
                }
                _ => Part::End,
            };
            parts.push((outlet, in_flight, part));
        }
        self.under_way.push(parts, is_told, clock.now());
    }

    /// What is neither rows nor the end of one among several, with nothing under way.
    fn pass(&mut self, Queued { outlet, what }: Queued) {
        let in_flight = what.in_flight();
        match what {
            Bytes::Rows { .. } | Bytes::End => {}
            Bytes::Prepare { .. } if outlet.query.failed() => {}
            Bytes::Prepare { bytes, checkpoint, number, reply } => {
                let prepared = self.output.as_mut().map_or(Ok((OutputPosition::None, None)), |output| {
                    if !bytes.is_empty() {
                        output.write(&bytes)?;
                    }
                    output.prepare(checkpoint).map(|position| (position, output.rest_of_prepare()))
                });
                match prepared {
                    // Who asked may not wait any more.
                    Ok((position, rest)) => drop(reply.send(Prepared { number, position, rest })),
                    Err(error) => Fault::from(error).end(&outlet.query),
                }
            }
            Bytes::Commit { checkpoint } => {
                let committed = self.output.as_mut().map_or(Ok(()), |output| output.commit(checkpoint));
                if let Err(error) = committed {
                    Fault::from(error).end(&outlet.query);
                }
            }
            Bytes::Last { bytes } if self.finish.is_some() && !outlet.query.stopped() => {
                if let Err(fault) = self.finish(&outlet, &bytes) {
                    fault.end(&outlet.query);
                    outlet.closed();
                }
            }
            Bytes::Last { bytes } => {
                // Where all have failed before their first result, what was there is left.
                let completes = !outlet.query.failed() || self.has_kept || self.has_written;
                if let Some(mut output) = self.output.take().filter(|_| completes) {
                    let put = if bytes.is_empty() { Ok(()) } else { output.write(&bytes) };
                    if let Err(error) = put.and_then(|()| output.close()) {
                        Fault::from(error).end(&outlet.query);
                    }
                }
                outlet.closed();
            }
        }
        self.done.push((outlet, in_flight));
    }

    /// Nobody writes to it any more, and a checkpoint is to say so.
    fn finish(&mut self, outlet: &Arc<Outlet>, bytes: &[u8]) -> Result<(), Fault> {
        let Some((finish, number)) = self.finish.take() else { return Ok(()) };
        let mut output = self.output.take();
        if let Some(output) = output.as_mut().filter(|_| !bytes.is_empty()) {
            output.write(bytes)?;
        }
        finish.end(number, outlet, output)
    }
}
