//! How busy a workload keeps a machine, by arithmetic alone; the other way round, which rates or costs give a load.

use laxity_graph::{Dataflow, NodeId, Partitioning};

use crate::{Offered, Stage, StageKind, Workload, WorkloadError};

/// What a workload asks of a machine in the long run, before any scheduling: cores' worth of CPU time, by query.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedLoad {
    /// Cores that each query keeps busy, in the order of the workload's queries.
    pub queries: Vec<f64>,
    /// Workers that sleep with an operator at any time, while their cores are idle; nobody where every operator has a
    /// thread of its own.
    pub asleep: f64,
    /// Rows per second that reach all sources.
    pub rows_per_s: f64,
}

impl OfferedLoad {
    /// Cores that all queries together keep busy.
    pub fn cores(&self) -> f64 {
        self.queries.iter().sum()
    }

    /// Workers that all queries together keep, computing or asleep.
    pub fn workers(&self) -> f64 {
        self.cores() + self.asleep
    }
}

/// Sums rate × cost along the ways of every query, rows thinned or multiplied by selectivities.
///
/// Exact for cost per row. Cost per call is exact where every batch is processed as it was sent, without merging or
/// cutting. What a late row would not cost is counted; watermarks that an engine passes on by themselves, because rows
/// of a batch went elsewhere, are not.
///
/// # Errors
/// If a feed does not tell what it offers: a recorded one that is not repeated.
pub fn offered_load(workload: &Workload) -> Result<OfferedLoad, WorkloadError> {
    let mut load =
        OfferedLoad { queries: Vec::with_capacity(workload.queries.len()), asleep: 0.0, rows_per_s: 0.0 };
    for query in &workload.queries {
        let mut fed = Vec::with_capacity(query.feeds.len());
        for feed in &query.feeds {
            let offered = feed
                .arrivals
                .offered()
                .ok_or_else(|| WorkloadError::NoRate { query: query.dataflow.settings.name.clone() })?;
            load.rows_per_s += offered.rows_per_s;
            fed.push((feed.node, offered));
        }
        let (busy, asleep) = busy_and_asleep(&query.dataflow, fed);
        load.queries.push(busy);
        load.asleep += asleep;
    }
    Ok(load)
}

/// The factor by which rates must be multiplied so that `build(factor)` keeps the workers of so many cores, computing or
/// asleep.
///
/// # Errors
/// If a workload cannot be built or measured, or if no factor gives the load.
pub fn rate_for_load(
    cores: f64,
    build: impl Fn(f64) -> Result<Workload, WorkloadError>,
) -> Result<f64, WorkloadError> {
    let unreachable = || WorkloadError::Load { cores };
    if !(cores.is_finite() && cores > 0.0) {
        return Err(unreachable());
    }
    // Load is close to proportional to the rate: only cost per tick and bounded windows bend the line.
    let mut factor = 1.0;
    for _ in 0..50 {
        let offered = offered_load(&build(factor)?)?.workers();
        let ratio = cores / offered;
        if !(ratio.is_finite() && ratio > 0.0) {
            return Err(unreachable());
        }
        if (ratio - 1.0).abs() < 1e-9 {
            return Ok(factor);
        }
        factor *= ratio;
    }
    let offered = offered_load(&build(factor)?)?.workers();
    if (offered / cores - 1.0).abs() < 1e-3 { Ok(factor) } else { Err(unreachable()) }
}

/// The same graph with its CPU times multiplied so that rows alone, at this rate from each source, keep so many cores
/// busy. For workloads whose papers give a machine and its limits, but no time per row.
pub(crate) fn priced(
    dataflow: Dataflow<Stage>,
    sources: &[NodeId],
    rows_per_s: f64,
    busy_cores: f64,
) -> Result<Dataflow<Stage>, WorkloadError> {
    let offered = Offered { rows_per_s, ..NOTHING };
    let factor = busy_cores / cores(&dataflow, sources.iter().map(|&source| (source, offered)));
    let mut priced = Dataflow::new(dataflow.settings.clone());
    for node in dataflow.nodes() {
        let mut node = node.clone();
        node.stage.cost = node.stage.cost.times(factor);
        if let StageKind::Window { fire_per_row_ns, .. } = &mut node.stage.kind {
            *fire_per_row_ns *= factor;
        }
        priced.push(node)?;
    }
    Ok(priced)
}

const NOTHING: Offered = Offered { rows_per_s: 0.0, batches_per_s: 0.0, watermarks_per_s: 0.0 };

fn add(sum: &mut Offered, other: Offered) {
    sum.rows_per_s += other.rows_per_s;
    sum.batches_per_s += other.batches_per_s;
    sum.watermarks_per_s += other.watermarks_per_s;
}

/// Cores that a query keeps busy, given what its sources are fed.
pub(crate) fn cores(dataflow: &Dataflow<Stage>, fed: impl IntoIterator<Item = (NodeId, Offered)>) -> f64 {
    busy_and_asleep(dataflow, fed).0
}

/// Cores that a query keeps busy, and threads that it keeps asleep.
fn busy_and_asleep(
    dataflow: &Dataflow<Stage>,
    fed: impl IntoIterator<Item = (NodeId, Offered)>,
) -> (f64, f64) {
    // What reaches each node, all instances together.
    let mut reaching = vec![NOTHING; dataflow.nodes().len()];
    for (source, offered) in fed {
        add(&mut reaching[source.0], offered);
    }
    let (mut busy_ns_per_s, mut asleep_ns_per_s) = (0.0, 0.0);
    for (index, node) in dataflow.nodes().iter().enumerate() {
        let taken = reaching[index];
        let cost = node.stage.cost;
        busy_ns_per_s += taken.batches_per_s * cost.fixed_ns
            + taken.rows_per_s * cost.per_row_ns
            + taken.watermarks_per_s * cost.watermark_ns;
        if let Some(sleep) = &node.stage.sleep {
            let chance = sleep.chance_per_row.clamp(0.0, 1.0);
            asleep_ns_per_s += taken.rows_per_s * chance * sleep.length.moments().0;
        }
        let sent = match node.stage.kind {
            StageKind::Source => taken,
            StageKind::Rows { selectivity } => {
                Offered { rows_per_s: taken.rows_per_s * selectivity, ..taken }
            }
            StageKind::Window { selectivity, rows_max, fire_per_row_ns, .. } => {
                let instances = node.parallelism as f64;
                let (size_s, slide_s) = node.window.map_or((1.0, 1.0), |window| {
                    (window.size_ms.max(1) as f64 / 1e3, window.slide_ms.max(1) as f64 / 1e3)
                });
                let held = taken.rows_per_s * size_s;
                busy_ns_per_s += fire_per_row_ns * held / slide_s;
                Offered {
                    rows_per_s: (held * selectivity).min(rows_max * instances) / slide_s,
                    batches_per_s: instances.min(taken.rows_per_s * size_s) / slide_s,
                    watermarks_per_s: 0.0,
                }
            }
            StageKind::Sink => NOTHING,
        };
        for (consumer, _, partitioning) in dataflow.consumers(NodeId(index)) {
            let copies = dataflow.node(consumer).parallelism as f64;
            let mut sent = sent;
            if matches!(partitioning, Partitioning::Hash(_)) && sent.batches_per_s > 0.0 {
                // A batch reaches as many instances as it has rows, at most all.
                sent.batches_per_s *= copies.min((sent.rows_per_s / sent.batches_per_s).max(1.0));
            }
            if !matches!(partitioning, Partitioning::Forward) {
                sent.watermarks_per_s *= copies;
            }
            add(&mut reaching[consumer.0], sent);
        }
    }
    (busy_ns_per_s / 1e9, asleep_ns_per_s / 1e9)
}

#[cfg(test)]
mod tests {
    use laxity_graph::{ProcessingTime, QuerySettings};

    use super::*;
    use crate::flow::{Firing, Flow, by_key, forward, gather, sliding};
    use crate::{Cost, Feed, QueryModel, Stream};

    /// source (2 instances) → filter ½ → window of 4 s every 2 s, 10 groups on 2 instances → sink.
    fn workload(rows_per_s: f64) -> Workload {
        let mut flow = Flow::new(QuerySettings::named("q"), 8);
        let cost = |fixed_ns, per_row_ns| Cost { fixed_ns, per_row_ns, watermark_ns: 0.0 };
        let source = flow.source("source", 2, cost(1_000.0, 10.0)).unwrap();
        let filter = flow.rows("filter", 2, vec![forward(source)], cost(0.0, 100.0), 0.5).unwrap();
        let firing = Firing { fire_per_row_ns: 50.0, ..Firing::groups(sliding(4_000, 2_000), 5.0) };
        let window = flow.window("window", 2, vec![by_key(filter)], cost(0.0, 200.0), firing).unwrap();
        flow.sink("sink", vec![gather(window)], cost(10_000.0, 1_000_000.0)).unwrap();
        let feeds = (0..2)
            .map(|instance| Feed {
                node: source,
                instance,
                arrivals: Stream::constant(rows_per_s, 100).arrivals(instance as u64).unwrap(),
            })
            .collect();
        let query = QueryModel { dataflow: flow.finish(), feeds, deployed: ProcessingTime::ZERO };
        Workload { name: "w".into(), queries: vec![query] }
    }

    #[test]
    fn load_is_what_the_hand_computes() {
        // 2 × 1 000 rows/s in 20 batches: source 20·1 µs + 2 000·10 ns = 40 µs; filter 200 µs; window 1 000 rows ·
        // 200 ns = 200 µs, firing 4 000 rows every 2 s · 50 ns = 100 µs; 10 groups every 2 s: 5 rows/s in 1 batch/s
        // = 5 010 µs.
        let load = offered_load(&workload(1_000.0)).unwrap();
        assert!((load.cores() - 5_550e-6).abs() < 1e-12, "{load:?}");
        assert_eq!(load.rows_per_s, 2_000.0);
    }

    #[test]
    fn rate_for_load_finds_the_rate_although_the_line_bends() {
        for cores in [0.01, 0.5, 3.0] {
            let factor = rate_for_load(cores, |factor| Ok(workload(1_000.0 * factor))).unwrap();
            let offered = offered_load(&workload(1_000.0 * factor)).unwrap().cores();
            assert!((offered / cores - 1.0).abs() < 1e-3, "{cores}: {offered}");
        }
        assert_eq!(
            rate_for_load(0.0, |factor| Ok(workload(factor))).unwrap_err(),
            WorkloadError::Load { cores: 0.0 }
        );
    }
}
