//! The traversal that chooses between two others by what they would cost (Aurora §5.3).

use laxity_graph::{OperatorId, ProcessingTime};
use laxity_sched::{CallCost, Dispatch, OperatorSnapshot, Plan};

use crate::min_cost::min_cost;
use crate::min_latency::Kept;
use crate::superbox::{PerUnit, Superbox, selectivity};

/// `auto`: min-cost or min-latency, whichever gives the lower mean latency at what calls and work cost here.
///
/// Aurora §5.3: "using a simple cost model, it is straightforward to compute which traversal algorithm should do
/// better for a particular superbox", from box-processing costs and "more or less fixed" call overheads. The model
/// plays both orders through with what waits and takes the mean time at which a row leaves.
///
/// | Symbol | Here | Unit |
/// | --- | --- | --- |
/// | o, overhead of a box call | [`CallCost::change_ns`] − [`CallCost::stay_ns`] once per turn, the latter per message | ns |
/// | p, cost of a tuple | a per message, b per row of C(n) = a + b·n | ns |
/// | λ, W | rows that come per ns to all units it plans for, and how long they wait for a dispatch, both decayed | 1/ns, ns |
/// | T, n | time that the order takes; rows that wait in the unit | ns |
///
/// Break-even of Fig. 4's tree: min-cost has 12.5 p + 6 o, min-latency 43/6 (p + o), so min-latency wins from
/// p / o = (43/6 − 6) / (12.5 − 43/6) = 0.219 on (0.22 as printed). Min-cost wins where calls are dear, rows
/// cheap, trees deep, or many messages wait per operator, since a call's overhead is then shared.
///
/// Deviates from the paper in that it chooses anew at every dispatch, from measured overhead, and in that it counts
/// those who wait for the dispatch to end: λ·W rows do so from its start and λ·T more come meanwhile, so that
/// an order is charged n · mean + λ·W·T + λ·T²/2. Without them min-latency would be chosen just where its calls
/// overload the processor. Ties go to min-latency, which visits fewer operators. Does badly where load
/// changes within some dozen dispatches. Waiting: every operator with work has its turn in every plan.
#[derive(Debug, Default)]
pub struct Auto {
    kept: PerUnit<Unit>,
    call: CallCost,
    now: ProcessingTime,
    /// λ and W.
    rate: f64,
    wait_ns: f64,
    cheapest: Vec<OperatorId>,
    queues: Queues,
}

#[derive(Debug)]
struct Unit {
    kept: Kept,
    /// Its part of λ, and when that was brought up to date.
    rate: f64,
    since: Option<ProcessingTime>,
}

/// Weight of a dispatch in rates and waits: a memory of some dozen dispatches. Picked.
const SHARE: f64 = 1.0 / 16.0;

impl Plan for Auto {
    fn dispatch(&mut self, dispatch: &Dispatch<'_>) {
        self.call = dispatch.call;
        self.now = dispatch.now;
    }

    fn plan(&mut self, operators: &[OperatorSnapshot], order: &mut Vec<OperatorId>) {
        let unit = self.kept.get(
            operators,
            |unit| unit.kept.superbox.is_of(operators),
            || Unit { kept: Kept::of(operators), rate: 0.0, since: None },
        );
        let before = unit.rate;
        unit.observe(operators, self.now);
        self.rate = (self.rate + unit.rate - before).max(0.0);
        if let Some(wait_ns) = mean_wait_ns(operators, self.now) {
            self.wait_ns += SHARE * (wait_ns - self.wait_ns);
        }
        let kept = &mut unit.kept;
        kept.min_latency(operators, order);
        self.cheapest.clear();
        min_cost(&kept.superbox, &mut self.cheapest);
        let model = Model { superbox: &kept.superbox, operators, call: self.call };
        let charge = |played: Played| {
            let others = self.rate * played.total_ns * (self.wait_ns + played.total_ns / 2.0);
            played.rows * played.mean_ns + others
        };
        let by_latency = charge(model.play(order, &mut self.queues));
        let by_cost = charge(model.play(&self.cheapest, &mut self.queues));
        if by_cost < by_latency {
            std::mem::swap(order, &mut self.cheapest);
        }
    }
}

impl Unit {
    /// What waits at the sources has come since the last dispatch, as every plan empties the unit.
    fn observe(&mut self, operators: &[OperatorSnapshot], now: ProcessingTime) {
        let Some(since) = self.since.replace(now) else { return };
        let elapsed_ns = now.since_ns(since) as f64;
        if elapsed_ns > 0.0 {
            let came: u64 = sources(operators).map(|source| source.queued_rows).sum();
            self.rate += SHARE * (came as f64 / elapsed_ns - self.rate);
        }
    }
}

/// Mean time that the rows at the sources have waited.
fn mean_wait_ns(operators: &[OperatorSnapshot], now: ProcessingTime) -> Option<f64> {
    let waiting = sources(operators).filter_map(|source| Some((source.queued_rows, source.mean_ingested?)));
    let (rows, sum_ns) = waiting.fold((0.0, 0.0), |(rows, sum_ns), (queued, ingested)| {
        (rows + queued as f64, sum_ns + queued as f64 * now.since_ns(ingested) as f64)
    });
    (rows > 0.0).then(|| sum_ns / rows)
}

fn sources(operators: &[OperatorSnapshot]) -> impl Iterator<Item = &OperatorSnapshot> {
    operators.iter().filter(|operator| operator.upstream.is_empty())
}

/// Expected rows and messages in each queue as an order is played through.
#[derive(Debug, Default)]
struct Queues {
    rows: Vec<f64>,
    messages: Vec<f64>,
}

struct Model<'a> {
    superbox: &'a Superbox,
    operators: &'a [OperatorSnapshot],
    call: CallCost,
}

/// What comes of an order.
#[derive(Clone, Copy, Debug)]
struct Played {
    /// Rows that leave an output, and the mean time from now until they do.
    rows: f64,
    mean_ns: f64,
    total_ns: f64,
}

impl Model<'_> {
    fn play(&self, order: &[OperatorId], queues: &mut Queues) -> Played {
        queues.rows.clear();
        queues.messages.clear();
        for operator in self.operators {
            // A bare watermark or a resumption moves on like a row.
            let messages = operator.queued_messages.max(usize::from(operator.has_work()));
            queues.messages.push(messages as f64);
            queues.rows.push((operator.queued_rows as f64).max(messages as f64));
        }
        let turn_ns = self.call.change_ns - self.call.stay_ns;
        let (mut now_ns, mut left, mut left_at) = (0.0, 0.0, 0.0);
        for &id in order {
            let place = self.superbox.place(id);
            let messages = std::mem::take(&mut queues.messages[place]);
            let rows = std::mem::take(&mut queues.rows[place]);
            if messages <= 0.0 {
                continue;
            }
            let operator = &self.operators[place];
            let work_ns = messages * (self.call.stay_ns + operator.cost.0) + rows * operator.cost.1;
            let out = rows * selectivity(operator);
            let below = self.superbox.downstream(place);
            if below.is_empty() {
                // Rows leave one by one as they are worked off: the i-th of n at i / n of the work.
                let steps = messages.max(1.0);
                left_at += out * (now_ns + turn_ns + work_ns * (steps + 1.0) / (2.0 * steps));
                left += out;
            }
            for &below in below {
                queues.rows[below as usize] += out;
                queues.messages[below as usize] += messages.min(out);
            }
            now_ns += turn_ns + work_ns;
        }
        Played { rows: left, mean_ns: if left > 0.0 { left_at / left } else { now_ns }, total_ns: now_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superbox::tests::{figure_4, names};
    use crate::{MinCost, MinLatency};

    /// One tuple at a time, as one would do it by hand: (time of each result, total time).
    fn by_hand(operators: &[OperatorSnapshot], order: &[OperatorId], p: f64, o: f64) -> (Vec<f64>, f64) {
        let mut queued = vec![1; operators.len()];
        let (mut now, mut results) = (0.0, Vec::new());
        for id in order {
            let tuples = std::mem::take(&mut queued[id.index()]);
            now += o;
            for _ in 0..tuples {
                now += p;
                match operators[id.index()].downstream.first() {
                    Some(below) => queued[below.index()] += 1,
                    None => results.push(now),
                }
            }
        }
        (results, now)
    }

    fn orders(operators: &[OperatorSnapshot]) -> [Vec<OperatorId>; 2] {
        let (mut cost, mut latency) = (Vec::new(), Vec::new());
        MinCost::default().plan(operators, &mut cost);
        MinLatency::default().plan(operators, &mut latency);
        [cost, latency]
    }

    /// Fig. 4 with cost p per tuple.
    fn tree(p: f64) -> Vec<OperatorSnapshot> {
        let mut operators = figure_4();
        operators.iter_mut().for_each(|operator| operator.cost = (0.0, p));
        operators
    }

    fn call(o: f64) -> CallCost {
        CallCost { change_ns: o, stay_ns: 0.0 }
    }

    #[test]
    fn totals_and_means_of_figure_4() {
        for (p, o) in [(1.0, 0.0), (0.0, 1.0), (3.0, 7.0)] {
            let operators = tree(p);
            let [cost, latency] = orders(&operators);
            let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
            let near = |got: f64, want: f64| assert!((got - want).abs() < 1e-9, "{got}, expected {want}");

            let (results, total) = by_hand(&operators, &cost, p, o);
            assert_eq!(results.len(), 6);
            near(total, 15.0 * p + 6.0 * o);
            near(mean(&results), 12.5 * p + 6.0 * o);

            let (results, total) = by_hand(&operators, &latency, p, o);
            assert_eq!(results.len(), 6);
            near(total, 15.0 * (p + o));
            near(mean(&results), 43.0 / 6.0 * (p + o));

            let superbox = Superbox::of(&operators);
            let model = Model { superbox: &superbox, operators: &operators, call: call(o) };
            near(model.play(&cost, &mut Queues::default()).mean_ns, 12.5 * p + 6.0 * o);
            near(model.play(&latency, &mut Queues::default()).mean_ns, 43.0 / 6.0 * (p + o));
        }
    }

    fn chosen(p: f64, o: f64) -> String {
        let mut auto = Auto { call: call(o), ..Auto::default() };
        let mut order = Vec::new();
        auto.plan(&tree(p), &mut order);
        names(&order)
    }

    #[test]
    fn the_break_even_of_figure_4_is_at_0_219() {
        assert!((7.0 / 6.0 / (16.0 / 3.0) - 0.219f64).abs() < 0.001);
        let [cost, latency] = orders(&tree(1.0)).map(|order| names(&order));
        assert_eq!(chosen(0.218, 1.0), cost);
        assert_eq!(chosen(0.219, 1.0), latency);
        // In other units it is the same.
        assert_eq!(chosen(218.0, 1000.0), cost);
        assert_eq!(chosen(219.0, 1000.0), latency);
    }

    #[test]
    fn overhead_that_every_message_has_decides_nothing() {
        // 10 ns per message whether the operator changes or not: it adds to p, and p / o is without bound.
        let mut auto = Auto { call: CallCost { change_ns: 10.0, stay_ns: 10.0 }, ..Auto::default() };
        let mut order = Vec::new();
        auto.plan(&tree(0.1), &mut order);
        assert_eq!(names(&order), names(&orders(&tree(0.1))[1]));
    }

    #[test]
    fn from_one_start_both_are_the_same() {
        let mut long = tree(0.3);
        let mut auto = Auto { call: call(1.0), ..Auto::default() };
        let mut plan = |operators: &[OperatorSnapshot]| {
            let mut order = Vec::new();
            auto.plan(operators, &mut order);
            names(&order)
        };
        assert_eq!(plan(&long), names(&orders(&long)[1]));
        // Where all start at one box both ways are the same calls, and the tie goes to min-latency.
        for operator in &mut long {
            (operator.queued_messages, operator.queued_rows) = (0, 0);
        }
        (long[1].queued_messages, long[1].queued_rows) = (100, 100);
        assert_eq!(plan(&long), "b5 b3 b2 b1");
    }
}
