//! The rank by QoS at a size where not every operator can be looked at in every cycle (Aurora §6.2).

use laxity_graph::QosCurve;
use laxity_sched::{OperatorSnapshot, Snapshot};

use crate::applications::Applications;
use crate::calendar::Calendar;
use crate::qos::Urgency;

/// P-tuples rounded to g × s buckets, each cycle looking only at operators that changed or change their bucket.
///
/// Aurora §6.2. Utility, from 0 to the steepest fall of any curve, is divided into g equal parts, slack, from 0 to
/// the longest stretch between critical points, into s. While the rows of an operator wait, its expected output
/// latency grows as time does, so the latencies at which it changes its bucket, computed once per curve, are
/// dates; the next date of each operator stands in a calendar queue. A cycle costs in proportion to the operators
/// that were touched since the last one and to those whose date has come.
///
/// One bucket is round robin; more are closer to the exact order and change oftener. A bucket's number is the
/// priority, so that no list of buckets is walked, however many there are: the paper's cost of walking many
/// empty buckets is not paid here.
#[derive(Debug)]
pub(super) struct Bucketed {
    partition: Partition,
    graph: Option<u64>,
    /// The curves that occur, by weight, and which of them each query has (by place).
    curves: Vec<Curve>,
    curve_of: Vec<u32>,
    /// By place in the snapshot.
    boxes: Vec<Filed>,
    calendar: Calendar,
    /// Places of operators in each unit, where units are queries.
    members: Vec<Vec<u32>>,
    /// Units to look at, each once.
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
    moved: Option<Vec<u32>>,
    work: u64,
}

/// How p-tuples are rounded.
#[derive(Clone, Copy, Debug)]
struct Partition {
    gradients: u32,
    slacks: u32,
    /// The ends of both ranges.
    utility_max: f64,
    slack_max_ns: u64,
}

#[derive(Debug)]
struct Curve {
    qos: QosCurve,
    weight: f64,
    /// From which expected output latency on it is which bucket, by latency; the first from 0.
    thresholds: Vec<(u64, u32)>,
}

/// Where an operator is filed.
#[derive(Clone, Copy, Debug)]
struct Filed {
    bucket: u32,
    works: bool,
}

impl Bucketed {
    pub fn new(gradients: u32, slacks: u32) -> Bucketed {
        Bucketed {
            partition: Partition { gradients, slacks, utility_max: 0.0, slack_max_ns: 0 },
            graph: None,
            curves: Vec::new(),
            curve_of: Vec::new(),
            boxes: Vec::new(),
            calendar: Calendar::default(),
            members: Vec::new(),
            dirty: Vec::new(),
            is_dirty: Vec::new(),
            moved: None,
            work: 0,
        }
    }

    /// Operators filed in the last cycle.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// Units whose priority the last cycle changed; `None`: any may have.
    pub fn moved(&self) -> Option<&[u32]> {
        self.moved.as_deref()
    }

    pub fn cycle(&mut self, snapshot: &Snapshot, applications: &mut Applications, priorities: &mut [f64]) {
        applications.refresh(snapshot);
        self.work = 0;
        let everything = self.graph != Some(snapshot.graph)
            || self.boxes.len() != snapshot.operators.len()
            || self.is_dirty.len() != priorities.len();
        if everything {
            self.prepare(snapshot, priorities.len());
        }
        match &snapshot.changed {
            Some(changed) if !everything => {
                for &id in changed {
                    if let Some(place) = snapshot.place(id) {
                        self.file(place, snapshot, applications);
                    }
                }
                // What lies behind these may have come to cost more, and is another's.
                for place in applications.shared() {
                    self.file(place, snapshot, applications);
                }
            }
            _ => (0..snapshot.operators.len()).for_each(|place| self.file(place, snapshot, applications)),
        }
        while let Some((_, place)) = self.calendar.take_due(snapshot.now.0) {
            self.file(place as usize, snapshot, applications);
        }
        let moved = self.moved.get_or_insert_default();
        moved.clear();
        let last = f64::from(self.partition.gradients) * f64::from(self.partition.slacks);
        for unit in self.dirty.drain(..) {
            self.is_dirty[unit as usize] = false;
            let offers = self.members[unit as usize].iter().map(|&place| self.boxes[place as usize]);
            let best = offers.min_by_key(|filed| (!filed.works, filed.bucket));
            let priority = best.map_or(last, |filed| f64::from(filed.bucket));
            if priorities[unit as usize] != priority {
                priorities[unit as usize] = priority;
                moved.push(unit);
            }
        }
        if everything {
            self.moved = None;
        }
    }

    /// The graph has changed: ranges, thresholds and places anew.
    fn prepare(&mut self, snapshot: &Snapshot, units: usize) {
        self.graph = Some(snapshot.graph);
        self.partition.fit(snapshot);
        self.curves.clear();
        self.curve_of.clear();
        for query in &snapshot.queries {
            let same = |curve: &Curve| curve.weight == query.weight && curve.qos == query.qos;
            // Mostly one curve is shared by many; all different, the last are looked at first.
            let found = self.curves.iter().rev().take(CURVES_COMPARED).position(same);
            let curve = match found {
                Some(back) => self.curves.len() - 1 - back,
                None => {
                    let thresholds = self.partition.thresholds(&query.qos, query.weight);
                    self.curves.push(Curve { qos: query.qos.clone(), weight: query.weight, thresholds });
                    self.curves.len() - 1
                }
            };
            self.curve_of.push(curve as u32);
        }
        self.boxes.clear();
        self.boxes.resize(snapshot.operators.len(), Filed { bucket: 0, works: false });
        self.calendar = Calendar::default();
        self.members.iter_mut().for_each(Vec::clear);
        self.members.resize_with(units, Vec::new);
        self.dirty.clear();
        self.dirty.extend(0..units as u32);
        self.is_dirty.clear();
        self.is_dirty.resize(units, true);
        let by_query = snapshot.unit.is_query();
        for (place, operator) in snapshot.operators.iter().enumerate() {
            if let Some(members) = self.members.get_mut(operator.unit as usize) {
                members.push(place as u32);
            }
            // Idle ones in the middle of a query never speak for it.
            if by_query && !operator.upstream.is_empty() {
                self.boxes[place].bucket = u32::MAX;
            }
        }
    }

    /// Puts the operator into its bucket, and its next change into the calendar.
    fn file(&mut self, place: usize, snapshot: &Snapshot, applications: &Applications) {
        self.work += 1;
        let operator = &snapshot.operators[place];
        let filed = match applications.others(place) {
            Some(_) => self.file_shared(place, snapshot, applications),
            None => {
                let own_ns = operator.own_cost_ns().saturating_add(operator.path_cost_ns);
                let Some(query) = snapshot.query_place(operator.query) else { return };
                let curve = &self.curves[self.curve_of[query] as usize];
                let (bucket, next) = curve.at(operator, own_ns, snapshot.now.0);
                self.calendar_entry(place, operator, next);
                Filed { bucket, works: operator.has_work() }
            }
        };
        let idle_inside = snapshot.unit.is_query() && !filed.works && !operator.upstream.is_empty();
        let filed = if idle_inside { Filed { bucket: u32::MAX, ..filed } } else { filed };
        let before = std::mem::replace(&mut self.boxes[place], filed);
        if (before.bucket, before.works) != (filed.bucket, filed.works) {
            let unit = operator.unit as usize;
            if unit < self.is_dirty.len() && !std::mem::replace(&mut self.is_dirty[unit], true) {
                self.dirty.push(unit as u32);
            }
        }
    }

    /// As [`file`](Bucketed::file), for one with several applications: its bucket can change when that of any of
    /// them does.
    fn file_shared(&mut self, place: usize, snapshot: &Snapshot, applications: &Applications) -> Filed {
        let operator = &snapshot.operators[place];
        let mut next: Option<u64> = None;
        for (application, behind_ns) in applications.others(place).into_iter().flatten() {
            let own_ns = operator.own_cost_ns().saturating_add(behind_ns);
            let Some(query) = snapshot.query_place(application) else { continue };
            let curve = &self.curves[self.curve_of[query] as usize];
            let (_, date) = curve.at(operator, own_ns, snapshot.now.0);
            next = next.into_iter().chain(date).min();
        }
        self.calendar_entry(place, operator, next);
        let urgency = applications.urgency(place, snapshot);
        let bucket = urgency.map_or(u32::MAX, |urgency| self.partition.bucket(urgency));
        Filed { bucket, works: operator.has_work() }
    }

    fn calendar_entry(&mut self, place: usize, operator: &OperatorSnapshot, next: Option<u64>) {
        match next {
            Some(date) if operator.mean_ingested.is_some() => self.calendar.set(place as u32, date),
            _ => self.calendar.cancel(place as u32),
        }
    }
}

/// Curves that a query's is compared with before it gets thresholds of its own.
const CURVES_COMPARED: usize = 16;

impl Curve {
    /// The bucket now, and the time at which it changes if the same rows wait on.
    fn at(&self, operator: &OperatorSnapshot, own_ns: u64, now_ns: u64) -> (u32, Option<u64>) {
        let since = operator.mean_ingested.map_or(now_ns, |ingested| ingested.0);
        let eol_ns = now_ns.saturating_sub(since).saturating_add(own_ns);
        let after = self.thresholds.partition_point(|&(from_ns, _)| from_ns <= eol_ns);
        let next = self.thresholds.get(after);
        let date = next.map(|&(from_ns, _)| since.saturating_add(from_ns.saturating_sub(own_ns)));
        (self.thresholds[after - 1].1, date)
    }
}

impl Partition {
    /// Takes the ranges from the curves that there are.
    fn fit(&mut self, snapshot: &Snapshot) {
        (self.utility_max, self.slack_max_ns) = (0.0, 0);
        for query in &snapshot.queries {
            let mut before = 0;
            for point in query.qos.points() {
                let utility = query.weight * query.qos.loss_per_ns(point.latency_ns);
                self.utility_max = self.utility_max.max(utility);
                self.slack_max_ns = self.slack_max_ns.max(point.latency_ns - before);
                before = point.latency_ns;
            }
        }
    }

    /// The higher the utility and the smaller the slack, the lower the number.
    fn bucket(&self, urgency: Urgency) -> u32 {
        let gradient = self.gradient(urgency.utility);
        (self.gradients - 1 - gradient) * self.slacks + self.slack(urgency.slack_ns)
    }

    fn gradient(&self, utility: f64) -> u32 {
        if self.utility_max <= 0.0 {
            return 0;
        }
        let part = utility / self.utility_max * f64::from(self.gradients);
        (part as u32).min(self.gradients - 1)
    }

    fn slack(&self, slack_ns: u64) -> u32 {
        if self.slack_max_ns == 0 {
            return 0;
        }
        let part = u128::from(slack_ns) * u128::from(self.slacks) / u128::from(self.slack_max_ns);
        u32::try_from(part).unwrap_or(u32::MAX).min(self.slacks - 1)
    }

    /// The gradient- and slack-latency graphs of Fig. 12 in one.
    fn thresholds(&self, qos: &QosCurve, weight: f64) -> Vec<(u64, u32)> {
        let mut steps: Vec<(u64, u32)> = Vec::new();
        let mut from_ns = 0;
        for end_ns in qos.points().iter().map(|point| point.latency_ns) {
            if end_ns == from_ns {
                continue;
            }
            let gradient = self.gradient(weight * qos.loss_per_ns(from_ns));
            let widest = self.slack(end_ns - from_ns);
            steps.push((from_ns, self.bucket_of_parts(gradient, widest)));
            for slack in (0..widest).rev() {
                // The largest slack that is still in this part.
                let above = u128::from(slack + 1) * u128::from(self.slack_max_ns);
                let most_ns = above.div_ceil(u128::from(self.slacks)) as u64 - 1;
                steps.push((end_ns - most_ns, self.bucket_of_parts(gradient, slack)));
            }
            from_ns = end_ns;
        }
        // Past the last point nothing is lost any more, and nothing is near.
        steps.push((from_ns, self.bucket_of_parts(0, 0)));
        let mut thresholds: Vec<(u64, u32)> = Vec::with_capacity(steps.len());
        for step in steps {
            match thresholds.last_mut() {
                Some(last) if last.0 == step.0 => *last = step,
                Some(last) if last.1 == step.1 => (),
                _ => thresholds.push(step),
            }
        }
        thresholds
    }

    fn bucket_of_parts(&self, gradient: u32, slack: u32) -> u32 {
        (self.gradients - 1 - gradient) * self.slacks + slack
    }
}
