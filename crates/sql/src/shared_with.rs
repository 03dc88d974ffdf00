//! What the queries of one process will do together, as EXPLAIN tells it: read a table, compute, or write to the same
//! place.

use std::collections::HashMap;
use std::sync::Arc;

use laxity_connect::{ScanSpec, SinkSpec, TableSpec};
use laxity_graph::Dataflow;
use laxity_operators::{SharedSourceSpec, Stage, Template};

use crate::compile::PlannedQuery;
use crate::explain::can_be_shared;

/// A table as it is read by these columns.
type Read = (*const TableSpec, Vec<usize>);

/// One of each kind of those who read it, and how many they are.
type Alike<'a> = Vec<(&'a Arc<SharedSourceSpec>, usize)>;

/// With how many others queries do things when all of them run, a sentence or none for each: what is read together, what is
/// one operator, and which table others write too.
///
/// So many readers at least share what they do alike, which is `at_least`.
pub fn shared_with(queries: &[PlannedQuery], at_least: usize) -> Vec<Option<String>> {
    let mut reads: HashMap<Read, Alike<'_>> = HashMap::new();
    let mut templates: HashMap<*const Template, usize> = HashMap::new();
    let mut writes: HashMap<*const TableSpec, usize> = HashMap::new();
    for query in queries {
        if let Some((scan, spec)) = shared_source(&query.dataflow) {
            let alike = reads.entry((Arc::as_ptr(&scan.table), scan.columns.clone())).or_default();
            match alike.iter_mut().find(|(other, _)| other.source == spec.source) {
                Some((_, count)) => *count += 1,
                None => alike.push((spec, 1)),
            }
            if let Some(template) = &spec.template {
                *templates.entry(Arc::as_ptr(template)).or_insert(0) += 1;
            }
        }
        for sink in sinks(&query.dataflow) {
            *writes.entry(Arc::as_ptr(&sink.table)).or_insert(0) += 1;
        }
    }
    let told = |query: &PlannedQuery| {
        let mut told = Vec::new();
        if let Some((scan, spec)) = shared_source(&query.dataflow) {
            let alike = reads.get(&(Arc::as_ptr(&scan.table), scan.columns.clone())).into_iter().flatten();
            let count: usize =
                alike.filter(|(other, _)| other.source == spec.source).map(|(_, count)| *count).sum();
            let table = &scan.table.name;
            match count {
                0 | 1 => {}
                count if count >= at_least => told.push(format!("reads {table} with {}", others(count))),
                _ => told.push(format!("reads {table} alone, as fewer than {at_least} ask the same of it")),
            }
            let of_it = spec.template.as_ref().and_then(|template| templates.get(&Arc::as_ptr(template)));
            if let Some(&of_it) = of_it.filter(|&&of_it| of_it >= at_least && count >= at_least) {
                told.push(format!("is one operator with {} from the {at_least}th on", others(of_it)));
            }
        }
        for sink in sinks(&query.dataflow) {
            let of_it = writes.get(&Arc::as_ptr(&sink.table)).copied().unwrap_or(1);
            if of_it > 1 {
                // As one stream or each a file: that is the connector's.
                let do_so = if of_it == 2 { "does" } else { "do" };
                told.push(format!("writes {} as {} {do_so}", sink.table.name, others(of_it)));
            }
        }
        (!told.is_empty()).then(|| told.join(", "))
    };
    queries.iter().map(told).collect()
}

fn others(count: usize) -> String {
    match count - 1 {
        1 => "1 other".to_owned(),
        others => format!("{others} others"),
    }
}

/// What a query asks of its table that others may ask too.
fn shared_source(flow: &Dataflow<Stage<ScanSpec, SinkSpec>>) -> Option<(&ScanSpec, &Arc<SharedSourceSpec>)> {
    let mut nodes = flow.nodes().iter().filter(|_| can_be_shared(flow));
    nodes.find_map(|node| match &node.stage {
        Stage::Source { scan, shared: Some(shared), .. } => Some((scan, &shared.spec)),
        _ => None,
    })
}

fn sinks(flow: &Dataflow<Stage<ScanSpec, SinkSpec>>) -> impl Iterator<Item = &SinkSpec> {
    flow.nodes().iter().filter_map(|node| match &node.stage {
        Stage::Sink(sink) => Some(sink),
        _ => None,
    })
}
