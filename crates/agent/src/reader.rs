//! Engines are read apart from the agent's loop: a round goes by the last look there is, however old it is.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::agent::{JobWish, wishes_of};
use crate::clock::since_boot_ns;
use crate::linux::process_status;
use crate::metric::{Metric, MetricGraph, Values};
use crate::{Adapter, Topology};

/// Reads one engine on a thread of its own: an engine that hangs keeps no round waiting, and none of the others.
#[derive(Debug)]
pub(crate) struct Reader {
    engine: String,
    requests: Sender<Arc<[JobWish]>>,
    answers: Receiver<Look>,
    last: Look,
    /// When it was asked for what it has not answered yet.
    asked_ns: Option<u64>,
    /// It is not read again before.
    rests_until_ns: u64,
    is_said_silent: bool,
    /// What it last failed with, so that it is said once.
    failure: Option<String>,
}

/// What an engine looked like at one instant.
#[derive(Debug, Default)]
pub(crate) struct Look {
    pub topology: Topology,
    pub values: BTreeMap<Metric, Values>,
    /// Its processes here, with when they started: an id may be another's by now.
    processes: BTreeMap<u32, u64>,
    notes: Vec<String>,
    failure: Option<String>,
    at_ns: u64,
    /// How long it took to read; 0 where something new was found, which is to be read again at once.
    took_ns: u64,
}

/// An engine that takes longer to be read is said to.
const SILENCE: Duration = Duration::from_secs(5);

/// Of the time, reading takes so much at most where it takes long: an engine answers out of the CPU of its queries.
const READING_SHARE: f64 = 0.1;

/// So often it is read all the same: after 5 s of silence an engine's counters are old.
const READING_GAP_MAX: Duration = Duration::from_secs(3);

/// From one reading to the next, where it takes so long.
fn gap_ns(took_ns: u64) -> u64 {
    ((took_ns as f64 / READING_SHARE) as u64).min(READING_GAP_MAX.as_nanos() as u64)
}

impl Reader {
    /// # Errors
    /// If there can be no more threads.
    pub fn start(adapter: Box<dyn Adapter>, graph: MetricGraph) -> io::Result<Reader> {
        let engine = adapter.engine().to_owned();
        let (requests, asked) = channel();
        let (answer, answers) = channel();
        std::thread::Builder::new()
            .name("laxity-reader".into())
            .spawn(move || read(adapter, graph, &asked, &answer))?;
        Ok(Reader {
            engine,
            requests,
            answers,
            last: Look::default(),
            asked_ns: None,
            rests_until_ns: 0,
            is_said_silent: false,
            failure: None,
        })
    }

    /// Asks for another look, unless one is under way or was too costly to be had again so soon.
    pub fn ask(&mut self, jobs: &Arc<[JobWish]>) {
        let now_ns = since_boot_ns();
        if self.asked_ns.is_none()
            && now_ns >= self.rests_until_ns
            && self.requests.send(jobs.clone()).is_ok()
        {
            self.asked_ns = Some(now_ns);
        }
    }

    /// Takes the look that was asked for, if it comes until then. Answers what to say to the user.
    pub fn wait(&mut self, until_ns: u64) -> Vec<String> {
        let mut notes = Vec::new();
        let Some(asked_ns) = self.asked_ns else { return notes };
        let left = Duration::from_nanos(until_ns.saturating_sub(since_boot_ns()));
        match self.answers.recv_timeout(left) {
            Ok(look) => {
                self.asked_ns = None;
                if std::mem::take(&mut self.is_said_silent) && look.failure.is_none() {
                    notes.push(format!("{} answers again", self.engine));
                }
                if look.failure != self.failure {
                    notes.push(match &look.failure {
                        Some(failure) => format!("{failure} (the last plan stays)"),
                        None => format!("{} answers again", self.engine),
                    });
                }
                self.failure.clone_from(&look.failure);
                self.rests_until_ns = asked_ns + gap_ns(look.took_ns);
                self.last = look;
                notes.append(&mut self.last.notes);
            }
            Err(RecvTimeoutError::Timeout) => {
                let silent_ns = since_boot_ns() - asked_ns;
                if u128::from(silent_ns) > SILENCE.as_nanos()
                    && !std::mem::replace(&mut self.is_said_silent, true)
                {
                    notes.push(format!(
                        "{} has not answered for {} s (the last plan stays)",
                        self.engine,
                        SILENCE.as_secs()
                    ));
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                if !std::mem::replace(&mut self.is_said_silent, true) {
                    notes.push(format!("the thread that reads {} has ended", self.engine));
                }
            }
        }
        notes
    }

    /// As it was last seen.
    pub fn last(&self) -> &Look {
        &self.last
    }

    /// Its processes that still run.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        let runs = |(pid, started): (&u32, &u64)| {
            process_status(*pid).is_ok_and(|status| status.started_ticks == *started).then_some(*pid)
        };
        self.last.processes.iter().filter_map(runs)
    }
}

impl Look {
    /// A metric as it is now: what was read a while ago is so much older.
    pub fn values(&self, metric: Metric, now_ns: u64) -> Values {
        let mut values = self.values.get(&metric).cloned().unwrap_or_default();
        if metric == Metric::SampleAgeMs {
            let aged_ms = self.age_ms(now_ns);
            values.iter_mut().flatten().for_each(|age_ms| *age_ms += aged_ms);
        }
        values
    }

    /// How long ago it was.
    pub fn age_ms(&self, now_ns: u64) -> f64 {
        now_ns.saturating_sub(self.at_ns) as f64 / 1e6
    }
}

fn read(
    mut adapter: Box<dyn Adapter>,
    mut graph: MetricGraph,
    asked: &Receiver<Arc<[JobWish]>>,
    answer: &Sender<Look>,
) {
    for jobs in asked {
        let began_ns = since_boot_ns();
        let refreshed = adapter.refresh(&|name| wishes_of(&jobs, name));
        let is_new = matches!(refreshed, Ok(true));
        let failure = refreshed.err().map(|error| error.to_string());
        let topology = adapter.topology().clone();
        let at_ns = since_boot_ns();
        graph.update(&mut *adapter, &topology, at_ns as f64 / 1e6);
        let pids: BTreeSet<u32> = adapter.processes();
        let started = |pid: u32| Some((pid, process_status(pid).ok()?.started_ticks));
        let look = Look {
            values: Metric::ALL.into_iter().map(|metric| (metric, graph.values(metric).to_vec())).collect(),
            processes: pids.into_iter().filter_map(started).collect(),
            notes: adapter.notes(),
            topology,
            failure,
            at_ns,
            took_ns: if is_new { 0 } else { since_boot_ns() - began_ns },
        };
        if answer.send(look).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_costly_to_read_is_read_seldom() {
        let ms = 1_000_000;
        assert_eq!([0, 20 * ms, 200 * ms, 2_000 * ms].map(gap_ns), [0, 200 * ms, 2_000 * ms, 3_000 * ms]);
    }
}
