//! From measured costs to the simulator's workload: each query becomes a dataflow of costs, and every tenant a copy of
//! all of them, a little apart in time.

use std::collections::HashMap;
use std::sync::Arc;

use laxity_connect::{ScanSpec, SinkSpec, TableSpec};
use laxity_graph::{
    Dataflow, EventClock, EventTime, NodeId, ProcessingTime, QueryId, WindowEnds, WindowShape,
};
use laxity_operators::Stage as Operators;
use laxity_sim::FeedId;
use laxity_sql::PlannedQuery;
use laxity_workload::{Arrival, Cost, Feed, QueryModel, Stage, StageKind, Workload};

use crate::simulate::costs::{ArrivalCosts, Costs, FeedCosts, NodeCosts, QueryCosts, since};
use crate::simulate::cycle::Cycle;
use crate::simulate::paced::Paced;
use crate::simulate::replay::Replay;

/// A query of the files as costs: what a tenant runs.
#[derive(Debug)]
pub struct Model {
    dataflow: Dataflow<Stage>,
    feeds: Vec<ModelFeed>,
    /// The run that was measured, and the event time that passed in it.
    cycle_ns: u64,
    event_cycle_ms: i64,
}

#[derive(Debug)]
struct ModelFeed {
    node: NodeId,
    instance: usize,
    /// Equal for those who read the same table.
    table: *const TableSpec,
    arrivals: Arc<[Arrival]>,
    /// When event times are due, where the table has a pace.
    clock: Option<EventClock>,
    /// Mean distance of two batches.
    gap_ns: u64,
}

impl Model {
    /// The query's name.
    pub fn name(&self) -> &str {
        &self.dataflow.settings.name
    }

    /// Its first window, and bytes of a row that this sends on.
    pub fn window(&self) -> Option<(WindowShape, u32)> {
        self.dataflow.nodes().iter().find_map(|node| Some((node.window?, node.stage.row_bytes)))
    }
}

/// The queries with their costs.
///
/// # Errors
/// If the costs are of other queries; which.
pub fn models(queries: &[PlannedQuery], costs: &Costs) -> Result<Vec<Model>, String> {
    let mut of_fronts = HashMap::new();
    let cycle = Cycle::of(costs);
    let costs_of: HashMap<&str, &QueryCosts> =
        costs.queries.iter().map(|costs| (costs.name.as_str(), costs)).collect();
    let model = |query: &PlannedQuery| {
        let name = &query.dataflow.settings.name;
        let of_query = costs_of.get(name.as_str()).copied();
        let of_query = of_query.ok_or_else(|| format!("it has no query {name:?}"))?;
        let names = query.dataflow.nodes().iter().map(|node| &node.name);
        if !names.eq(of_query.nodes.iter().map(|node| &node.name)) {
            return Err(format!("its query {name:?} has other operators"));
        }
        model(&query.dataflow, of_query, costs, cycle, &mut of_fronts)
    };
    queries.iter().map(model).collect()
}

/// Which feeds of such a workload read the same table: those of one tenant.
pub fn shared(models: &[Model], tenants: usize) -> Vec<Vec<FeedId>> {
    let mut of_tenant: Vec<(*const TableSpec, Vec<(usize, usize)>)> = Vec::new();
    for (index, model) in models.iter().enumerate() {
        for (feed, ModelFeed { table, .. }) in model.feeds.iter().enumerate() {
            match of_tenant.iter_mut().find(|(other, _)| other == table) {
                Some((_, readers)) => readers.push((index, feed)),
                None => of_tenant.push((*table, vec![(index, feed)])),
            }
        }
    }
    let at = |tenant: usize, (model, feed): (usize, usize)| FeedId {
        query: QueryId((tenant * models.len() + model) as u32),
        feed,
    };
    let tables = |tenant: usize| {
        let readers = of_tenant.iter().filter(|(_, readers)| readers.len() > 1);
        readers.map(move |(_, readers)| readers.iter().map(|&reader| at(tenant, reader)).collect())
    };
    (0..tenants).flat_map(tables).collect()
}

/// So many tenants, each with all queries, at so many times the rate.
pub fn workload(models: &[Model], tenants: usize, rate: f64) -> Workload {
    let mut queries = Vec::with_capacity(models.len() * tenants);
    for tenant in 0..tenants {
        for model in models {
            let mut dataflow = model.dataflow.clone();
            if tenants > 1 {
                dataflow.settings.name = format!("{} #{}", dataflow.settings.name, tenant + 1);
            }
            let feeds = model.feeds.iter().map(|feed| Feed {
                node: feed.node,
                instance: feed.instance,
                arrivals: Box::new(Replay::new(
                    feed.arrivals.clone(),
                    feed.clock,
                    model.cycle_ns,
                    model.event_cycle_ms,
                    rate,
                    offset_ns(tenant, feed.gap_ns),
                )),
            });
            let feeds = feeds.collect();
            queries.push(QueryModel { dataflow, feeds, deployed: ProcessingTime::ZERO });
        }
    }
    Workload { name: "the files".into(), queries }
}

/// Spreads tenants over the gap between two batches, as evenly as a low-discrepancy sequence does (the golden
/// ratio's). The first tenant comes as recorded.
fn offset_ns(tenant: usize, gap_ns: u64) -> u64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    ((tenant as f64 * GOLDEN).fract() * gap_ns as f64) as u64
}

fn model(
    measured: &Dataflow<Operators<ScanSpec, SinkSpec>>,
    costs: &QueryCosts,
    all: &Costs,
    cycle: Cycle,
    of_fronts: &mut HashMap<usize, Arc<[Arrival]>>,
) -> Result<Model, String> {
    let front = costs.feeds.iter().find_map(|feed| feed.shared);
    let front = front.map(|front| all.shared.get(front).ok_or("what it reads with others is not there"));
    let front = front.transpose()?;
    let mut dataflow = Dataflow::new(measured.settings.clone());
    for (index, node) in measured.nodes().iter().enumerate() {
        let own = &costs.nodes[index];
        let mut cost =
            Cost { fixed_ns: own.fixed_ns, per_row_ns: own.per_row_ns, watermark_ns: own.watermark_ns };
        if let (Some(front), Operators::Source { .. }) = (front, &node.stage) {
            // A table hands over what its source takes.
            cost.fixed_ns += front.handed.fixed_ns;
            cost.per_row_ns += front.handed.per_row_ns;
        }
        let kind = kind(&node.stage, node.window, own);
        let stage = Stage::new(kind, cost, row_bytes(measured, index, costs));
        let node = laxity_graph::Node {
            name: node.name.clone(),
            parallelism: node.parallelism,
            inputs: node.inputs.clone(),
            window: node.window,
            stage,
        };
        dataflow.push(node).map_err(|error| error.to_string())?;
    }
    let speed = front.map_or_else(|| costs.feeds.iter().find_map(speed), |front| speed(&front.feed));
    let speed = speed.unwrap_or(1.0);
    let grain_ns = grain_ns(measured.settings.latency_target.ns());
    let windows = || dataflow.nodes().iter().filter_map(|node| node.window);
    let slide_ms = windows().map(|window| window.slide_ms).min();
    // Where windows end as often as rows come, each piece ends some.
    let ends = windows().filter_map(WindowShape::ends).reduce(WindowEnds::with);
    let ends = ends.filter(|ends| ends.every_ms() as u64 * 1_000_000 > 2 * grain_ns);
    let arrivals_of = |recorded: &FeedCosts| -> Arc<[Arrival]> {
        let is_inside = |arrival: &Arrival| arrival.at.0 < cycle.length_ns();
        let mut arrivals: Vec<Arrival> = match recorded.clock() {
            Some(clock) => {
                let pieces = Paced { clock, grain_ns, ends }.pieces(&recorded.arrivals);
                pieces.into_iter().filter(|piece| piece.at.0 >= cycle.begin_ns).collect()
            }
            None => {
                let slide_ms = slide_ms.unwrap_or(i64::MAX);
                recorded.arrivals.iter().flat_map(|arrival| pieces(arrival, slide_ms)).collect()
            }
        };
        let mut latest = ProcessingTime::ZERO;
        for arrival in &mut arrivals {
            // What cannot be told apart in time stays in order.
            latest = latest.max(ProcessingTime(arrival.at.0.saturating_sub(cycle.begin_ns)));
            arrival.at = latest;
        }
        arrivals.retain(is_inside);
        arrivals.into()
    };
    let feed = |feed: &FeedCosts| {
        // Those who read together get the same rows.
        let arrivals = match (feed.shared, front) {
            (Some(place), Some(front)) => {
                of_fronts.entry(place).or_insert_with(|| arrivals_of(&front.feed)).clone()
            }
            _ => arrivals_of(feed),
        };
        let gap_ns = cycle.length_ns() / (arrivals.len() as u64).max(1);
        let Operators::Source { scan, .. } = &measured.node(NodeId(feed.node)).stage else {
            return Err(format!("node {} is no source", feed.node));
        };
        let (node, table) = (NodeId(feed.node), Arc::as_ptr(&scan.table));
        let recorded = front.filter(|_| feed.shared.is_some()).map_or(feed, |front| &front.feed);
        let clock = recorded.clock().map(|clock| since(&clock, cycle.begin_ns));
        Ok(ModelFeed { node, instance: feed.instance, table, arrivals, clock, gap_ns })
    };
    Ok(Model {
        feeds: costs.feeds.iter().map(feed).collect::<Result<_, String>>()?,
        dataflow,
        cycle_ns: cycle.length_ns(),
        event_cycle_ms: (speed * cycle.length_ms as f64) as i64,
    })
}

fn kind(stage: &Operators<ScanSpec, SinkSpec>, window: Option<WindowShape>, own: &NodeCosts) -> StageKind {
    let overlaps = window.map_or(1.0, |w| (w.size_ms as f64 / w.slide_ms.max(1) as f64).max(1.0));
    let rows_in = (own.rows_in as f64 * overlaps).max(1.0);
    let selectivity = own.rows_out as f64 / rows_in;
    let groups = own.rows_out as f64 / own.windows.max(1) as f64;
    match (stage, window) {
        (Operators::Source { .. }, _) => StageKind::Source,
        (Operators::Sink(_), _) => StageKind::Sink,
        (Operators::Operator(_), Some(_)) => StageKind::Window {
            selectivity,
            rows_max: groups_max(selectivity, groups),
            fire_per_row_ns: own.release_ns / rows_in,
            state_row_bytes: 0,
        },
        (Operators::Operator(_), None) => StageKind::Rows { selectivity },
    }
}

/// Rows of a window's result at most, where it has so many on average.
pub fn groups_max(selectivity: f64, groups: f64) -> f64 {
    // Where most rows are groups of their own, more rows are more groups; else the groups are all there.
    const MOSTLY_GROUPS: f64 = 0.5;
    if selectivity > MOSTLY_GROUPS { f64::INFINITY } else { groups.ceil().max(1.0) }
}

/// Bytes of a row that a node sends on: as its first consumer took them in.
fn row_bytes(dataflow: &Dataflow<Operators<ScanSpec, SinkSpec>>, node: usize, costs: &QueryCosts) -> u32 {
    let consumers = dataflow.consumers(NodeId(node));
    let measured = consumers.into_iter().map(|(consumer, ..)| &costs.nodes[consumer.0]);
    let of = measured.filter(|costs| costs.rows_in > 0).map(|costs| costs.bytes_in / costs.rows_in).next();
    // What goes to a sink is in nobody's mailbox; a small row.
    of.map_or(64, |bytes| bytes.clamp(1, u64::from(u32::MAX)) as u32)
}

/// Event-time milliseconds that pass in a millisecond.
fn speed(feed: &FeedCosts) -> Option<f64> {
    feed.speed.or_else(|| {
        let mut reached = feed.arrivals.iter().filter_map(|a| Some((a.at_ns, a.watermark?)));
        let (first_ns, first) = reached.next()?;
        let (last_ns, last) = reached.next_back()?;
        (last_ns > first_ns).then(|| (last - first) as f64 * 1e6 / (last_ns - first_ns) as f64)
    })
}

/// How finely rows of a table with a pace of its own come: finer than looks at it ever are, for queries of this target.
fn grain_ns(target_ns: u64) -> u64 {
    // Looks keep a twentieth of the target and more, and no more than 100 ms.
    (target_ns / 40).clamp(1_000_000, 10_000_000)
}

/// What came in one batch of a table without a pace: where it has many event times it is cut, so that they fall into more
/// windows than one.
fn pieces(arrival: &ArrivalCosts, slide_ms: i64) -> Vec<Arrival> {
    // Enough for a window or two in each; more would multiply the fixed cost of a batch.
    const PIECES_MAX: i64 = 8;
    const PIECE_ROWS_MIN: u32 = 64;
    let (least, latest) = arrival.event_times.unwrap_or_else(|| {
        let at = arrival.watermark.map_or(0, |watermark| watermark.saturating_add(1));
        (at, at)
    });
    let span = latest.saturating_sub(least);
    let wanted = (span / (slide_ms / 2).max(1)).clamp(1, PIECES_MAX) as u32;
    let count = wanted.min((arrival.rows / PIECE_ROWS_MIN).max(1));
    let share = |of: u64, piece: u32| {
        of * u64::from(piece + 1) / u64::from(count) - of * u64::from(piece) / u64::from(count)
    };
    (0..count)
        .map(|piece| Arrival {
            at: ProcessingTime(arrival.at_ns),
            event_time: EventTime(least + (span as f64 * (f64::from(piece) + 0.5) / f64::from(count)) as i64),
            rows: share(u64::from(arrival.rows), piece) as u32,
            bytes: share(arrival.bytes, piece),
            watermark: arrival.watermark.map(EventTime).filter(|_| piece + 1 == count),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_over_many_windows_is_cut_and_nothing_is_lost() {
        let batch = ArrivalCosts {
            at_ns: 5,
            rows: 1_001,
            bytes: 10_010,
            event_times: Some((0, 4_000)),
            watermark: Some(3_000),
        };
        let cut = pieces(&batch, 2_000);
        let seen: Vec<(i64, u32, u64, Option<i64>)> =
            cut.iter().map(|a| (a.event_time.0, a.rows, a.bytes, a.watermark.map(|w| w.0))).collect();
        // Four half windows of 1 000 ms each.
        assert_eq!(
            seen,
            [
                (500, 250, 2_502, None),
                (1_500, 250, 2_503, None),
                (2_500, 250, 2_502, None),
                (3_500, 251, 2_503, Some(3_000))
            ]
        );
        assert_eq!(pieces(&ArrivalCosts { rows: 10, ..batch }, 2_000).len(), 1);
    }

    #[test]
    fn speed_is_the_pace_or_that_of_the_watermarks() {
        let arrival = |at_ms: u64, watermark| ArrivalCosts {
            at_ns: at_ms * 1_000_000,
            rows: 1,
            bytes: 8,
            event_times: None,
            watermark,
        };
        let mut feed = FeedCosts {
            node: 0,
            instance: 0,
            speed: None,
            due: None,
            arrivals: vec![arrival(0, None), arrival(10, Some(100)), arrival(20, Some(600))],
            shared: None,
        };
        assert_eq!(speed(&feed), Some(50.0));
        feed.speed = Some(3.0);
        assert_eq!(speed(&feed), Some(3.0));
    }

    #[test]
    fn rows_are_told_apart_as_finely_as_targets_ask_for() {
        assert_eq!([grain_ns(50_000_000), grain_ns(10_000_000_000)], [1_250_000, 10_000_000]);
    }

    #[test]
    fn tenants_do_not_beat_in_time() {
        let offsets: Vec<u64> = (0..4).map(|tenant| offset_ns(tenant, 1_000)).collect();
        assert_eq!(offsets, [0, 618, 236, 854]);
    }
}
