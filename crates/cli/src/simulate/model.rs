use std::sync::Arc;

use laxity_connect::{ScanSpec, SinkSpec};
use laxity_graph::{Dataflow, EventTime, NodeId, ProcessingTime, WindowShape};
use laxity_operators::Stage as Operators;
use laxity_sql::PlannedQuery;
use laxity_workload::{Arrival, Cost, Feed, QueryModel, Stage, StageKind, Workload};

use crate::simulate::costs::{ArrivalCosts, Costs, FeedCosts, NodeCosts, QueryCosts};
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
    arrivals: Arc<[Arrival]>,
    /// Mean distance of two batches.
    gap_ns: u64,
}

/// The queries with their costs.
///
/// # Errors
/// If the costs are of other queries; which.
pub fn models(queries: &[PlannedQuery], costs: &Costs) -> Result<Vec<Model>, String> {
    let model = |query: &PlannedQuery| {
        let name = &query.dataflow.settings.name;
        let of_query = costs.queries.iter().find(|costs| costs.name == *name);
        let of_query = of_query.ok_or_else(|| format!("it has no query {name:?}"))?;
        let names = query.dataflow.nodes().iter().map(|node| &node.name);
        if !names.eq(of_query.nodes.iter().map(|node| &node.name)) {
            return Err(format!("its query {name:?} has other operators"));
        }
        model(&query.dataflow, of_query, costs.measured_s)
    };
    queries.iter().map(model).collect()
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
    measured_s: f64,
) -> Result<Model, String> {
    let mut dataflow = Dataflow::new(measured.settings.clone());
    for (index, node) in measured.nodes().iter().enumerate() {
        let own = &costs.nodes[index];
        let cost =
            Cost { fixed_ns: own.fixed_ns, per_row_ns: own.per_row_ns, watermark_ns: own.watermark_ns };
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
    // Event time advances in whole milliseconds, so the cycle is one too.
    let cycle_ms = (measured_s * 1e3).ceil().max(1.0);
    let speed = costs.feeds.iter().find_map(speed).unwrap_or(1.0);
    let slide_ms = dataflow.nodes().iter().filter_map(|node| node.window).map(|w| w.slide_ms).min();
    let feed = |feed: &FeedCosts| {
        let inside = feed.arrivals.iter().filter(|arrival| (arrival.at_ns as f64) < cycle_ms * 1e6);
        let arrivals: Vec<Arrival> =
            inside.flat_map(|arrival| pieces(arrival, slide_ms.unwrap_or(i64::MAX))).collect();
        let gap_ns = (cycle_ms * 1e6) as u64 / (arrivals.len() as u64).max(1);
        ModelFeed { node: NodeId(feed.node), instance: feed.instance, arrivals: arrivals.into(), gap_ns }
    };
    Ok(Model {
        feeds: costs.feeds.iter().map(feed).collect(),
        dataflow,
        cycle_ns: (cycle_ms * 1e6) as u64,
        event_cycle_ms: (speed * cycle_ms) as i64,
    })
}

fn kind(stage: &Operators<ScanSpec, SinkSpec>, window: Option<WindowShape>, own: &NodeCosts) -> StageKind {
    let overlaps = window.map_or(1.0, |w| (w.size_ms as f64 / w.slide_ms.max(1) as f64).max(1.0));
    let rows_in = (own.rows_in as f64 * overlaps).max(1.0);
    let selectivity = own.rows_out as f64 / rows_in;
    // Where most rows are groups of their own, more rows are more groups; else the groups are all there.
    const MOSTLY_GROUPS: f64 = 0.5;
    let groups = own.rows_out as f64 / own.windows.max(1) as f64;
    match (stage, window) {
        (Operators::Source { .. }, _) => StageKind::Source,
        (Operators::Sink(_), _) => StageKind::Sink,
        (Operators::Operator(_), Some(_)) => StageKind::Window {
            selectivity,
            rows_max: if selectivity > MOSTLY_GROUPS { f64::INFINITY } else { groups.ceil().max(1.0) },
            fire_per_row_ns: own.release_ns / rows_in,
            state_row_bytes: 0,
        },
        (Operators::Operator(_), None) => StageKind::Rows { selectivity },
    }
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

/// A batch of rows of many event times is cut, so that they fall into more windows than one.
fn pieces(arrival: &ArrivalCosts, slide_ms: i64) -> Vec<Arrival> {
    // Enough for a window or two in each; more would multiply the fixed cost of a batch.
    const PIECES_MAX: i64 = 8;
    const PIECE_ROWS_MIN: u32 = 64;
    let watermark = arrival.watermark.map(EventTime);
    let (least, latest) = arrival.event_times.unwrap_or_else(|| {
        let at = arrival.watermark.map_or(0, |watermark| watermark.saturating_add(1));
        (at, at)
    });
    let wanted = (latest.saturating_sub(least) / (slide_ms / 2).max(1)).clamp(1, PIECES_MAX) as u32;
    let count = wanted.min((arrival.rows / PIECE_ROWS_MIN).max(1));
    let share = |of: u64, piece: u32| {
        of * u64::from(piece + 1) / u64::from(count) - of * u64::from(piece) / u64::from(count)
    };
    let span = (latest.saturating_sub(least)) as f64;
    (0..count)
        .map(|piece| Arrival {
            at: ProcessingTime(arrival.at_ns),
            event_time: EventTime(least + (span * (f64::from(piece) + 0.5) / f64::from(count)) as i64),
            rows: share(u64::from(arrival.rows), piece) as u32,
            bytes: share(arrival.bytes, piece),
            watermark: watermark.filter(|_| piece + 1 == count),
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
            arrivals: vec![arrival(0, None), arrival(10, Some(100)), arrival(20, Some(600))],
        };
        assert_eq!(speed(&feed), Some(50.0));
        feed.speed = Some(3.0);
        assert_eq!(speed(&feed), Some(3.0));
    }

    #[test]
    fn tenants_do_not_beat_in_time() {
        let offsets: Vec<u64> = (0..4).map(|tenant| offset_ns(tenant, 1_000)).collect();
        assert_eq!(offsets, [0, 618, 236, 854]);
    }
}
