//! Every workload by name, with default parameters: for tests that run them all, and for whoever asks by name.

use crate::aurora::Trees;
use crate::ipq::{self, Ipq, Job, Tenants};
use crate::klink::Fleet;
use crate::lachesis::Testbed;
use crate::linear_road::{self, Correct};
use crate::nyt::Nyt;
use crate::riot::{Etl, Stats};
use crate::syn::Syn;
use crate::voip::VoipStream;
use crate::ysb::Ysb;
use crate::{Workload, WorkloadError, rate_for_load};

/// A workload that can be asked for by name.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The name.
    pub name: &'static str,
    /// One line for a list.
    pub about: &'static str,
    /// Cores that its paper ran it on; of a cluster, all together. Its default rate need not fill them.
    pub cores: usize,
    make: fn(u64, Scale) -> Result<Workload, WorkloadError>,
}

/// How much of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Times the default number of queries, or of sources and instances where there is one query; at least one is left.
    pub size: f64,
    /// Times the default rate of every input.
    pub rate: f64,
}

impl Scale {
    /// As the papers have it.
    pub const FULL: Scale = Scale { size: 1.0, rate: 1.0 };

    fn of(self, count: usize) -> usize {
        ((count as f64 * self.size).round() as usize).max(1)
    }
}

/// No workload has that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no workload is called {name:?}: expected one of {}", names().join(", "))]
pub struct UnknownWorkload {
    /// As asked for.
    pub name: String,
}

impl Named {
    /// The workload. The same seed and scale give the same one.
    ///
    /// # Errors
    /// If the scale is out of its range.
    pub fn build(&self, seed: u64, scale: Scale) -> Result<Workload, WorkloadError> {
        for (name, value) in [("size", scale.size), ("rate", scale.rate)] {
            if !(value.is_finite() && value > 0.0) {
                let expected = "a number above 0";
                return Err(WorkloadError::Parameter { workload: self.name, name, value, expected });
            }
        }
        (self.make)(seed, scale)
    }

    /// The workload with its rates multiplied so that it keeps the workers of so many cores, computing or asleep: with
    /// 0.9 × 4, nine tenths of four.
    ///
    /// # Errors
    /// If the size is out of its range or no rate gives the load.
    pub fn build_at_load(&self, seed: u64, size: f64, cores: f64) -> Result<Workload, WorkloadError> {
        let rate = rate_for_load(cores, |rate| self.build(seed, Scale { size, rate }))?;
        self.build(seed, Scale { size, rate })
    }
}

/// All workloads.
pub fn all() -> &'static [Named] {
    &ALL
}

/// The workload of that name.
///
/// # Errors
/// If there is none; the error lists them.
pub fn named(name: &str) -> Result<&'static Named, UnknownWorkload> {
    ALL.iter().find(|named| named.name == name).ok_or_else(|| UnknownWorkload { name: name.into() })
}

fn names() -> Vec<&'static str> {
    ALL.iter().map(|named| named.name).collect()
}

const ALL: [Named; 27] = [
    Named {
        name: "aurora-trees",
        about: "five trees of boxes, fan-out 3, depth 5 (Aurora, Fig. 5)",
        cores: 1,
        make: |seed, scale| trees(Trees::default(), seed, scale),
    },
    Named {
        name: "aurora-qos",
        about: "twenty chains of five boxes with tight and loose utility curves (Aurora, Fig. 11)",
        cores: 1,
        make: |seed, scale| trees(Trees::qos(), seed, scale),
    },
    Named {
        name: "aurora-lines",
        about: "two hundred chains of five boxes with drawn utility curves (Aurora, Fig. 13)",
        cores: 1,
        make: |seed, scale| trees(Trees::straight_lines(), seed, scale),
    },
    Named {
        name: "ipq1",
        about: "revenue of advertisements by windows of 1 s from 64 sources (Cameo, Fig. 7)",
        cores: 4,
        make: |seed, scale| single(&[Ipq::Revenue], seed, scale),
    },
    Named {
        name: "ipq2",
        about: "the same over sliding windows",
        cores: 4,
        make: |seed, scale| single(&[Ipq::RevenueSliding], seed, scale),
    },
    Named {
        name: "ipq3",
        about: "events counted by windows of 1 s",
        cores: 4,
        make: |seed, scale| single(&[Ipq::Events], seed, scale),
    },
    Named {
        name: "ipq4",
        about: "two log streams joined by windows of 1 s, then summarised",
        cores: 4,
        make: |seed, scale| single(&[Ipq::Errors], seed, scale),
    },
    Named {
        name: "ipq",
        about: "one job of each of IPQ1 to IPQ4",
        cores: 4,
        make: |seed, scale| single(&Ipq::ALL, seed, scale),
    },
    Named {
        name: "cameo-tenants",
        about: "four latency-sensitive jobs beside eight bulk ones (Cameo, Fig. 8)",
        cores: 128,
        make: |seed, scale| tenants(Tenants::default(), seed, scale),
    },
    Named {
        name: "cameo-pareto",
        about: "the same, bulk volume drawn from a Pareto law every second (Cameo, Fig. 9)",
        cores: 128,
        make: |seed, scale| tenants(Tenants::bursty(), seed, scale),
    },
    Named {
        name: "cameo-type-1",
        about: "the tenants with twice the volume from even sources (Cameo, Fig. 10)",
        cores: 128,
        make: |seed, scale| tenants(Tenants::type_1(), seed, scale),
    },
    Named {
        name: "cameo-type-2",
        about: "the tenants with sources whose rates differ by 200 times (Cameo, Fig. 10)",
        cores: 128,
        make: |seed, scale| tenants(Tenants::type_2(), seed, scale),
    },
    Named {
        name: "ysb",
        about: "Yahoo streaming benchmark: views per campaign in 10 s",
        cores: 24,
        make: |seed, scale| Ysb { fleet: fleet(Fleet::default(), scale), ..Ysb::original() }.build(seed),
    },
    Named {
        name: "ysb-klink",
        about: "40 queries that count events in 3 s, uniform network delays (Klink, Fig. 6)",
        cores: 24,
        make: |seed, scale| Ysb { fleet: fleet(Fleet::default(), scale), ..Ysb::klink() }.build(seed),
    },
    Named {
        name: "ysb-klink-zipf",
        about: "the same under Zipf delays",
        cores: 24,
        make: |seed, scale| Ysb { fleet: fleet(Fleet::zipf(), scale), ..Ysb::klink() }.build(seed),
    },
    Named {
        name: "lrb-klink",
        about: "40 Linear Road queries with short windows and a join of three sub-streams (Klink, Fig. 7)",
        cores: 24,
        make: |seed, scale| lrb(linear_road::Klink::default(), Fleet::default(), seed, scale),
    },
    Named {
        name: "lrb-klink-zipf",
        about: "the same under Zipf delays, each sub-stream with delays of its own",
        cores: 24,
        make: |seed, scale| {
            lrb(linear_road::Klink { is_split: true, ..Default::default() }, Fleet::zipf(), seed, scale)
        },
    },
    Named {
        name: "lrb-klink-stressed",
        about: "the same with a last window of a third of the earlier ones' length",
        cores: 24,
        make: |seed, scale| {
            lrb(linear_road::Klink { is_stressed: true, ..Default::default() }, Fleet::default(), seed, scale)
        },
    },
    Named {
        name: "nyt",
        about: "40 queries of stateless operators and a window sliding by 1 s over 2 s (Klink, Fig. 7)",
        cores: 24,
        make: |seed, scale| Nyt { fleet: fleet(Fleet::default(), scale) }.build(seed),
    },
    Named {
        name: "nyt-zipf",
        about: "the same under Zipf delays",
        cores: 24,
        make: |seed, scale| Nyt { fleet: fleet(Fleet::zipf(), scale) }.build(seed),
    },
    Named {
        name: "linear-road",
        about: "Linear Road by its own rules, an expressway per query, a minute passing in a second",
        cores: 4,
        make: |seed, scale| {
            let expressways = scale.of(2);
            Correct { expressways, rate: scale.rate, speed: 60.0, ..Correct::default() }.build(seed)
        },
    },
    Named {
        name: "linear-road-lachesis",
        about: "Linear Road as nine operators without windows (Lachesis, Fig. 11)",
        cores: 4,
        make: |seed, scale| linear_road::Lachesis { testbed: testbed(scale) }.build(seed),
    },
    Named {
        name: "syn",
        about: "twenty chains of three filters with the costs of java.util.Random(0) (Lachesis, Fig. 14)",
        cores: 4,
        make: |seed, scale| syn(Syn::default(), seed, scale),
    },
    Named {
        name: "syn-blocking",
        about: "the same with filters that sleep now and then",
        cores: 4,
        make: |seed, scale| syn(Syn { is_blocking: true, ..Syn::default() }, seed, scale),
    },
    Named {
        name: "etl",
        about: "RIoTBench: sensors cleaned, joined and annotated (Lachesis, Fig. 9)",
        cores: 4,
        make: |seed, scale| Etl { testbed: testbed(scale) }.build(seed),
    },
    Named {
        name: "stats",
        about: "RIoTBench: three statistics of sensors side by side (Lachesis, Fig. 10)",
        cores: 4,
        make: |seed, scale| Stats { testbed: testbed(scale) }.build(seed),
    },
    Named {
        name: "voip",
        about: "telemarketers found by fifteen operators (Lachesis, Fig. 12)",
        cores: 4,
        make: |seed, scale| VoipStream { testbed: testbed(scale) }.build(seed),
    },
];

fn trees(trees: Trees, seed: u64, scale: Scale) -> Result<Workload, WorkloadError> {
    Trees { apps: scale.of(trees.apps), capacity: trees.capacity * scale.rate, ..trees }.build(seed)
}

/// Stages keep four instances: one operator fills one core at most, however small the rest.
fn instances(full: [usize; 3], scale: Scale) -> [usize; 3] {
    full.map(|count| scale.of(count).max(count.min(4)))
}

fn single(queries: &[Ipq], seed: u64, scale: Scale) -> Result<Workload, WorkloadError> {
    let jobs: Vec<Job> = queries
        .iter()
        .map(|&ipq| {
            let job = Job::latency_sensitive(ipq.name(), ipq);
            Job {
                sources: scale.of(job.sources).max(2),
                instances: instances(job.instances, scale),
                rows_per_s: job.rows_per_s * scale.rate,
                ..job
            }
        })
        .collect();
    ipq::jobs("IPQ", &jobs, seed)
}

fn tenants(tenants: Tenants, seed: u64, scale: Scale) -> Result<Workload, WorkloadError> {
    Tenants {
        sources: scale.of(tenants.sources).max(2),
        instances: instances(tenants.instances, scale),
        latency_sensitive_rows_per_s: tenants.latency_sensitive_rows_per_s * scale.rate,
        bulk_rows_per_s: tenants.bulk_rows_per_s * scale.rate,
        ..tenants
    }
    .build(seed)
}

fn fleet(fleet: Fleet, scale: Scale) -> Fleet {
    Fleet { queries: scale.of(fleet.queries), rate: fleet.rate * scale.rate, ..fleet }
}

fn lrb(klink: linear_road::Klink, of: Fleet, seed: u64, scale: Scale) -> Result<Workload, WorkloadError> {
    linear_road::Klink { fleet: fleet(of, scale), ..klink }.build(seed)
}

fn testbed(scale: Scale) -> Testbed {
    let testbed = Testbed::default();
    Testbed { queries: scale.of(testbed.queries), rate: testbed.rate * scale.rate, ..testbed }
}

fn syn(syn: Syn, seed: u64, scale: Scale) -> Result<Workload, WorkloadError> {
    Syn { queries: scale.of(syn.queries), rows_per_s: syn.rows_per_s * scale.rate, ..syn }.build(seed)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{Arrival, StageKind, offered_load};

    const SMALL: Scale = Scale { size: 0.05, rate: 1.0 };

    /// The first arrivals of every feed.
    fn arrivals(workload: Workload) -> Vec<Vec<Arrival>> {
        let feeds = workload.queries.into_iter().flat_map(|query| query.feeds);
        feeds.map(|mut feed| std::iter::from_fn(|| feed.arrivals.next()).take(60).collect()).collect()
    }

    #[test]
    fn every_workload_is_whole() {
        for named in all() {
            let workload = named.build(7, SMALL).unwrap();
            let mut names = HashSet::new();
            for query in &workload.queries {
                assert!(names.insert(query.dataflow.settings.name.clone()), "{}: names differ", named.name);
                let mut fed = HashSet::new();
                for feed in &query.feeds {
                    assert!(fed.insert((feed.node, feed.instance)), "{}: one feed per instance", named.name);
                }
                let is_source = |kind: &StageKind| matches!(kind, StageKind::Source);
                for (index, node) in query.dataflow.nodes().iter().enumerate() {
                    assert_eq!(is_source(&node.stage.kind), node.inputs.is_empty(), "{}", named.name);
                    let is_window = matches!(node.stage.kind, StageKind::Window { .. });
                    assert_eq!(is_window, node.window.is_some(), "{}: {}", named.name, node.name);
                    if node.inputs.is_empty() {
                        let id = laxity_graph::NodeId(index);
                        let instances = (0..node.parallelism).all(|instance| fed.contains(&(id, instance)));
                        assert!(instances, "{}: every source instance is fed", named.name);
                    }
                    let is_read = query.dataflow.consumers(laxity_graph::NodeId(index)).next().is_some();
                    let is_sink = matches!(node.stage.kind, StageKind::Sink);
                    assert_eq!(is_read, !is_sink, "{}: {} leads to a sink", named.name, node.name);
                }
            }
            for feed in arrivals(workload) {
                assert!(!feed.is_empty() && feed.is_sorted_by_key(|arrival| arrival.at), "{}", named.name);
                let marks: Vec<_> = feed.iter().filter_map(|arrival| arrival.watermark).collect();
                assert!(marks.is_sorted(), "{}", named.name);
            }
        }
    }

    #[test]
    fn load_can_be_set() {
        for named in all() {
            let workload = named.build_at_load(1, SMALL.size, 1.8).unwrap();
            let cores = offered_load(&workload).unwrap().workers();
            assert!((cores / 1.8 - 1.0).abs() < 1e-3, "{}: {cores}", named.name);
        }
    }

    #[test]
    fn seeds_repeat_and_differ() {
        for named in all() {
            let run = |seed| arrivals(named.build(seed, SMALL).unwrap());
            assert_eq!(run(1), run(1), "{}", named.name);
            assert_ne!(run(1), run(2), "{}", named.name);
        }
    }

    #[test]
    fn unknown_names_and_impossible_scales_are_refused() {
        assert_eq!(named("syn").unwrap().name, "syn");
        let error = named("sin").unwrap_err().to_string();
        assert!(
            error.starts_with("no workload is called \"sin\": expected one of aurora-trees, "),
            "{error}"
        );
        let error = ALL[0].build(0, Scale { size: 0.0, rate: 1.0 }).unwrap_err();
        assert_eq!(error.to_string(), "size = 0 of aurora-trees: expected a number above 0");
    }
}
