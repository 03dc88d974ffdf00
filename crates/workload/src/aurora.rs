//! The scheduling testbed of Aurora (Carney et al., "Operator Scheduling in a Data Stream Manager", VLDB 2003,
//! section 5.1): trees of one generic stateless box whose cost and selectivity are set.
//!
//! A tree is rooted at its output box; the leaves read the inputs. Inputs and outputs cost nothing here: what a
//! box call costs beside its tuples is the simulator's overhead. The paper gives no bytes per tuple and no spacing of
//! arrivals; both are ours.

use std::ops::RangeInclusive;
use std::time::Duration;

use laxity_graph::{
    Dataflow, EventTime, Input, LatencyTarget, NodeId, ProcessingTime, QosCurve, QuerySettings,
};
use rand_distr::{Distribution, Uniform};
use rand_pcg::Pcg64;

use crate::flow::{Flow, forward};
use crate::{
    Arrival, Batching, Cost, Delay, Feed, QueryModel, Rate, Recorded, Spacing, Stage, Stream, Watermarks,
    Workload, WorkloadError, seed,
};

/// Trees of boxes, with the paper's defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Trees {
    /// Number of trees. Default 5 (Fig. 5).
    pub apps: usize,
    /// Levels of boxes. Default 5.
    pub depth: usize,
    /// Children of a box on average. Default 3.
    pub fan_out: usize,
    /// Draw the number of children from 1 … 2 · fan-out − 1, instead of the same for every box. Default on:
    /// "average number of children".
    pub is_drawn: bool,
    /// Rows out per row in, of every box. Default 1.
    pub selectivity: f64,
    /// CPU time per tuple, drawn for every box. Default 0.1 ms to 1 ms.
    pub cost_ns: RangeInclusive<f64>,
    /// Share of all CPU time that processing all input needs. Default 0.5.
    pub capacity: f64,
    /// Cores that the capacity is of. Default 1.
    pub cores: f64,
    /// Tuples that arrive together (burst size of Fig. 8). Default 1.
    pub burst: u32,
    /// Default Poisson: open loop.
    pub spacing: Spacing,
    /// Default none.
    pub qos: Qos,
}

/// Utility curves of applications.
#[derive(Clone, Debug, PartialEq)]
pub enum Qos {
    /// Only the default latency target.
    None,
    /// [`tight`] or [`loose`] with equal odds (Fig. 11).
    TightOrLoose,
    /// Full utility up to a latency drawn from the first range, none from a latency that is further off by as much
    /// as drawn from the second. For bucketing, whose curves the paper does not give.
    Drawn {
        /// Latency of the last full utility.
        good: RangeInclusive<Duration>,
        /// From there to no utility.
        fall: RangeInclusive<Duration>,
    },
}

/// {(0, 1), (1 ms, 1), (1 s, 0)}, section 6.1.
pub fn tight() -> QosCurve {
    curve(Duration::from_millis(1), Duration::from_secs(1))
}

/// {(0, 1), (4 s, 1), (5 s, 0)}, section 6.1.
pub fn loose() -> QosCurve {
    curve(Duration::from_secs(4), Duration::from_secs(5))
}

impl Default for Trees {
    fn default() -> Trees {
        Trees {
            apps: 5,
            depth: 5,
            fan_out: 3,
            is_drawn: true,
            selectivity: 1.0,
            cost_ns: 1e5..=1e6,
            capacity: 0.5,
            cores: 1.0,
            burst: 1,
            spacing: Spacing::Poisson,
            qos: Qos::None,
        }
    }
}

impl Trees {
    /// The 20 applications of the QoS experiment (Fig. 11): fan-out 1, depth 5, tight and loose curves.
    pub fn qos() -> Trees {
        Trees { apps: 20, fan_out: 1, qos: Qos::TightOrLoose, ..Trees::default() }
    }

    /// The 200 straight-line applications of five boxes of the bucketing experiment (Fig. 13).
    pub fn straight_lines() -> Trees {
        let ms = Duration::from_millis;
        let qos = Qos::Drawn { good: ms(1)..=ms(4_000), fall: ms(100)..=ms(2_000) };
        Trees { apps: 200, fan_out: 1, qos, ..Trees::default() }
    }

    /// The workload. All inputs have the same rate: the one at which all boxes together need `capacity`.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn build(&self, seed: u64) -> Result<Workload, WorkloadError> {
        self.check()?;
        let trees: Vec<Tree> =
            (0..self.apps).map(|app| self.draw(&mut seed::generator(seed, app as u64))).collect();
        // CPU time per second if every input had one tuple per second.
        let unit_load: f64 = trees.iter().map(|tree| tree.cost_of_inputs_ns(self.selectivity) / 1e9).sum();
        let rows_per_s = self.capacity * self.cores / unit_load;
        let mut inputs = 0;
        let mut queries = Vec::with_capacity(self.apps);
        for (app, tree) in trees.into_iter().enumerate() {
            let mut settings = QuerySettings::named(format!("app {app}"));
            let qos = self.draw_qos(&mut seed::generator(seed::derived(seed, 1), app as u64));
            if let Some(curve) = qos {
                // The last point is the paper's deadline: no utility after it.
                let zero_ns = curve.points().last().map_or(0, |point| point.latency_ns);
                if let Some(target) = LatencyTarget::new(Duration::from_nanos(zero_ns)) {
                    settings.latency_target = target;
                }
                settings.qos = Some(curve);
            }
            let (dataflow, sources) = tree.flow(settings, self.selectivity)?;
            let mut feeds = Vec::with_capacity(sources.len());
            for node in sources {
                let stream = Stream {
                    rate: Rate::constant(rows_per_s),
                    spacing: self.spacing,
                    batching: Batching::Rows(self.burst),
                    delay: Delay::NONE,
                    watermarks: Watermarks::None,
                    ..Stream::constant(rows_per_s, self.burst)
                };
                let arrivals = stream.arrivals(seed::derived(seed::derived(seed, 2), inputs))?;
                inputs += 1;
                feeds.push(Feed { node, instance: 0, arrivals });
            }
            queries.push(QueryModel { dataflow, feeds, deployed: ProcessingTime::ZERO });
        }
        Ok(Workload { name: "aurora trees".into(), queries })
    }

    fn check(&self) -> Result<(), WorkloadError> {
        let refuse = |name, value, expected| {
            Err(WorkloadError::Parameter { workload: "aurora trees", name, value, expected })
        };
        if self.depth == 0 || self.depth > 12 {
            return refuse("depth", self.depth as f64, "1 to 12");
        }
        if self.fan_out == 0 {
            return refuse("fan_out", 0.0, "at least 1");
        }
        let (low, high) = (*self.cost_ns.start(), *self.cost_ns.end());
        if !(low > 0.0 && high >= low && high.is_finite()) {
            return refuse("cost_ns", low, "a range that begins above 0");
        }
        if !(self.capacity > 0.0 && self.capacity.is_finite()) {
            return refuse("capacity", self.capacity, "a number above 0");
        }
        Ok(())
    }

    fn draw(&self, rng: &mut Pcg64) -> Tree {
        let mut tree = Tree { boxes: vec![TreeBox { cost_ns: draw(&self.cost_ns, rng), children: vec![] }] };
        let mut level = vec![0];
        for _ in 1..self.depth {
            let mut next = Vec::new();
            for parent in level {
                let children = if self.is_drawn && self.fan_out > 1 {
                    Uniform::new_inclusive(1, 2 * self.fan_out - 1)
                        .map_or(self.fan_out, |children| children.sample(rng))
                } else {
                    self.fan_out
                };
                for _ in 0..children {
                    let child = tree.boxes.len();
                    tree.boxes.push(TreeBox { cost_ns: draw(&self.cost_ns, rng), children: vec![] });
                    tree.boxes[parent].children.push(child);
                    next.push(child);
                }
            }
            level = next;
        }
        tree
    }

    fn draw_qos(&self, rng: &mut Pcg64) -> Option<QosCurve> {
        match &self.qos {
            Qos::None => None,
            Qos::TightOrLoose => Some(if draw(&(0.0..=1.0), rng) < 0.5 { tight() } else { loose() }),
            Qos::Drawn { good, fall } => {
                let seconds = |range: &RangeInclusive<Duration>| {
                    range.start().as_secs_f64()..=range.end().as_secs_f64()
                };
                let good = Duration::from_secs_f64(draw(&seconds(good), rng));
                let fall = Duration::from_secs_f64(draw(&seconds(fall), rng));
                Some(curve(good, good + fall.max(Duration::from_nanos(1))))
            }
        }
    }
}

/// The tree of Fig. 4, one tuple waiting at each of its six boxes at time 0: b2 and b6 feed the root b1, b3 and b4
/// feed b2, b5 feeds b3. `boxes` has the selectivity and the cost per tuple in ns of b1 to b6.
///
/// # Errors
/// None with finite numbers.
pub fn worked_tree(boxes: [(f64, f64); 6]) -> Result<Workload, WorkloadError> {
    let mut flow = Flow::new(QuerySettings::named("figure 4"), 1);
    let mut feeds = Vec::new();
    let mut placed: Vec<(usize, NodeId)> = Vec::new();
    for (number, children) in
        [(5, vec![]), (3, vec![5]), (4, vec![]), (2, vec![3, 4]), (6, vec![]), (1, vec![2, 6])]
    {
        let source = flow.source(&format!("input of b{number}"), 1, Cost::NONE)?;
        let mut inputs: Vec<Input> = placed
            .iter()
            .filter(|(child, _)| children.contains(child))
            .map(|&(_, node)| forward(node))
            .collect();
        inputs.push(forward(source));
        let (selectivity, cost_ns) = boxes[number - 1];
        let node = flow.rows(&format!("b{number}"), 1, inputs, Cost::per_row(cost_ns), selectivity)?;
        placed.push((number, node));
        let tuple = Arrival {
            at: ProcessingTime::ZERO,
            event_time: EventTime(0),
            rows: 1,
            bytes: 1,
            watermark: None,
        };
        feeds.push(Feed { node: source, instance: 0, arrivals: Box::new(Recorded::new(vec![tuple], None)) });
    }
    if let Some(&(_, root)) = placed.last() {
        flow.sink("output", vec![forward(root)], Cost::NONE)?;
    }
    let query = QueryModel { dataflow: flow.finish(), feeds, deployed: ProcessingTime::ZERO };
    Ok(Workload { name: "aurora figure 4".into(), queries: vec![query] })
}

/// (selectivity, cost) of b1 to b6 as the min-memory example of section 4.1.3 has them, with this unit of cost.
pub fn min_memory_example(unit_ns: f64) -> [(f64, f64); 6] {
    [(0.9, 2.0), (0.4, 2.0), (0.5, 1.0), (1.0, 2.0), (0.4, 3.0), (0.6, 1.0)]
        .map(|(selectivity, cost)| (selectivity, cost * unit_ns))
}

fn curve(good: Duration, zero: Duration) -> QosCurve {
    QosCurve::new([(Duration::ZERO, 1.0), (good, 1.0), (zero, 0.0)])
        .expect("the points rise in latency and fall in utility")
}

fn draw(range: &RangeInclusive<f64>, rng: &mut Pcg64) -> f64 {
    Uniform::new_inclusive(*range.start(), *range.end()).map_or(*range.start(), |uniform| uniform.sample(rng))
}

/// A tree before it is a dataflow: box 0 is the root, children come after their parent.
#[derive(Debug)]
struct Tree {
    boxes: Vec<TreeBox>,
}

#[derive(Debug)]
struct TreeBox {
    cost_ns: f64,
    children: Vec<usize>,
}

impl Tree {
    /// CPU time for one tuple at each leaf, on all of its way to the root.
    fn cost_of_inputs_ns(&self, selectivity: f64) -> f64 {
        // Tuples that reach a box if each leaf gets one; children have higher indices than their parents.
        let mut tuples = vec![0.0; self.boxes.len()];
        let mut cost_ns = 0.0;
        for (index, tree_box) in self.boxes.iter().enumerate().rev() {
            tuples[index] = if tree_box.children.is_empty() {
                1.0
            } else {
                tree_box.children.iter().map(|&child| tuples[child] * selectivity).sum()
            };
            cost_ns += tuples[index] * tree_box.cost_ns;
        }
        cost_ns
    }

    fn flow(
        &self,
        settings: QuerySettings,
        selectivity: f64,
    ) -> Result<(Dataflow<Stage>, Vec<NodeId>), WorkloadError> {
        let mut flow = Flow::new(settings, 100);
        let mut sources = Vec::new();
        let mut nodes = vec![NodeId(0); self.boxes.len()];
        for (index, tree_box) in self.boxes.iter().enumerate().rev() {
            let inputs = if tree_box.children.is_empty() {
                let source = flow.source(&format!("input {index}"), 1, Cost::NONE)?;
                sources.push(source);
                vec![forward(source)]
            } else {
                tree_box.children.iter().map(|&child| forward(nodes[child])).collect()
            };
            let cost = Cost::per_row(tree_box.cost_ns);
            nodes[index] = flow.rows(&format!("box {index}"), 1, inputs, cost, selectivity)?;
        }
        flow.sink("output", vec![forward(nodes[0])], Cost::NONE)?;
        Ok((flow.finish(), sources))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offered_load;

    #[test]
    fn capacity_is_the_offered_load() {
        for trees in [
            Trees { capacity: 0.9, ..Trees::default() },
            Trees { capacity: 3.2, cores: 4.0, ..Trees::qos() },
            Trees { selectivity: 0.6, is_drawn: false, apps: 1, ..Trees::default() },
        ] {
            let load = offered_load(&trees.build(1).unwrap()).unwrap().cores();
            assert!((load / (trees.capacity * trees.cores) - 1.0).abs() < 1e-9, "{load}");
        }
    }

    #[test]
    fn full_trees_have_all_their_boxes() {
        let trees = Trees { apps: 2, is_drawn: false, ..Trees::default() };
        for query in trees.build(0).unwrap().queries {
            // 1 + 3 + 9 + 27 + 81 boxes, 81 inputs, 1 output.
            assert_eq!(query.dataflow.nodes().len(), 121 + 81 + 1);
            assert_eq!(query.feeds.len(), 81);
            let costs = query.dataflow.nodes().iter().map(|node| node.stage.cost.per_row_ns);
            assert!(costs.filter(|&cost| cost > 0.0).all(|cost| (1e5..=1e6).contains(&cost)));
        }
    }

    #[test]
    fn drawn_trees_have_the_fan_out_on_average() {
        let trees = Trees { apps: 2_000, depth: 2, ..Trees::default() };
        let leaves: usize = trees.build(3).unwrap().queries.iter().map(|query| query.feeds.len()).sum();
        // 1 … 5 children: mean 3, variance 2.
        assert!((leaves as f64 / 2_000.0 - 3.0).abs() < 6.0 * (2.0_f64 / 2_000.0).sqrt());
    }

    #[test]
    fn worked_tree_is_figure_4() {
        let workload = worked_tree([(1.0, 7.0); 6]).unwrap();
        let flow = &workload.queries[0].dataflow;
        let name = |id: NodeId| flow.node(id).name.as_str();
        let edges: Vec<(&str, &str)> = flow
            .nodes()
            .iter()
            .filter(|node| node.name.starts_with('b'))
            .flat_map(|node| node.inputs.iter().map(|input| (name(input.from), node.name.as_str())))
            .filter(|(from, _)| from.starts_with('b'))
            .collect();
        assert_eq!(edges, [("b5", "b3"), ("b3", "b2"), ("b4", "b2"), ("b2", "b1"), ("b6", "b1")]);
        // Every tuple on its way to the root: 1 + 2 + 3 + 3 + 4 + 2 calls.
        let tuples = [1.0, 2.0, 3.0, 3.0, 4.0, 2.0];
        assert_eq!(tuples.iter().sum::<f64>() * 7.0, 105.0);
        assert_eq!(min_memory_example(10.0)[4], (0.4, 30.0));
    }

    #[test]
    fn curves_are_those_of_section_6() {
        let ms = |ms: u64| ms * 1_000_000;
        assert_eq!(tight().utility(ms(1)), 1.0);
        assert_eq!(tight().utility(ms(1_000)), 0.0);
        assert_eq!(loose().utility(ms(4_500)), 0.5);
        let workload = Trees::qos().build(5).unwrap();
        let tight_count =
            workload.queries.iter().filter(|q| q.dataflow.settings.qos == Some(tight())).count();
        assert!((1..20).contains(&tight_count), "both kinds occur: {tight_count}");
        assert_eq!(workload.queries.len(), 20);
    }

    #[test]
    fn impossible_trees_are_refused() {
        let refused = Trees { fan_out: 0, ..Trees::default() }.build(0).unwrap_err();
        assert_eq!(refused.to_string(), "fan_out = 0 of aurora trees: expected at least 1");
        assert!(Trees { capacity: 0.0, ..Trees::default() }.build(0).is_err());
        assert!(Trees { depth: 0, ..Trees::default() }.build(0).is_err());
    }
}
