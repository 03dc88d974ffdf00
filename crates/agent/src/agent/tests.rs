//! On an engine made of a topology and fixed counters. Cannot catch: what the kernel does with a plan.

use super::*;
use crate::AdapterError;
use crate::metric::{Driver, Values};
use crate::topology::tests::chains;

struct Still {
    topology: Topology,
    /// NaN: not told.
    queues: Vec<f64>,
    fails: bool,
}

impl Driver for Still {
    fn engine(&self) -> &str {
        "Still"
    }

    fn provides(&self, metric: Metric) -> bool {
        metric == Metric::QueueRows
    }

    fn read(&mut self, _: Metric, _: &Topology) -> Values {
        self.queues.iter().map(|&rows| (!rows.is_nan()).then_some(rows)).collect()
    }
}

impl Adapter for Still {
    fn refresh(&mut self, wishes: &dyn Fn(&str) -> Wishes) -> Result<bool, AdapterError> {
        if self.fails {
            return Err(AdapterError::Absent("Still is away".into()));
        }
        for query in &mut self.topology.queries {
            query.wishes = wishes(&query.name);
        }
        Ok(false)
    }

    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn processes(&self) -> BTreeSet<u32> {
        BTreeSet::new()
    }

    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }
}

fn still(queues: &[f64]) -> Box<dyn Adapter> {
    let topology = chains(&vec![1; queues.len()]);
    Box::new(Still { topology, queues: queues.to_vec(), fails: false })
}

fn agent(engine: Box<dyn Adapter>, uses: Vec<PolicyUse>) -> Agent {
    Agent::new(vec![engine], uses, Vec::new(), Translator::Nice, Ranges::default()).unwrap()
}

fn using(policy: &str, jobs: &[&str]) -> PolicyUse {
    let mut used = PolicyUse::new(policy.parse().unwrap(), Duration::from_secs(1));
    used.jobs = jobs.iter().map(|&job| job.to_owned()).collect();
    used
}

fn nices(report: &Report) -> Vec<Option<i32>> {
    report.rows.iter().map(|row| row.setting.nice).collect()
}

#[test]
fn a_dry_round_shows_the_plan_and_then_only_what_changes() {
    let mut agent = agent(still(&[0.0, 50.0, 100.0]), vec![using("congestion", &[])]);
    let report = agent.round().unwrap();
    assert!(report.is_dry);
    // ln 101 spans the range, and ln 51 is 17 twentieths of it.
    assert_eq!(nices(&report), [Some(10), Some(-7), Some(-10)]);
    // Two groups, and for each of three threads a move and a nice value.
    assert_eq!(report.changes.len(), 8);
    let again = agent.round().unwrap();
    assert_eq!((again.changes.len(), nices(&again)), (0, nices(&report)));
    let shown = crate::report::table(&report, 160, None);
    assert!(shown.contains("congestion") && shown.contains("dry run") && shown.contains("q2"), "{shown}");
}

#[test]
fn each_query_follows_its_own_policy() {
    let uses = vec![using("static", &["q2"]), using("congestion", &[])];
    let mut agent = agent(still(&[0.0, 50.0, 100.0]), uses);
    // Alone under its policy q2 is the best of one. Of the others one has 51 times the queue: ln 51 / ln 1.25 = 17.6 steps.
    assert_eq!(nices(&agent.round().unwrap()), [Some(8), Some(-10), Some(-10)]);
}

#[test]
fn where_nothing_is_known_all_get_the_middle() {
    for (policy, translator) in [("qs", Translator::Nice), ("congestion", Translator::QuerySharesNice)] {
        let mut agent = agent(still(&[f64::NAN; 2]), vec![using(policy, &[])]);
        agent.translator = translator;
        agent.ranges.nice = (-20, 10);
        assert_eq!(nices(&agent.round().unwrap()), [Some(-5); 2], "{policy}");
    }
}

#[test]
fn a_policy_is_switched_to_above_a_load_and_left_below() {
    let mut used = using("congestion", &[]);
    used.above_busy = Some(0.8);
    let mut was = Vec::new();
    for busy in [None, Some(0.5), Some(0.85), Some(0.75), Some(0.7), Some(0.79)] {
        used.update_condition(busy);
        was.push(used.is_on);
    }
    assert_eq!(was, [false, false, true, true, false, false]);
}

#[test]
fn an_engine_that_does_not_answer_keeps_its_plan() {
    let mut still = Still { topology: chains(&[1, 1]), queues: vec![0.0, 99.0], fails: true };
    still.topology.queries[0].name = "kept".into();
    let mut agent = agent(Box::new(still), vec![using("congestion", &[])]);
    let report = agent.round().unwrap();
    assert_eq!(report.notes, ["Still is away (the last plan stays)"]);
    assert_eq!(nices(&report), [Some(10), Some(-10)]);
    assert!(agent.round().unwrap().notes.is_empty(), "said once");
}

/// Answers as often as it is let.
struct Slow {
    still: Still,
    let_go: std::sync::mpsc::Receiver<()>,
}

impl Driver for Slow {
    fn engine(&self) -> &str {
        "Slow"
    }

    fn provides(&self, metric: Metric) -> bool {
        self.still.provides(metric)
    }

    fn read(&mut self, metric: Metric, topology: &Topology) -> Values {
        self.still.read(metric, topology)
    }
}

impl Adapter for Slow {
    fn refresh(&mut self, wishes: &dyn Fn(&str) -> Wishes) -> Result<bool, AdapterError> {
        self.still.queues[1] += 20.0;
        let _ = self.let_go.recv();
        self.still.refresh(wishes)
    }

    fn topology(&self) -> &Topology {
        &self.still.topology
    }

    fn processes(&self) -> BTreeSet<u32> {
        BTreeSet::new()
    }

    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }
}

#[test]
fn an_engine_that_hangs_holds_up_neither_the_round_nor_the_others() {
    let (go, let_go) = std::sync::mpsc::channel();
    let mut topology = chains(&[1, 1]);
    topology.queries.iter_mut().for_each(|query| query.key = format!("slow/{}", query.key).into());
    topology.tasks.iter_mut().for_each(|task| task.threads[0].id.tid += 1_000);
    let slow = Slow { still: Still { topology, queues: vec![0.0, 0.0], fails: false }, let_go };
    let mut used = using("congestion", &[]);
    used.period = Duration::from_millis(100);
    let engines: Vec<Box<dyn Adapter>> = vec![Box::new(slow), still(&[0.0, 10.0])];
    let mut agent = Agent::new(engines, vec![used], Vec::new(), Translator::Nice, Ranges::default()).unwrap();
    go.send(()).unwrap();
    let queues = |report: &Report| report.rows.iter().map(|row| row.queue_rows.unwrap()).collect::<Vec<_>>();
    assert_eq!(queues(&agent.round().unwrap()), [0.0, 20.0, 0.0, 10.0]);
    // It hangs: what was known of it stays, and a round takes half a period more and not as long as it hangs.
    for _ in 0..3 {
        let report = agent.round().unwrap();
        assert_eq!(queues(&report), [0.0, 20.0, 0.0, 10.0]);
        assert!(report.took < Duration::from_secs(2), "{:?}", report.took);
    }
    go.send(()).unwrap();
    // Asked once in all that time; what it says now is taken.
    assert!((0..200).any(|_| queues(&agent.round().unwrap())[1] == 40.0));
}

#[test]
fn rounds_are_as_often_as_all_periods_need() {
    let mut slow = using("congestion", &[]);
    slow.period = Duration::from_millis(1_500);
    let agent = agent(still(&[0.0]), vec![using("static", &["x"]), slow]);
    assert_eq!(agent.period(), Duration::from_millis(500));
}

#[test]
fn a_job_that_is_not_there_is_said() {
    let wish = JobWish { name: "alarms".into(), wishes: Wishes::default() };
    let uses = vec![using("static", &[])];
    let mut agent =
        Agent::new(vec![still(&[0.0])], uses, vec![wish], Translator::Nice, Ranges::default()).unwrap();
    assert_eq!(agent.round().unwrap().notes, ["no job is named \"alarms\" yet; running: q0"]);
}

#[test]
fn a_deadline_is_known_without_metrics() {
    for policy in ["llf", "edf", "laxity"] {
        let wish = |name: &str, ms| JobWish {
            name: name.into(),
            wishes: Wishes::within(Duration::from_millis(ms)).unwrap(),
        };
        let (uses, jobs) = (vec![using(policy, &[])], vec![wish("q0", 5_000), wish("q1", 50)]);
        let mut agent =
            Agent::new(vec![still(&[0.0, 0.0])], uses, jobs, Translator::Nice, Ranges::default()).unwrap();
        assert_eq!(nices(&agent.round().unwrap()), [Some(10), Some(-10)], "{policy}");
    }
}

#[test]
fn a_policy_that_needs_more_than_an_engine_tells_is_refused() {
    let uses = vec![using("hr", &[])];
    let made = Agent::new(vec![still(&[0.0])], uses, Vec::new(), Translator::Nice, Ranges::default());
    let error = made.err().unwrap().to_string();
    assert!(error.contains("policy hr needs metric cost, but Still does not provide"), "{error}");
}
