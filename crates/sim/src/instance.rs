use std::collections::VecDeque;

use laxity_graph::{EventTime, ProcessingTime};
use laxity_sched::{Message, Stamps};
use laxity_workload::StageKind;
use rand_core::Rng;
use rand_pcg::Pcg32;

use crate::contents::{Call, Contents, Rows, Sent};
use crate::sleep::Sleeper;
use crate::topology::Place;
use crate::window::Windows;
use crate::{Cut, Rounding};

/// What a message carries besides what the scheduler knows of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    /// Different for every message, rising in order of creation.
    pub id: u64,
    /// When it came to the operator that it waits for.
    pub enqueued: ProcessingTime,
    pub stamps: Stamps,
    /// The way it came, among all; none from outside.
    pub route: Option<u32>,
    /// The watermark that follows the rows; `MIN`: none.
    pub watermark: EventTime,
    /// The watermark before the rows, at their source or window.
    pub before: EventTime,
    /// Of the rows.
    pub event_time: EventTime,
    /// End of the window that they are the result of; `MIN`: none.
    pub window_end: EventTime,
    /// The rows themselves, where they are more than a number.
    pub contents: Option<Rows>,
}

/// One parallel copy of one operator: its state, and what it has in hand.
#[derive(Debug, Default)]
pub(crate) struct Instance {
    /// The watermark that it has told those below.
    pub watermark: Watermark,
    /// The fraction of a row that is not sent yet.
    carry: f64,
    pub windows: Windows,
    pub sleeper: Option<Box<Sleeper>>,
    running: Option<Running>,
    /// t_M and progress of the message in hand, or of the last.
    pub ingested: ProcessingTime,
    pub progress: Watermark,
}

/// A watermark, at first `MIN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Watermark(pub EventTime);

impl Default for Watermark {
    fn default() -> Watermark {
        Watermark(EventTime::MIN)
    }
}

/// The message in hand, over all grants it takes.
#[derive(Debug)]
struct Running {
    part: Part,
    channel: u32,
    /// Not yet started.
    rest: VecDeque<Part>,
    messages: u64,
    bytes: u64,
    /// The fixed part of the cost is paid.
    called: bool,
    /// Closes windows up to here.
    closing: Option<EventTime>,
    /// What the first of them still takes to answer.
    firing_left_ns: Option<f64>,
    /// The operator that was called has left work.
    resuming: bool,
    paused: ProcessingTime,
}

/// A message, or one of several that are worked off as one.
#[derive(Clone, Copy, Debug)]
struct Part {
    rows: u32,
    rows_left: u32,
    watermark: Option<EventTime>,
    body: Body,
}

/// What an instance sends on, not yet given to those it feeds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emitted {
    /// 0: the watermark alone.
    pub rows: u32,
    pub watermark: EventTime,
    pub before: EventTime,
    pub event_time: EventTime,
    pub window_end: EventTime,
    /// t_M of the last row of the window.
    pub last_ingested: ProcessingTime,
    pub stamps: Stamps,
    pub contents: Option<Rows>,
}

/// What one grant does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    pub cpu_ns: u64,
    /// Before it works.
    pub sleep_ns: u64,
    pub rows_in: u32,
    /// Not done with the message.
    pub more: bool,
    pub late_rows: u64,
}

/// How the runs of all instances are cut and rounded.
#[derive(Debug)]
pub(crate) struct Manner {
    pub cut: Cut,
    pub quantum_ns: u64,
    pub rounding: Rounding,
    pub random: Pcg32,
}

impl Instance {
    /// Takes a message in hand.
    pub fn accept(&mut self, message: &Message<Body>, now: ProcessingTime) {
        self.ingested = message.ingested;
        self.progress = Watermark(message.progress);
        self.running = Some(Running {
            part: Part::of(message, now),
            channel: message.channel,
            rest: VecDeque::new(),
            messages: 1,
            bytes: message.bytes,
            called: false,
            closing: None,
            firing_left_ns: None,
            resuming: false,
            paused: now,
        });
    }

    /// Takes another message of the same channel in hand, to be worked off after the first as one batch.
    pub fn accept_more(&mut self, message: &Message<Body>, now: ProcessingTime) {
        let Some(running) = &mut self.running else { return };
        running.rest.push_back(Part::of(message, now));
        self.ingested = self.ingested.max(message.ingested);
        self.progress = self.progress.max(Watermark(message.progress));
        running.messages += 1;
        running.bytes += message.bytes;
    }

    /// Goes on with what it has in hand.
    pub fn unpause(&mut self, now: ProcessingTime) {
        if let Some(running) = &mut self.running {
            let waited_ns = now.since_ns(running.paused);
            running.part.body.stamps.queue_ns += waited_ns;
            running.rest.iter_mut().for_each(|part| part.body.stamps.queue_ns += waited_ns);
        }
    }

    /// The grant is over at `now`, having begun at `started`. Messages
    /// and bytes that are done with.
    pub fn finish(&mut self, more: bool, started: ProcessingTime, now: ProcessingTime) -> Option<(u64, u64)> {
        if more {
            let elapsed_ns = now.since_ns(started);
            if let Some(running) = &mut self.running {
                running.part.body.stamps.execute_ns += elapsed_ns;
                running.rest.iter_mut().for_each(|part| part.body.stamps.execute_ns += elapsed_ns);
                running.paused = now;
            }
            return None;
        }
        self.running.take().map(|running| (running.messages, running.bytes))
    }

    /// Rows in hand that were not looked at yet.
    pub fn rows_left(&self) -> u64 {
        self.running.as_ref().map_or(0, |running| running.rows_left().into())
    }

    /// Works for about a quantum, and says how long it takes. What comes of it goes to `emitted`, which is given
    /// to those below when that time is over.
    pub fn advance(
        &mut self,
        place: &Place,
        channels: &mut [EventTime],
        manner: &mut Manner,
        emitted: &mut Vec<Emitted>,
    ) -> Step {
        let Some(mut running) = self.running.take() else { return Step::default() };
        let (budget_ns, rows_min) = manner.budget();
        let mut step = Step::default();
        let mut used_ns = 0.0;
        let rows = running.rows_left();
        if !running.called && rows > 0 {
            used_ns += place.cost.fixed_ns;
            step.rows_in = rows;
            running.called = true;
        }
        loop {
            if running.part.rows_left > 0 {
                let left_ns = budget_ns - used_ns - step.sleep_ns as f64;
                let rows = running.part.rows_within(left_ns, place.cost.per_row_ns, rows_min);
                used_ns += place.cost.per_row_ns * f64::from(rows);
                running.part.rows_left -= rows;
                if let Some(sleeper) = &mut self.sleeper {
                    step.sleep_ns = step.sleep_ns.saturating_add(sleeper.sleep_ns(rows));
                }
                step.late_rows += self.take_rows(place, &running.part.body, rows, manner, emitted);
                if running.part.rows_left > 0 {
                    step.more = true;
                    break;
                }
                if place.kind == StageKind::Sink {
                    let body = &running.part.body;
                    emitted.push(Emitted { contents: body.contents, ..Emitted::of(body, running.part.rows) });
                }
            }
            if let Some(watermark) = running.part.watermark.take() {
                let channel = &mut channels[running.channel as usize];
                *channel = (*channel).max(watermark);
                let combined = channels.iter().copied().min().unwrap_or(watermark);
                if combined > self.watermark.0 {
                    running.closing = Some(combined);
                }
                if !running.called {
                    let closes = running.closing.and_then(|watermark| self.windows.closed(watermark));
                    used_ns += if closes.is_some() { place.cost.fixed_ns } else { place.cost.watermark_ns };
                    running.called = true;
                }
            }
            if let Some(watermark) = running.closing {
                let budget_ns = budget_ns - step.sleep_ns as f64;
                if !self.close(place, &mut running, watermark, budget_ns, &mut used_ns, emitted) {
                    step.more = true;
                    break;
                }
                running.closing = None;
                self.watermark = Watermark(watermark);
                let body = &running.part.body;
                emitted.push(Emitted { watermark, ..Emitted::of(body, 0) });
            }
            match running.rest.pop_front() {
                Some(part) => running.part = part,
                None => break,
            }
        }
        step.cpu_ns = used_ns.round() as u64;
        self.running = Some(running);
        step
    }

    /// As [`Instance::advance`], with an operator that is called instead of a stage that says what it would do.
    ///
    /// # Errors
    /// What the operator says.
    pub fn advance_called(
        &mut self,
        operator: u32,
        place: &Place,
        manner: &Manner,
        contents: &mut dyn Contents,
        emitted: &mut Vec<Emitted>,
    ) -> Result<Step, String> {
        let Some(mut running) = self.running.take() else { return Ok(Step::default()) };
        let (budget_ns, rows_min) = manner.budget();
        let mut step = Step::default();
        let mut used_ns = 0.0;
        let mut sent = Vec::new();
        if !running.called {
            step.rows_in = running.rows_left();
        }
        while let Some(call) = running.next_call(budget_ns - used_ns, place.cost.per_row_ns, rows_min) {
            let answer = contents.call(operator, call, &mut sent)?;
            running.resuming = answer.more;
            step.late_rows += answer.late_rows;
            let rows_out = self.tell(&running.part.body, &mut sent, emitted);
            let fixed_ns = if running.called { 0.0 } else { place.cost.fixed_ns };
            used_ns += match call {
                Call::Rows { count, .. } => fixed_ns + place.cost.per_row_ns * f64::from(count),
                Call::Watermark { .. } if rows_out == 0 && !answer.more => {
                    if running.called {
                        0.0
                    } else {
                        place.cost.watermark_ns
                    }
                }
                Call::Watermark { .. } | Call::Resume => {
                    fixed_ns + place.cost.per_row_ns * f64::from(rows_out)
                }
            };
            running.called = true;
            if used_ns >= budget_ns && running.has_more() {
                step.more = true;
                break;
            }
        }
        step.cpu_ns = used_ns.round() as u64;
        self.running = Some(running);
        Ok(step)
    }

    /// Takes down what a call has sent. How many rows.
    fn tell(&mut self, body: &Body, sent: &mut Vec<Sent>, emitted: &mut Vec<Emitted>) -> u32 {
        let mut rows_out = 0;
        for piece in sent.drain(..) {
            match piece {
                Sent::Rows { rows, count, ingested, window_end } => {
                    rows_out += count;
                    emitted.push(Emitted {
                        before: self.watermark.0,
                        window_end: window_end.unwrap_or(body.window_end),
                        last_ingested: ingested.unwrap_or(ProcessingTime::ZERO),
                        contents: Some(rows),
                        ..Emitted::of(body, count)
                    });
                }
                Sent::Watermark(watermark) => {
                    if watermark > self.watermark.0 {
                        self.watermark = Watermark(watermark);
                        emitted.push(Emitted { watermark, ..Emitted::of(body, 0) });
                    }
                }
            }
        }
        rows_out
    }

    /// Rows go through, or into windows. How many of them were too late.
    fn take_rows(
        &mut self,
        place: &Place,
        body: &Body,
        rows: u32,
        manner: &mut Manner,
        emitted: &mut Vec<Emitted>,
    ) -> u64 {
        match (&place.kind, place.window) {
            (StageKind::Window { .. }, Some(shape)) => {
                let rows = u64::from(rows);
                let taken = self.windows.add(shape, body.event_time, body.before, rows, body.stamps.ingested);
                return if taken { 0 } else { rows };
            }
            (StageKind::Rows { selectivity } | StageKind::Window { selectivity, .. }, _) => {
                let out = self.round(*selectivity, rows.into(), manner);
                if out > 0 {
                    emitted.push(Emitted::of(body, out));
                }
            }
            (StageKind::Source, _) => {
                emitted.push(Emitted { before: self.watermark.0, ..Emitted::of(body, rows) });
            }
            // A result is a batch that is done, so its rows are told at the end.
            (StageKind::Sink, _) => {}
        }
        0
    }

    /// Windows answer. False if time was up before the last had.
    fn close(
        &mut self,
        place: &Place,
        running: &mut Running,
        watermark: EventTime,
        budget_ns: f64,
        used_ns: &mut f64,
        emitted: &mut Vec<Emitted>,
    ) -> bool {
        let StageKind::Window { selectivity, rows_max, fire_per_row_ns, .. } = place.kind else {
            return true;
        };
        while let Some(open) = self.windows.closed(watermark) {
            let left_ns = running.firing_left_ns.unwrap_or(fire_per_row_ns * open.rows as f64);
            let now_ns = left_ns.min((budget_ns - *used_ns).max(0.0));
            *used_ns += now_ns;
            if now_ns < left_ns {
                running.firing_left_ns = Some(left_ns - now_ns);
                return false;
            }
            running.firing_left_ns = None;
            self.windows.pop();
            // A window answers as a whole: no fraction goes to the next, and one that has rows has one to say.
            let exact = (selectivity * open.rows as f64).min(rows_max);
            let out = (exact.round() as u32).max(u32::from(exact > 0.0));
            if out > 0 {
                emitted.push(Emitted {
                    before: self.watermark.0,
                    event_time: EventTime(open.end.0 - 1),
                    window_end: open.end,
                    last_ingested: open.last_ingested,
                    ..Emitted::of(&running.part.body, out)
                });
            }
        }
        true
    }

    fn round(&mut self, selectivity: f64, rows: u64, manner: &mut Manner) -> u32 {
        match manner.rounding {
            Rounding::Carry => self.carry_over(selectivity * rows as f64),
            Rounding::Binomial => {
                // Whole rows for sure, the fraction by chance, every row on its own.
                let whole = selectivity.floor();
                let fraction = selectivity - whole;
                let chance = (fraction * (f64::from(u32::MAX) + 1.0)) as u64;
                let lucky = (0..rows).filter(|_| u64::from(manner.random.next_u32()) < chance).count();
                (whole * rows as f64) as u32 + lucky as u32
            }
        }
    }

    fn carry_over(&mut self, exact: f64) -> u32 {
        let sum = self.carry + exact;
        // A third of a row added three times must be a row.
        let out = (sum + 1e-9).floor();
        self.carry = (sum - out).max(0.0);
        out as u32
    }
}

impl Manner {
    /// How much time a grant has, and how many rows it takes at least.
    fn budget(&self) -> (f64, u32) {
        match self.cut {
            Cut::AtQuantum { rows_min } => (self.quantum_ns as f64, rows_min),
            Cut::Never => (f64::INFINITY, u32::MAX),
        }
    }
}

impl Running {
    /// Rows that were not looked at yet.
    fn rows_left(&self) -> u32 {
        self.part.rows_left + self.rest.iter().map(|part| part.rows_left).sum::<u32>()
    }

    fn has_more(&self) -> bool {
        self.resuming || self.part.rows_left > 0 || self.part.watermark.is_some() || !self.rest.is_empty()
    }

    /// What the operator is called for next: no more rows than there is time for.
    fn next_call(&mut self, left_ns: f64, per_row_ns: f64, rows_min: u32) -> Option<Call> {
        if self.resuming {
            return Some(Call::Resume);
        }
        loop {
            let part = &mut self.part;
            if let Some(rows) = part.body.contents.filter(|_| part.rows_left > 0) {
                let count = part.rows_within(left_ns, per_row_ns, rows_min);
                let first = part.rows - part.rows_left;
                part.rows_left -= count;
                let ingested = part.body.stamps.ingested;
                return Some(Call::Rows { channel: self.channel, rows, first, count, ingested });
            }
            if let Some(watermark) = part.watermark.take() {
                return Some(Call::Watermark { channel: self.channel, watermark });
            }
            self.part = self.rest.pop_front()?;
        }
    }
}

impl Part {
    /// How many of its rows to take in so much time.
    fn rows_within(&self, left_ns: f64, per_row_ns: f64, rows_min: u32) -> u32 {
        let fit = if per_row_ns > 0.0 { left_ns / per_row_ns } else { f64::INFINITY };
        // The cast saturates: a negative room is no room, an infinite one is room for all.
        self.rows_left.min((fit as u32).max(rows_min).max(1))
    }

    fn of(message: &Message<Body>, now: ProcessingTime) -> Part {
        let mut body = message.body;
        body.stamps.queue_ns += now.since_ns(body.enqueued);
        Part {
            rows: message.rows,
            rows_left: message.rows,
            watermark: Some(body.watermark).filter(|&watermark| watermark != EventTime::MIN),
            body,
        }
    }
}

impl Emitted {
    fn of(body: &Body, rows: u32) -> Emitted {
        Emitted {
            rows,
            watermark: EventTime::MIN,
            before: body.before,
            event_time: body.event_time,
            window_end: body.window_end,
            last_ingested: ProcessingTime::ZERO,
            stamps: body.stamps,
            contents: None,
        }
    }

    /// The stamps of what is sent on after a run that worked so long, and was kept from working so long.
    pub fn stamps(&self, execute_ns: u64, wait_ns: u64) -> Stamps {
        let mut stamps = self.stamps;
        stamps.execute_ns += execute_ns;
        stamps.queue_ns += wait_ns;
        if self.last_ingested > stamps.ingested { stamps.released(self.last_ingested) } else { stamps }
    }
}
