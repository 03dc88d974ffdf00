//! On answers and a thread dump captured from Flink 2.3.0. Cannot catch: what a live JobManager does between them.

use serde_json::Value;

use super::*;
use crate::topology::ThreadId;

#[derive(Debug)]
struct Captured(Value);

impl Api for Captured {
    fn base(&self) -> &str {
        "http://captured"
    }

    fn get(&self, path: &str) -> Result<String, HttpError> {
        let refused = || HttpError::Refused { url: path.to_owned(), status: 404, body: String::new() };
        self.0.get(path).map(Value::to_string).ok_or_else(refused)
    }
}

fn captured() -> Captured {
    Captured(serde_json::from_str(include_str!("../../../tests/fixtures/flink-2.3.0/rest.json")).unwrap())
}

#[test]
fn jobs_and_their_metrics_are_read() {
    let flink = Flink::over(Box::new(captured())).unwrap();
    let jobs = flink.jobs().unwrap();
    let names: Vec<&str> = jobs.iter().map(|(_, name, _)| name.as_str()).collect();
    assert_eq!(names, ["alarms", "alarms-2", "archive"]);
    let (_, _, archive) = &jobs[2];
    let source = &archive.vertices[0];
    assert_eq!((source.parallelism, source.metrics.write_records), (3, 28_228_141.0));
    assert_eq!(source.metrics.lived_ms(), None, "a legacy source has no busy time");
    assert!(archive.vertices[1].metrics.lived_ms().unwrap() > 3.0 * 50_000.0);
    // Before the first fetch nothing is complete.
    assert!(!jobs[1].2.vertices[0].metrics.write_records_complete);
}

#[test]
fn every_subtask_of_the_dump_is_matched() {
    let flink = Flink::over(Box::new(captured())).unwrap();
    let threads = jvm::parse(include_str!("../../../tests/fixtures/flink-2.3.0/threads.txt"));
    let found: Vec<Found> = threads
        .into_iter()
        .map(|thread| Found {
            id: ThreadId { pid: 7, tid: thread.tid, started_ticks: 0 },
            name: thread.name,
            start_ms: 0,
        })
        .collect();
    let mut wanted = Vec::new();
    for (jid, _, job) in flink.jobs().unwrap() {
        for vertex in job.vertices {
            let details: VertexDetails = flink.ask(&format!("/jobs/{jid}/vertices/{}", vertex.id)).unwrap();
            wanted.extend(details.subtasks.into_iter().map(|subtask| Wanted {
                vertex: vertex.name.clone(),
                subtask: subtask.subtask,
                attempt: subtask.attempt,
                start_ms: subtask.start_ms,
                pid: 7,
            }));
        }
    }
    // Two jobs of 7 tasks and one of 8 · 3.
    assert_eq!(wanted.len(), 38);
    let matched = match_threads(&wanted, &found);
    assert!(matched.threads.iter().all(|threads| threads[0].name.starts_with(|c: char| c.is_alphabetic())));
    assert_eq!(matched.threads.iter().filter(|threads| threads.is_empty()).count(), 0);
    let names = |of: &str| -> Vec<Vec<&str>> {
        let of_vertex = wanted.iter().zip(&matched.threads).filter(|(task, _)| task.vertex == of);
        of_vertex.map(|(_, threads)| threads.iter().map(|thread| thread.name.as_str()).collect()).collect()
    };
    assert_eq!(
        names("Source: readings[9]")[1],
        [
            "Source: readings[9] (2/3)#0",
            "Legacy Source Thread - Source: readings[9] (2/3)#0",
            "OutputFlusher for Source: readings[9] (2/3)#0"
        ]
    );
    assert_eq!(names("hashes[17]: Writer")[2], ["hashes[17]: Writer (3/3)#0"]);
}

/// On Flink 1.20.5, where two jobs of two sessions have the same names throughout.
#[test]
fn equal_names_of_two_jobs_are_told_apart() {
    let rest = include_str!("../../../tests/fixtures/flink-1.20.5/rest.json");
    let flink = Flink::over(Box::new(Captured(serde_json::from_str(rest).unwrap()))).unwrap();
    let starts: HashMap<u32, i64> = include_str!("../../../tests/fixtures/flink-1.20.5/starts.txt")
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(tid, ms)| (tid.parse().unwrap(), ms.parse().unwrap()))
        .collect();
    let found: Vec<Found> = jvm::parse(include_str!("../../../tests/fixtures/flink-1.20.5/threads.txt"))
        .into_iter()
        .filter_map(|thread| {
            let id = ThreadId { pid: 7, tid: thread.tid, started_ticks: 0 };
            Some(Found { id, name: thread.name, start_ms: *starts.get(&thread.tid)? })
        })
        .collect();
    let mut wanted = Vec::new();
    let mut jobs = Vec::new();
    for (jid, name, job) in flink.jobs().unwrap() {
        let vertex = job.vertices.into_iter().find(|vertex| vertex.name == "Calc[2]");
        let Some(vertex) = vertex else { continue };
        let details: VertexDetails = flink.ask(&format!("/jobs/{jid}/vertices/{}", vertex.id)).unwrap();
        let subtask = &details.subtasks[0];
        jobs.push(name);
        wanted.push(Wanted {
            vertex: vertex.name,
            subtask: 0,
            attempt: subtask.attempt,
            start_ms: subtask.start_ms,
            pid: 7,
        });
    }
    let matched = match_threads(&wanted, &found);
    let thread_of = |job: &str| matched.threads[jobs.iter().position(|name| name == job).unwrap()][0].id.tid;
    // The dump says which is the older one: elapsed=105.70s and elapsed=5.71s.
    assert_eq!((thread_of("alarms"), thread_of("alarms-3")), (0x42d5, 0x4910));
    assert!(matched.uncertain.is_empty());
}

#[test]
fn a_task_manager_is_known_by_its_ports() {
    let managers: TaskManagers = Flink::over(Box::new(captured())).unwrap().ask("/taskmanagers").unwrap();
    assert_eq!(managers.taskmanagers[0].ports(), [44_777, 45_833]);
}

#[test]
fn a_port_is_read_of_an_address() {
    assert_eq!(["http://a:8081", "http://a/b", "http://[::1]:81/x"].map(port_of), [8081, 80, 81]);
}

#[test]
fn what_is_no_flink_is_named() {
    let mut other = captured();
    other.0["/config"] = serde_json::json!({"version": 3});
    let error = Flink::over(Box::new(other)).unwrap_err().to_string();
    assert_eq!(
        error,
        "http://captured/config did not answer as Flink's JobManager; is this its REST address?"
    );
}

#[test]
fn a_slow_or_switched_off_metric_fetcher_is_noted() {
    for (value, said) in [("0", "switched off"), ("10 s", "every 10 s"), ("30000", "every 30 s")] {
        let mut other = captured();
        other.0["/jobmanager/config"] =
            serde_json::json!([{"key": "metrics.fetcher.update-interval", "value": value}]);
        let notes = Flink::over(Box::new(other)).unwrap().notes();
        assert!(notes.iter().any(|note| note.contains(said)), "{value}: {notes:?}");
    }
    let mut flink = Flink::over(Box::new(captured())).unwrap();
    assert_eq!(flink.notes(), ["Flink 2.3.0 at http://captured"]);
}
