//! Engines whose thread names are known beforehand: Apache Storm, and our own with a thread per operator.

use std::time::Duration;

use regex::Regex;

use super::{Names, SeriesSpec, ThreadsSpec};
use crate::metric::Metric;

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern is right")
}

/// An executor without work asks for a thousand sleeps of a nanosecond before it sleeps for a millisecond
/// (`topology.bolt.wait.progressive.*`): with the kernel's 50 µs, asking costs a tenth of a busy machine.
const STORM_TIMER_SLACK: Duration = Duration::from_millis(1);

/// Apache Storm 2.x: executor threads of worker processes, and the metrics that its Graphite reporter pushes to us
/// (`org.apache.storm.metrics2.reporters.GraphiteStormReporter`). Components whose name begins with two underscores are
/// Storm's own.
pub fn storm() -> ThreadsSpec {
    // storm.worker.TOPOLOGY.HOST.COMPONENT[.STREAM].TASK.PORT-NAME, as Storm 2.8.3 pushes them; streams whose name begins
    // with an underscore are Storm's own.
    let series = |metric, name: &str| SeriesSpec {
        metric,
        series: regex(&format!(
            r"storm\.worker\.(?P<query>[^.]+?)-\d+-\d+\.[^.]+\.(?P<operator>[^._][^.]*|_[^._][^.]*)\.(?:[^.]+\.)?-?\d+\.\d+-{name}$"
        )),
        scale: 1.0,
    };
    ThreadsSpec {
        name: "Storm".to_owned(),
        process: regex(r"org\.apache\.storm\.daemon\.worker\.Worker (?P<query>\S+?)-\d+-\d+(?: |$)"),
        names: Names::Jvm,
        thread: regex(r"^Thread-\d+-(?P<operator>[^_].*|_[^_].*)-executor\[(?P<instance>\d+)[, ]+\d+\]$"),
        query: "storm".to_owned(),
        edges: Vec::new(),
        prometheus: None,
        graphite: None,
        metrics: vec![
            series(Metric::QueueRows, "receive-queue-population"),
            series(Metric::RowsIn, r"__execute-count-[^.]+\.count"),
            series(Metric::RowsOut, r"__emit-count-[^._][^.]*\.count"),
        ],
        timer_slack: Some(STORM_TIMER_SLACK),
    }
}

/// `laxity run --policy os`: a thread per operator, named `op-…`. Linux cuts the names, so operators whose names begin
/// alike count as one.
pub fn own_engine() -> ThreadsSpec {
    ThreadsSpec {
        name: "Laxity".to_owned(),
        process: regex(r"^(?:\S*/)?laxity run "),
        names: Names::Linux,
        thread: regex(r"^op-(?P<operator>.+)$"),
        query: "laxity".to_owned(),
        edges: Vec::new(),
        prometheus: None,
        graphite: None,
        metrics: Vec::new(),
        timer_slack: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group<'a>(regex: &Regex, text: &'a str, name: &str) -> Option<&'a str> {
        Some(regex.captures(text)?.name(name)?.as_str())
    }

    #[test]
    fn storms_threads_and_workers_are_known() {
        let storm = storm();
        let thread = "Thread-14-lat-work-executor[3, 3]";
        assert_eq!(group(&storm.thread, thread, "operator"), Some("lat-work"));
        assert_eq!(group(&storm.thread, thread, "instance"), Some("3"));
        assert_eq!(group(&storm.thread, "Thread-9-__acker-executor[1, 1]", "operator"), None);
        let worker = "java -cp x org.apache.storm.daemon.worker.Worker my-job-1-1795181700 a-b 6628 16700 0c";
        assert_eq!(group(&storm.process, worker, "query"), Some("my-job"));
    }

    #[test]
    fn storms_series_are_known() {
        let storm = storm();
        let queue = "storm.worker.my-job-1-1795181700.host.lat-work.3.6700-receive-queue-population";
        assert_eq!(group(&storm.metrics[0].series, queue, "operator"), Some("lat-work"));
        assert_eq!(group(&storm.metrics[0].series, queue, "query"), Some("my-job"));
        let count = "storm.worker.my-job-1-1795181700.host.lat-work.default.3.6700-__execute-count-spout:default.count";
        assert_eq!(group(&storm.metrics[1].series, count, "operator"), Some("lat-work"));
        let rate = count.replace(".count", ".m1_rate");
        assert_eq!(group(&storm.metrics[1].series, &rate, "operator"), None);
        let out = "storm.worker.my-job-1-1795181700.host.lat-spout.default.2.6700-__emit-count-default.count";
        assert_eq!(group(&storm.metrics[2].series, out, "operator"), Some("lat-spout"));
        let acks =
            "storm.worker.my-job-1-1795181700.host.lat-spout.__ack_init.2.6700-__emit-count-__ack_init.count";
        assert_eq!(group(&storm.metrics[2].series, acks, "operator"), None);
        let own = "storm.worker.my-job-1-1795181700.host.__acker.1.6700-receive-queue-population";
        assert_eq!(group(&storm.metrics[0].series, own, "operator"), None);
    }
}
