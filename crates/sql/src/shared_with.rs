//! What the queries of one process will do together, as EXPLAIN tells it: read a table, compute, or write to the same
//! place.

use std::collections::HashMap;
use std::sync::Arc;

use laxity_connect::{ScanSpec, SinkSpec, TableSpec};
use laxity_graph::{CommonSlices, Dataflow};
use laxity_operators::{Access, SharedSourceSpec, SlicerSpec, Stage, Template, ViewSpec, Way, Ways};

use crate::apart::Windows;
use crate::compile::PlannedQuery;
use crate::explain::can_be_shared;

/// With how many others queries do things when all of them run, a sentence or none for each: what is read together, what is
/// computed once, what is one operator, which table others write too; and why windows over a table that others read are
/// one's own to put together.
///
/// So many readers at least share what they do alike, which is `at_least`.
pub fn shared_with(queries: &[PlannedQuery], at_least: usize) -> Vec<Option<String>> {
    let readings = readings(queries, at_least);
    let slices = slices(&readings);
    let mut counted = Counted { at_least, readers: readers(queries), slices, ..Counted::default() };
    let mut writes: HashMap<*const TableSpec, usize> = HashMap::new();
    for (query, reading) in queries.iter().zip(&readings) {
        reading.iter().for_each(|reading| counted.count(reading));
        for sink in sinks(&query.dataflow) {
            *writes.entry(Arc::as_ptr(&sink.table)).or_insert(0) += 1;
        }
    }
    let told = |(query, reading): (&PlannedQuery, &Option<Reading<'_>>)| {
        let mut told = match reading {
            Some(reading) => counted.told(query, reading),
            None => {
                let mut tables = tables(&query.dataflow);
                let why = tables.find(|table| counted.is_read_by_several(table));
                let why = why.and_then(|table| Some((&table.name, why_apart(query, at_least, false)?)));
                why.map(|(table, why)| format!("reads {table} alone, as {why}")).into_iter().collect()
            }
        };
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
    queries.iter().zip(&readings).map(told).collect()
}

/// Who does what alike, by what it is.
#[derive(Default)]
struct Counted<'a> {
    at_least: usize,
    readers: HashMap<*const TableSpec, usize>,
    rows: HashMap<Read, Alike<'a>>,
    /// Of those who look at all rows themselves, and need not if there were more of them.
    alone: HashMap<Read, Alike<'a>>,
    views: HashMap<*const TableSpec, Viewed<'a>>,
    templates: HashMap<*const Template, usize>,
    slices: Common,
    slicers: HashMap<*const SlicerSpec, usize>,
    audiences: HashMap<Audience<'a>, usize>,
    sliced_alike: HashMap<(*const SlicerSpec, &'a Access), usize>,
}

impl<'a> Counted<'a> {
    fn count(&mut self, reading: &Reading<'a>) {
        match reading {
            Reading { scan, way: Way::View, view: Some(view), .. } => {
                let alike = self.views.entry(Arc::as_ptr(&scan.table)).or_default();
                count(alike, *view, |other| other.has_rows_of(view));
            }
            Reading { scan, way, rows: Some(spec), .. } => {
                let of_way = if *way == Way::Rows { &mut self.rows } else { &mut self.alone };
                let alike = of_way.entry((Arc::as_ptr(&scan.table), scan.columns.clone())).or_default();
                count(alike, *spec, |other| is_alike(*way, spec, other));
                if let Some(template) = spec.template.as_ref().filter(|_| *way == Way::Rows) {
                    *self.templates.entry(Arc::as_ptr(template)).or_insert(0) += 1;
                    if let Some(audience) = audience(spec, template, &self.slices) {
                        *self.slicers.entry(audience.0).or_insert(0) += 1;
                        *self.sliced_alike.entry((audience.0, audience.2)).or_insert(0) += 1;
                        *self.audiences.entry(audience).or_insert(0) += 1;
                    }
                }
            }
            _ => {}
        }
    }

    fn is_read_by_several(&self, table: &Arc<TableSpec>) -> bool {
        self.readers.get(&Arc::as_ptr(table)).is_some_and(|&of_it| of_it > 1)
    }

    /// What a query does with others that read the table, and why not more of it.
    fn told(
        &self,
        query: &PlannedQuery,
        Reading { scan, way, rows: asked, view }: &Reading<'a>,
    ) -> Vec<String> {
        let (table, at_least) = (&scan.table.name, self.at_least);
        let (mut told, mut is_done_with_others, mut is_too_short) = (Vec::new(), false, false);
        if let (Way::View, Some(view)) = (way, view) {
            let alike = self.views.get(&Arc::as_ptr(&scan.table)).into_iter().flatten();
            let count = alike.filter(|(other, _)| other.has_rows_of(view)).map(|(_, count)| *count).sum();
            told.push(match view.is_filtered() {
                true => format!("filters {table}, and computes what it selects, once with {}", others(count)),
                false => format!("computes what it selects of {table} once with {}", others(count)),
            });
        } else if let Some(spec) = asked {
            let read = (Arc::as_ptr(&scan.table), scan.columns.clone());
            let of_way = if *way == Way::Rows { &self.rows } else { &self.alone };
            let alike = of_way.get(&read).into_iter().flatten();
            let count: usize =
                alike.filter(|(other, _)| is_alike(*way, spec, other)).map(|(_, count)| *count).sum();
            match way {
                Way::Rows => told.push(format!("reads {table} with {}", others(count))),
                _ if count < 2 => {}
                _ => told.push(format!("reads {table} alone, as fewer than {at_least} ask the same of it")),
            }
            let of_it =
                spec.template.as_ref().and_then(|template| self.templates.get(&Arc::as_ptr(template)));
            // All rows are aggregated once, whatever the windows: those who have these in common are as one then.
            let are_many = if spec.gets_every_row() { 2 } else { at_least };
            if let Some(&of_it) = of_it.filter(|&&of_it| *way == Way::Rows && of_it >= are_many) {
                told.push(format!("is one operator with {}", others(of_it)));
                is_done_with_others = true;
            }
            let audience = spec.template.as_ref().and_then(|template| audience(spec, template, &self.slices));
            let audience = audience.filter(|_| *way == Way::Rows);
            let of_it = audience.and_then(|audience| self.slicers.get(&audience.0)).copied().unwrap_or(0);
            let alike = audience.and_then(|audience| self.audiences.get(&audience)).copied().unwrap_or(0);
            if alike > 1 && of_it >= at_least {
                told.push(format!("aggregates its rows once with {}", others(alike)));
                is_done_with_others = true;
            }
            let sliced = audience.and_then(|(slicer, _, rows)| self.sliced_alike.get(&(slicer, rows)));
            is_too_short = of_it >= at_least && sliced.is_some_and(|&sliced| sliced > alike);
            // That they are too few is said already.
            is_done_with_others |=
                *way == Way::Alone && count > 1 && matches!(query.windows, Windows::Shareable);
        }
        if !is_done_with_others && self.is_read_by_several(&scan.table) {
            let why = why_apart(query, at_least, is_too_short);
            told.extend(why.map(|why| format!("shares no windows, as {why}")));
        }
        told
    }
}

/// A table as it is read by these columns.
type Read = (*const TableSpec, Vec<usize>);

/// One of each kind of those who read it, and how many they are.
type Alike<'a> = Vec<(&'a SharedSourceSpec, usize)>;

/// The same of those who have something of it computed.
type Viewed<'a> = Vec<(&'a ViewSpec, usize)>;

/// How a query reads its table when all of them run.
struct Reading<'a> {
    scan: &'a ScanSpec,
    way: Way,
    rows: Option<&'a SharedSourceSpec>,
    view: Option<&'a ViewSpec>,
}

/// Of each query; `None` of one that can do nothing of it with others.
fn readings(queries: &[PlannedQuery], at_least: usize) -> Vec<Option<Reading<'_>>> {
    let mut readings: Vec<_> = queries.iter().map(|query| shared_source(&query.dataflow)).collect();
    let mut by_table: HashMap<*const TableSpec, Vec<usize>> = HashMap::new();
    for (place, reading) in readings.iter().enumerate() {
        if let Some(Reading { scan, .. }) = reading {
            by_table.entry(Arc::as_ptr(&scan.table)).or_default().push(place);
        }
    }
    for places in by_table.into_values() {
        let of_table = places.iter().filter_map(|place| readings[*place].as_ref());
        let all: Vec<Ways<'_>> = of_table
            .map(|&Reading { scan, rows, view, .. }| Ways { columns: &scan.columns, rows, view })
            .collect();
        for (place, way) in places.into_iter().zip(Way::of_all(&all, at_least)) {
            if let Some(reading) = &mut readings[place] {
                reading.way = way;
            }
        }
    }
    readings
}

/// Slices that templates have in common that are alike but for their windows: those of each are the first that hers fit in.
type Common = HashMap<*const Template, (*const SlicerSpec, usize)>;

/// Those who have the same rows aggregated by the same slices.
type Audience<'a> = (*const SlicerSpec, usize, &'a Access);

fn slices(readings: &[Option<Reading<'_>>]) -> Common {
    let mut found: HashMap<*const SlicerSpec, Vec<CommonSlices>> = HashMap::new();
    let mut of_templates = Common::new();
    let specs = readings.iter().flatten().filter_map(|reading| reading.rows);
    for template in specs.filter_map(|spec| spec.template.as_ref()) {
        let Some((slicer, slice_ms)) = template.slices() else { continue };
        let slicer = Arc::as_ptr(slicer);
        if of_templates.contains_key(&Arc::as_ptr(template)) {
            continue;
        }
        let of_it = found.entry(slicer).or_default();
        let fits = of_it.iter().enumerate().find_map(|(place, known)| Some((place, known.with(slice_ms)?)));
        let place = match fits {
            Some((place, common)) => {
                of_it[place] = common;
                place
            }
            None => {
                of_it.push(CommonSlices::of(slice_ms));
                of_it.len() - 1
            }
        };
        of_templates.insert(Arc::as_ptr(template), (slicer, place));
    }
    of_templates
}

fn audience<'a>(
    spec: &'a SharedSourceSpec,
    template: &Arc<Template>,
    slices: &Common,
) -> Option<Audience<'a>> {
    let (slicer, place) = slices.get(&Arc::as_ptr(template))?;
    Some((*slicer, *place, spec.access()?))
}

/// Whether these do something together, or would if they were more.
fn is_alike(way: Way, one: &SharedSourceSpec, other: &SharedSourceSpec) -> bool {
    (way == Way::Rows || one.gets_every_row() == other.gets_every_row()) && one.source == other.source
}

fn count<T: Copy>(alike: &mut Vec<(T, usize)>, one: T, is_alike: impl Fn(T) -> bool) {
    match alike.iter_mut().find(|(other, _)| is_alike(*other)) {
        Some((_, count)) => *count += 1,
        None => alike.push((one, 1)),
    }
}

fn others(count: usize) -> String {
    match count - 1 {
        1 => "1 other".to_owned(),
        others => format!("{others} others"),
    }
}

/// What a query asks of its table that others may ask too.
fn shared_source(flow: &Dataflow<Stage<ScanSpec, SinkSpec>>) -> Option<Reading<'_>> {
    let mut nodes = flow.nodes().iter().filter(|_| can_be_shared(flow));
    nodes.find_map(|node| match &node.stage {
        Stage::Source { scan, shared: rows, view, .. } if rows.is_some() || view.is_some() => Some(Reading {
            scan,
            way: Way::Alone,
            rows: rows.as_ref().map(|stage| &*stage.spec),
            view: view.as_ref().and_then(|stage| stage.spec.view()),
        }),
        _ => None,
    })
}

/// By how many queries each table is read.
fn readers(queries: &[PlannedQuery]) -> HashMap<*const TableSpec, usize> {
    let mut readers = HashMap::new();
    for query in queries {
        let mut own: Vec<_> = tables(&query.dataflow).map(Arc::as_ptr).collect();
        own.sort_unstable();
        own.dedup();
        own.into_iter().for_each(|table| *readers.entry(table).or_insert(0) += 1);
    }
    readers
}

fn tables(flow: &Dataflow<Stage<ScanSpec, SinkSpec>>) -> impl Iterator<Item = &Arc<TableSpec>> {
    flow.nodes().iter().filter_map(|node| match &node.stage {
        Stage::Source { scan, .. } => Some(&scan.table),
        _ => None,
    })
}

/// Why windows of a query over a table that others read too are put together of nothing that these have; `None` if it
/// aggregates nothing. `is_too_short`: others have the same rows aggregated in the same way.
fn why_apart(query: &PlannedQuery, at_least: usize, is_too_short: bool) -> Option<String> {
    match &query.windows {
        Windows::None => None,
        Windows::Apart(why) => Some(why.clone()),
        Windows::Shareable if is_too_short => {
            Some("slices that fit windows of others too would be too short".to_owned())
        }
        Windows::Shareable => Some(format!("fewer than {at_least} aggregate the same rows in the same way")),
    }
}

fn sinks(flow: &Dataflow<Stage<ScanSpec, SinkSpec>>) -> impl Iterator<Item = &SinkSpec> {
    flow.nodes().iter().filter_map(|node| match &node.stage {
        Stage::Sink(sink) => Some(sink),
        _ => None,
    })
}
