//! The costs of work that was done once for several queries, and what of it is done once when there are more tenants.

use std::collections::HashMap;

use laxity_engine::{LookCosts, SharedWork, TemplateWork};
use laxity_graph::{QueryId, WindowShape};
use laxity_sim::{FeedId, FrontMember, SharedFront, SharedTemplate};
use laxity_workload::Cost;
use serde::{Deserialize, Serialize};

use crate::simulate::costs::FeedCosts;
use crate::simulate::model::Model;

/// What queries that read a table together had done for them as one.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SharedCosts {
    /// What came.
    pub feed: FeedCosts,
    /// Of a batch, whoever has rows in it.
    pub batches: LineCosts,
    /// Of handing rows to operators of one query alone.
    pub handed: LineCosts,
    /// In the order that they joined in.
    pub members: Vec<MemberCosts>,
    /// The operators of those that are done as one.
    pub templates: Vec<TemplateCosts>,
}

/// Time of so many things.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct LineCosts {
    /// Of a call, ns.
    pub fixed_ns: f64,
    /// Of each row of it, ns.
    pub per_row_ns: f64,
}

/// One of them.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct MemberCosts {
    /// The query's name.
    pub query: String,
    /// Rows that were its.
    pub rows: u64,
    /// Its template, by place.
    pub template: Option<usize>,
}

/// What one operator did for the queries of a template.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct TemplateCosts {
    /// Of a batch, and of each row of its queries in it.
    pub taken: LineCosts,
    /// Of windows that are fired, and of each result that comes of that.
    pub fired: LineCosts,
    /// Rows taken.
    pub rows_in: u64,
    /// What one query had of one window, each once.
    pub results: u64,
    /// Rows of them.
    pub rows_out: u64,
}

impl SharedCosts {
    /// Those of what was written down in a run that began then.
    pub fn of(work: &SharedWork, first_ns: u64) -> SharedCosts {
        let clock = work.members.iter().find_map(|member| member.query.event_clock.get());
        let members = work.members.iter().map(|member| MemberCosts {
            query: member.query.settings.name.clone(),
            rows: member.rows,
            template: member.template,
        });
        SharedCosts {
            feed: FeedCosts::of_arrivals(&work.arrivals, clock, first_ns),
            batches: LineCosts::of(work.batches),
            handed: LineCosts::of(work.handed),
            members: members.collect(),
            templates: work.templates.iter().map(TemplateCosts::of).collect(),
        }
    }

    fn rows(&self) -> u64 {
        self.feed.arrivals.iter().map(|arrival| u64::from(arrival.rows)).sum()
    }

    /// How many of its queries are done as one with others, and as how many.
    pub fn as_one(&self) -> (usize, usize) {
        (self.members.iter().filter(|member| member.template.is_some()).count(), self.templates.len())
    }
}

impl LineCosts {
    fn of(costs: LookCosts) -> LineCosts {
        let (fixed_ns, per_row_ns) = costs.line();
        LineCosts { fixed_ns, per_row_ns }
    }
}

impl TemplateCosts {
    fn of(work: &TemplateWork) -> TemplateCosts {
        TemplateCosts {
            taken: LineCosts::of(work.taken),
            fired: LineCosts::of(work.fired),
            rows_in: work.taken.rows,
            results: work.fired.rows,
            rows_out: work.rows_out,
        }
    }

    fn template(&self, window: WindowShape, row_bytes: u32) -> SharedTemplate {
        let overlaps = (window.size_ms as f64 / window.slide_ms.max(1) as f64).max(1.0);
        let selectivity = self.rows_out as f64 / (self.rows_in as f64 * overlaps).max(1.0);
        let groups = self.rows_out as f64 / self.results.max(1) as f64;
        SharedTemplate {
            cost: Cost {
                fixed_ns: self.taken.fixed_ns,
                per_row_ns: self.taken.per_row_ns,
                watermark_ns: self.fired.fixed_ns,
            },
            result_ns: self.fired.per_row_ns,
            window,
            selectivity,
            rows_max: super::model::groups_max(selectivity, groups),
            row_bytes,
        }
    }
}

/// What is done as one in a workload of so many tenants.
pub fn fronts(models: &[Model], shared: &[SharedCosts], tenants: usize) -> Vec<SharedFront> {
    let places: HashMap<&str, usize> =
        models.iter().enumerate().map(|(place, model)| (model.name(), place)).collect();
    let front = |tenant: usize, shared: &SharedCosts| {
        let rows = shared.rows().max(1) as f64;
        let model_of = |member: &MemberCosts| Some(*places.get(member.query.as_str())?);
        let members = shared.members.iter().filter_map(|member| {
            let query = QueryId((tenant * models.len() + model_of(member)?) as u32);
            let share = member.rows as f64 / rows;
            Some(FrontMember { feed: FeedId { query, feed: 0 }, share, template: member.template })
        });
        let templates = shared.templates.iter().enumerate().map(|(place, template)| {
            let of_it = shared.members.iter().filter(|member| member.template == Some(place));
            let (window, row_bytes) = of_it
                .filter_map(|member| models[model_of(member)?].window())
                .next()
                // Nobody of it is asked about, so that it has nothing to do.
                .unwrap_or((WindowShape { size_ms: 1, slide_ms: 1, end_ms: Some(0) }, 0));
            template.template(window, row_bytes)
        });
        SharedFront {
            batch_ns: shared.batches.fixed_ns,
            row_ns: shared.batches.per_row_ns,
            members: members.collect(),
            templates: templates.collect(),
        }
    };
    (0..tenants).flat_map(|tenant| shared.iter().map(move |shared| front(tenant, shared))).collect()
}
