//! How each of those who begin to read a table together is to read it.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion_physical_expr::PhysicalExpr;

use super::view::ViewRows;
use super::{SharedSourceSpec, ViewSpec};

/// How a query reads a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It looks at all rows itself.
    Alone,
    /// It is given the rows that its filter may keep.
    Rows,
    /// It is given what is computed for it and others.
    View,
}

/// How a query can read a table with others.
#[derive(Clone, Copy, Debug)]
pub struct Ways<'a> {
    /// The columns that it reads.
    pub columns: &'a [usize],
    /// By its filter.
    pub rows: Option<&'a SharedSourceSpec>,
    /// By what it computes.
    pub view: Option<&'a ViewSpec>,
}

/// Where filters can be looked up, more views than that are no longer cheaper than to look them up: each asks its filter of
/// every row. Picked: about here the index costs what the filters cost.
const VIEWS_MAX: usize = 16;

/// By whom something is done at once, at least: for one alone it would only cost.
const VIEWED_BY_MIN: usize = 2;

impl Way {
    /// Of each of these. Those who ask the same of each row are to be `at_least` so many before an index tells their rows
    /// apart.
    ///
    /// Those without a filter are to be as many: their rows are held until their windows end, and aggregated once for those who
    /// do that in one way. Of the others, who has something computed with others is better off with that.
    pub fn of_all(all: &[Ways<'_>], at_least: usize) -> Vec<Way> {
        let read_alike = are_many(all, at_least, |own, other| {
            own.gets_every_row() == other.gets_every_row() && own.source == other.source
        });
        let is_aggregated = are_many(all, at_least, SharedSourceSpec::aggregates_as);
        let way = |&is_many: &bool| if is_many { Way::Rows } else { Way::Alone };
        let mut ways: Vec<Way> = read_alike.iter().map(way).collect();
        let mut views: HashMap<&ViewRows, Vec<usize>> = HashMap::new();
        for (place, view) in all.iter().enumerate().filter_map(|(place, of_it)| Some((place, of_it.view?))) {
            views.entry(&view.rows).or_default().push(place);
        }
        views.values_mut().for_each(|places| keep_common(all, places));
        views.retain(|_, places| places.len() >= VIEWED_BY_MIN);
        let of_filters = views.keys().filter(|rows| !rows.predicates.is_empty()).count();
        for place in views.into_values().flatten().filter(|place| !is_aggregated[*place]) {
            if ways[place] == Way::Alone || of_filters <= VIEWS_MAX {
                ways[place] = Way::View;
            }
        }
        ways
    }
}

/// Of those who have the same rows of a table, who have a filter or an expression in common with another.
fn keep_common(all: &[Ways<'_>], places: &mut Vec<usize>) {
    let views = || places.iter().filter_map(|place| all[*place].view);
    if views().next().is_some_and(ViewSpec::is_filtered) {
        return;
    }
    let mut used: HashMap<&Arc<dyn PhysicalExpr>, usize> = HashMap::new();
    for view in views() {
        view.computes().into_iter().for_each(|expr| *used.entry(expr).or_insert(0) += 1);
    }
    let is_common =
        |expr: &&Arc<dyn PhysicalExpr>| used.get(*expr).is_some_and(|users| *users >= VIEWED_BY_MIN);
    let has_common = |view: &ViewSpec| view.computes().iter().any(is_common);
    let common = places.iter().copied().filter(|place| all[*place].view.is_some_and(has_common));
    *places = common.collect();
}

/// Of each, whether it is one of so many that are alike and read the same columns.
fn are_many(
    all: &[Ways<'_>],
    at_least: usize,
    is_alike: impl Fn(&SharedSourceSpec, &SharedSourceSpec) -> bool,
) -> Vec<bool> {
    let is_kin = |one: &Ways<'_>, other: &Ways<'_>| {
        let (Some(own), Some(others)) = (one.rows, other.rows) else { return false };
        one.columns == other.columns && is_alike(own, others)
    };
    // One of each kind, and how many they are.
    let mut kinds: Vec<(Ways<'_>, usize)> = Vec::new();
    for ways in all {
        match kinds.iter_mut().find(|(other, _)| is_kin(ways, other)) {
            Some((_, count)) => *count += 1,
            None if ways.rows.is_some_and(|rows| is_alike(rows, rows)) => kinds.push((*ways, 1)),
            None => {}
        }
    }
    let is_many = |ways| kinds.iter().any(|(other, count)| *count >= at_least && is_kin(ways, other));
    all.iter().map(is_many).collect()
}
