//! The tables of a simulation before its time begins: which feeds are one table, and who reads it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use laxity_graph::{EventClock, OperatorId, ProcessingTime, QueryId};
use laxity_runtime::{Intake, Outlet, Query, Reader, Rhythm};
use laxity_workload::{Cost, QueryModel};

use crate::feed::Feed;
use crate::modelled::{FrontReader, Modelled};
use crate::run_clock::RunClock;
use crate::table::Table;
use crate::topology::Topology;
use crate::{Fault, FeedId, ScheduledSources, Setup, SharedFront, SimulationError};

/// The tables of all queries.
pub(super) struct Opened<C: Modelled> {
    pub tables: Vec<Table<C>>,
    /// By place of a table: its number. Places for copies have none yet.
    pub numbers: Vec<u32>,
    /// By query: those that are opened with it.
    pub tables_of: Vec<Vec<u32>>,
    /// By query: where its event times lie, as its first feed says.
    pub clocks: Vec<EventClock>,
}

/// A table and who is to read it.
struct Wanted<C: Modelled> {
    feed: Feed<C::Batch>,
    /// The first of its readers: the query, and its source.
    query: usize,
    operator: u32,
    deployed: ProcessingTime,
    readers: Vec<Reader<C>>,
}

/// Those who read tables, by query.
#[derive(Clone, Copy)]
pub(super) struct Readers<'a> {
    pub running: &'a [Arc<Query>],
    /// Where their results go, of those that have one way out.
    pub outlets: &'a [Option<Arc<Outlet>>],
    pub clock: &'a Rc<RunClock>,
}

/// Tables for the feeds of these queries; the feeds are taken out of them.
///
/// # Errors
/// If a feed has no source.
pub(super) fn tables<C: Modelled>(
    topology: &mut Topology,
    queries: &mut [QueryModel],
    of: Readers<'_>,
    rows: Vec<VecDeque<C::Batch>>,
    feeds_end: bool,
    setup: &Setup,
) -> Result<Opened<C>, SimulationError> {
    let faults: Rc<[Fault]> = setup.faults.as_slice().into();
    let scheduled = setup.sources.scheduled();
    let groups = scheduled.map(groups).unwrap_or_default();
    let Readers { running, outlets, clock } = of;
    let fronts = scheduled.map(fronts).unwrap_or_default();
    let mut first_of_group: BTreeMap<usize, usize> = BTreeMap::new();
    let mut rows = rows.into_iter();
    let (mut wanted, mut clocks) = (Vec::<Wanted<C>>::new(), Vec::new());
    for (index, query) in queries.iter_mut().enumerate() {
        clocks.push(query.feeds.first().map_or(FROM_THE_START, |feed| feed.arrivals.clock()));
        for (number, feed) in std::mem::take(&mut query.feeds).into_iter().enumerate() {
            let operator = topology.instance(index, query, feed.node, feed.instance);
            let operator = operator.filter(|&operator| topology.operator(operator).upstream.is_empty());
            let Some(operator) = operator else {
                return Err(SimulationError::Feed {
                    query: query.dataflow.settings.name.clone(),
                    node: feed.node.0,
                    instance: feed.instance,
                });
            };
            let rows = rows.next().unwrap_or_default();
            let (source, deployed) = (OperatorId(operator), query.deployed);
            let rhythm = Rhythm::of(&query.dataflow);
            let mut reader = Reader::<C>::new(Arc::clone(&running[index]), source, None, false, deployed);
            reader = reader.in_rhythm(rhythm);
            let id = FeedId { query: QueryId(index as u32), feed: number };
            if let Some(&Membership { ref front, number, member }) = fronts.get(&id)
                && let Some(rhythm) = rhythm
                && let Some(spec) = C::spec(FrontReader { clock, number, front, member })
            {
                reader = reader.sharing(spec, rhythm).with_outlet(outlets[index].clone());
            }
            let group = groups.get(&id);
            let shared = group.and_then(|group| first_of_group.get(group)).copied().filter(|&first| {
                let machine_of = |operator| topology.operator(operator).machine;
                let table: &Wanted<C> = &wanted[first];
                table.deployed == deployed && machine_of(table.operator) == machine_of(operator)
            });
            if let Some(shared) = shared {
                wanted[shared].readers.push(reader);
                continue;
            }
            if let Some(&group) = group {
                first_of_group.entry(group).or_insert(wanted.len());
            }
            let mut feed = Feed::new(feed.arrivals);
            feed.rows = rows;
            (feed.ends, feed.is_closed_loop) = (feeds_end, setup.closed_loop);
            (feed.query, feed.faults) = (QueryId(index as u32), Rc::clone(&faults));
            wanted.push(Wanted { feed, query: index, operator, deployed, readers: vec![reader] });
        }
    }
    let mut opened = Opened {
        tables: Vec::new(),
        numbers: Vec::new(),
        tables_of: vec![Vec::new(); queries.len()],
        clocks,
    };
    for Wanted { feed, query, operator, readers, .. } in wanted {
        let number = opened.tables.len() as u32;
        opened.tables_of[query].push(number);
        let targets: BTreeSet<u64> = readers.iter().map(|reader| reader.query.target_ns()).collect();
        let intake = Intake::new(OperatorId(number), readers);
        let Some(costs) = scheduled else {
            opened.tables.push(Table::new(operator, intake.without_rest(), feed, Vec::new()));
            continue;
        };
        let machine = topology.operator(operator).machine;
        let cost = Cost::per_call(costs.look_ns as f64, costs.row_ns);
        let mut place = |copy: usize, target_ns: u64| {
            let name =
                format!("table {number}{}", if copy == 0 { String::new() } else { format!(" ({copy})") });
            opened.numbers.push(if copy == 0 { number } else { u32::MAX });
            topology.add_table(machine, target_ns, name, cost)
        };
        let own = place(0, intake.target_ns());
        // Those who leave have other targets than those who stay, so there are never more copies than that.
        let furthest_ns = targets.last().copied().unwrap_or_default();
        let spare = (1..targets.len()).rev().map(|copy| place(copy, furthest_ns)).collect();
        opened.tables.push(Table::new(own, intake, feed, spare));
    }
    Ok(opened)
}

/// Which member of which front a feed is.
struct Membership {
    number: usize,
    front: Rc<SharedFront>,
    member: usize,
}

fn fronts(sources: &ScheduledSources) -> BTreeMap<FeedId, Membership> {
    let mut of_feed = BTreeMap::new();
    for (number, front) in sources.fronts.iter().enumerate() {
        let front = Rc::new(front.clone());
        for (member, of) in front.members.iter().enumerate() {
            of_feed.insert(of.feed, Membership { number, front: Rc::clone(&front), member });
        }
    }
    of_feed
}

/// By feed: which of the shared tables it reads.
fn groups(sources: &ScheduledSources) -> BTreeMap<FeedId, usize> {
    let groups = sources.shared.iter().enumerate();
    groups.flat_map(|(group, feeds)| feeds.iter().map(move |&feed| (feed, group))).collect()
}

/// Of a query that nothing feeds.
const FROM_THE_START: EventClock = EventClock {
    event_origin: laxity_graph::EventTime(0),
    processing_origin: ProcessingTime::ZERO,
    speed: 1.0,
};
