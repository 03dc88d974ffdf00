//! The checker that follows counts of rows, operator by operator: none is lost, none is made up.

use laxity_graph::EventTime;
use laxity_workload::StageKind;

use super::{Ending, Found};
use crate::event::Event;
use crate::topology::Topology;
use crate::{Rounding, Setup};

/// Rows in are rows out, late, held in windows, or queued; watermarks only rise.
#[derive(Debug)]
pub(super) struct Rows {
    operators: Vec<OperatorRows>,
    /// By route: who sends along it, and the channels it ends at.
    routes: Vec<RouteRows>,
    /// By channel of all operators: rows that came by it.
    arrived: Vec<u64>,
    exact: bool,
    /// Of operators that are called, only sinks are known to pass on all they take.
    only_sinks: bool,
}

#[derive(Debug)]
struct OperatorRows {
    kind: StageKind,
    has_window: bool,
    /// First of its channels among all.
    first_channel: u32,
    waiting: u64,
    taken: u64,
    sent: u64,
    late: u64,
    watermark: EventTime,
}

#[derive(Debug)]
struct RouteRows {
    producer: u32,
    channels: Vec<u32>,
}

impl Rows {
    pub fn new(topology: &Topology, setup: &Setup) -> Rows {
        let operators = topology.operators.iter().map(|place| OperatorRows {
            kind: place.kind.clone(),
            has_window: place.window.is_some(),
            first_channel: place.channels.start,
            waiting: 0,
            taken: 0,
            sent: 0,
            late: 0,
            watermark: EventTime::MIN,
        });
        let mut routes = Vec::new();
        for producer in 0..topology.operators.len() as u32 {
            for route in topology.routes(producer) {
                let targets = route.first..route.first + route.targets;
                let channels = targets.map(|to| topology.operator(to).channels.start + route.channel);
                routes.push(RouteRows { producer, channels: channels.collect() });
            }
        }
        Rows {
            operators: operators.collect(),
            routes,
            arrived: vec![0; topology.channels],
            exact: setup.rounding == Rounding::Carry,
            only_sinks: topology.carries_rows,
        }
    }

    pub fn on(&mut self, event: &Event, found: &mut Found) {
        match *event {
            Event::Enqueued { operator, channel, rows, .. } => {
                let state = &mut self.operators[operator as usize];
                state.waiting += u64::from(rows);
                self.arrived[(state.first_channel + channel) as usize] += u64::from(rows);
            }
            Event::Sent { operator, rows } => self.operators[operator as usize].sent += u64::from(rows),
            Event::Watermark { operator, watermark } => {
                let state = &mut self.operators[operator as usize];
                if watermark <= state.watermark {
                    found.say("watermarks only rise", || {
                        format!("operator {operator} said {watermark} after {}", state.watermark)
                    });
                }
                state.watermark = watermark;
            }
            Event::Finished { operator, rows_in, late_rows, more, .. } => {
                let state = &mut self.operators[operator as usize];
                state.taken += u64::from(rows_in);
                state.late += late_rows;
                match state.waiting.checked_sub(rows_in.into()) {
                    Some(waiting) => state.waiting = waiting,
                    None => found.say("rows taken in were enqueued", || {
                        format!("operator {operator} took {rows_in} rows of {}", state.waiting)
                    }),
                }
                if !more && (state.kind == StageKind::Sink || !self.only_sinks) {
                    state.check_sent(operator, self.exact, found);
                }
            }
            _ => {}
        }
    }

    pub fn end(&self, ending: &Ending, found: &mut Found) {
        for (operator, state) in self.operators.iter().enumerate() {
            let at = |counts: &[u64]| counts.get(operator).copied().unwrap_or(0);
            let windows = matches!(state.kind, StageKind::Window { .. }) && state.has_window;
            if !windows {
                continue;
            }
            let (held, closed) = (at(&ending.held_rows), at(&ending.closed_rows));
            let in_hand = ending.in_hand_rows.get(operator).copied().unwrap_or(0);
            let explained = (held + closed + state.late) as i64 + in_hand;
            if explained != state.taken as i64 {
                found.say("rows taken in are held, late, or of a closed window", || {
                    format!(
                        "operator {operator} took {}: {held} held, {closed} of closed windows, {} late",
                        state.taken, state.late
                    )
                });
            }
        }
        for (number, route) in self.routes.iter().enumerate() {
            let arrived: u64 = route.channels.iter().map(|&channel| self.arrived[channel as usize]).sum();
            let travelling = ending.travelling_rows.get(number).copied().unwrap_or(0);
            let sent = self.operators[route.producer as usize].sent;
            if arrived + travelling != sent {
                found.say("rows that are sent arrive", || {
                    format!(
                        "operator {} sent {sent}, {arrived} arrived, {travelling} are on the way",
                        route.producer
                    )
                });
            }
        }
    }
}

impl OperatorRows {
    fn check_sent(&self, operator: u32, exact: bool, found: &mut Found) {
        let expected = match self.kind {
            StageKind::Source | StageKind::Sink => self.taken as f64,
            StageKind::Rows { selectivity } if exact => self.taken as f64 * selectivity,
            StageKind::Window { selectivity, .. } if exact && !self.has_window => {
                self.taken as f64 * selectivity
            }
            _ => return,
        };
        // Less than one row is still to come; sums of fractions are off by rounding.
        let owed = expected - self.sent as f64;
        let rounding = 1e-6 + 1e-9 * expected;
        if !(-rounding..1.0 + rounding).contains(&owed) {
            found.say("rows out are rows in times selectivity", || {
                format!("operator {operator} took {} and sent {}, not {expected}", self.taken, self.sent)
            });
        }
    }
}
