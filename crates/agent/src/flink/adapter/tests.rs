//! On answers and a thread dump captured from Flink 2.3.0. Cannot catch: what a live JobManager does between them.

use serde_json::Value;

use super::*;

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

/// All of its TaskManagers are one process here.
fn flink(api: Captured) -> Flink {
    let mut flink = Flink::over(Box::new(api)).unwrap();
    let managers: TaskManagers = flink.ask("/taskmanagers").unwrap();
    flink.pids = managers.taskmanagers.into_iter().map(|manager| (manager.id, Some(7))).collect();
    flink
}

fn layout(flink: &Flink) -> Layout {
    flink.layout(&flink.jobs().unwrap(), &|_| Wishes::default()).unwrap()
}

fn found(dump: &str) -> Vec<Found> {
    let thread = |thread: jvm::JavaThread| Found {
        id: ThreadId { pid: 7, tid: thread.tid, started_ticks: 0 },
        name: thread.name,
        start_ms: 0,
    };
    jvm::parse(dump).into_iter().map(thread).collect()
}

const DUMP: &str = include_str!("../../../tests/fixtures/flink-2.3.0/threads.txt");

#[test]
fn jobs_and_their_metrics_are_read() {
    let flink = flink(captured());
    let jobs = flink.jobs().unwrap();
    let names: Vec<&str> = jobs.iter().map(|running| running.name.as_str()).collect();
    assert_eq!(names, ["alarms", "alarms-2", "archive"]);
    let archive = &jobs[2].job;
    let source = &archive.vertices[0];
    assert_eq!((source.parallelism, source.metrics.write_records), (3, 28_228_141.0));
    assert_eq!(source.metrics.lived_ms(), None, "a legacy source has no busy time");
    assert!(archive.vertices[1].metrics.lived_ms().unwrap() > 3.0 * 50_000.0);
    // Before the first fetch nothing is complete.
    assert!(!jobs[1].job.vertices[0].metrics.write_records_complete);
}

#[test]
fn every_subtask_of_the_dump_is_matched() {
    let wanted = layout(&flink(captured())).wanted;
    // Two jobs of 7 tasks and one of 8 · 3.
    assert_eq!(wanted.len(), 38);
    let matched = match_threads(&wanted, &found(DUMP));
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
    let flink = flink(Captured(serde_json::from_str(rest).unwrap()));
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
    for Running { id: jid, name, job, .. } in flink.jobs().unwrap() {
        let vertex = job.vertices.into_iter().find(|vertex| vertex.name == "Calc[2]");
        let Some(vertex) = vertex else { continue };
        let details: VertexDetails = flink.ask(&format!("/jobs/{jid}/vertices/{}", vertex.id)).unwrap();
        let subtask = &details.subtasks[0];
        jobs.push(name);
        wanted.push(Wanted {
            vertex: vertex.name,
            subtask: 0,
            parallelism: 1,
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

/// The job `archive`, of eight operators of three instances each.
const ARCHIVE: &str = "/jobs/bd82a7047b3e072c950d11cb5c0aff7a";

/// Changes each operator of `archive`, and each of its subtasks.
fn change(api: &mut Captured, vertex: impl Fn(&mut Value), subtasks: impl Fn(&mut Vec<Value>)) {
    for known in api.0[ARCHIVE]["vertices"].as_array_mut().unwrap() {
        vertex(known);
    }
    for (path, answer) in api.0.as_object_mut().unwrap() {
        if path.starts_with(&format!("{ARCHIVE}/vertices/")) && answer["subtasks"].is_array() {
            subtasks(answer["subtasks"].as_array_mut().unwrap());
        }
    }
}

fn keys(layout: &Layout) -> Vec<&str> {
    layout.topology.operators.iter().map(|operator| &*operator.key).collect()
}

#[test]
fn after_a_restart_all_is_new_but_the_job() {
    let mut restarted = captured();
    change(
        &mut restarted,
        |_| {},
        |subtasks| subtasks.iter_mut().for_each(|task| task["attempt"] = 1.into()),
    );
    let (before, after) = (layout(&flink(captured())), layout(&flink(restarted)));
    assert_eq!(before.topology.queries, after.topology.queries);
    let kept = keys(&before).iter().filter(|key| keys(&after).contains(key)).count();
    assert_eq!((keys(&before).len(), kept), (22, 14), "counters of the eight begin anew");
    // Threads of the old attempt may linger: none of them is taken for one of the new.
    let matched = match_threads(&after.wanted, &found(DUMP));
    assert_eq!(matched.threads.iter().filter(|threads| threads.is_empty()).count(), 24);
    let both: String = DUMP
        .lines()
        .flat_map(|line| {
            let new = line.replace("/3)#0\"", "/3)#1\"").replace("nid=0x", "nid=0xf");
            [line.to_owned(), new]
        })
        .map(|line| line + "\n")
        .collect();
    let matched = match_threads(&after.wanted, &found(&both));
    let of_archive = after.wanted.iter().zip(&matched.threads).filter(|(task, _)| task.parallelism == 3);
    assert!(of_archive.clone().all(|(_, threads)| threads[0].name.ends_with("/3)#1")));
    assert_eq!(of_archive.count(), 24);
}

#[test]
fn after_a_rescale_the_instances_are_others() {
    let mut rescaled = captured();
    change(&mut rescaled, |vertex| vertex["parallelism"] = 2.into(), |subtasks| subtasks.truncate(2));
    let after = layout(&flink(rescaled));
    let instances: Vec<u32> = after.topology.operators.iter().map(|operator| operator.instances).collect();
    assert_eq!(instances.iter().filter(|&&instances| instances == 2).count(), 8);
    assert_eq!(after.wanted.len(), 14 + 16);
    // `Calc[10] (1/3)#0` is not `Calc[10] (1/2)#0`.
    let matched = match_threads(&after.wanted, &found(DUMP));
    assert_eq!(matched.threads.iter().filter(|threads| threads.is_empty()).count(), 16);
    let matched = match_threads(&after.wanted, &found(&DUMP.replace("/3)#0", "/2)#0")));
    assert_eq!(matched.threads.iter().filter(|threads| threads.is_empty()).count(), 0);
}

#[test]
fn a_job_that_ends_between_two_questions_spoils_nothing() {
    let mut gone = captured();
    gone.0.as_object_mut().unwrap().retain(|path, _| !path.starts_with(&format!("{ARCHIVE}/vertices/")));
    let layout = layout(&flink(gone));
    assert_eq!((layout.topology.operators.len(), layout.wanted.len()), (22, 14));
}

#[test]
fn a_job_that_takes_long_to_end_keeps_its_threads() {
    let mut ending = captured();
    for job in ending.0["/jobs/overview"]["jobs"].as_array_mut().unwrap() {
        if job["name"] == "archive" {
            job["state"] = "CANCELLING".into();
        }
    }
    let states = ["CANCELING", "CANCELED", "CANCELING"];
    change(
        &mut ending,
        |_| {},
        |subtasks| {
            subtasks.iter_mut().zip(states).for_each(|(task, state)| task["status"] = state.into());
        },
    );
    // Of each of eight operators one instance has ended.
    assert_eq!(layout(&flink(ending)).wanted.len(), 38 - 8);
}

#[test]
fn a_task_manager_that_shows_no_threads_keeps_those_known() {
    let mut flink = flink(captured());
    let first = layout(&flink);
    // Only this very thread is known to run.
    let own = std::process::id();
    let id = thread_ids(own).unwrap()[0];
    let thread = crate::Thread { id, name: "known".into() };
    flink.topology = first.topology.clone();
    flink.topology.tasks.push(Task {
        operators: vec![0],
        instance: 0,
        threads: vec![thread.clone()],
        timer_slack_ns: None,
    });
    let gone = crate::Thread { id: ThreadId { started_ticks: 1, ..id }, name: "gone".into() };
    flink.topology.tasks.push(Task {
        operators: vec![1],
        instance: 0,
        threads: vec![gone],
        timer_slack_ns: None,
    });
    let Layout { topology, mut wanted, owners, .. } = first;
    wanted.iter_mut().for_each(|task| task.pid = own);
    let mut matched = match_threads(&wanted, &[]);
    flink.keep_known(&mut matched, &wanted, &owners, &topology, &[own].into());
    let known: Vec<usize> = (0..wanted.len()).filter(|&place| !matched.threads[place].is_empty()).collect();
    assert_eq!((known.len(), &matched.threads[known[0]]), (1, &vec![thread]));
    assert_eq!(owners[known[0]], (0, 0));
}

/// As of a live cluster with `metrics.fetcher.update-interval: 0`.
#[test]
fn without_metrics_all_are_neutral_and_it_is_said() {
    let mut silent = captured();
    let jobs = silent.0.as_object_mut().unwrap().values_mut();
    for vertex in jobs.filter_map(|answer| answer.get_mut("vertices")?.as_array_mut()).flatten() {
        vertex["metrics"]["read-records-complete"] = false.into();
        vertex["metrics"]["write-records-complete"] = false.into();
    }
    let mut flink = flink(silent);
    flink.notes();
    flink.topology = layout(&flink).topology;
    flink.origins = layout(&flink).origins;
    let jobs = flink.jobs().unwrap();
    for _ in 0..2 {
        flink.take_metrics(&jobs);
    }
    let topology = flink.topology.clone();
    let mut readings = crate::Readings::at(0, 0.0, None, 1);
    for metric in [Metric::RowsIn, Metric::RowsOut] {
        let values = flink.read(metric, &topology);
        assert!(values.iter().all(Option::is_none), "{metric}: {values:?}");
        readings.set(metric, values);
    }
    let schedule = "qs".parse::<crate::Policy>().unwrap().schedule(&topology, &readings);
    assert!(schedule.priorities.iter().all(Option::is_none));
    assert!(flink.notes().is_empty(), "Flink needs a while for the first ones");
    flink.unmetered_ms = flink.unmetered_ms.map(|since_ms| since_ms - UNMETERED_MS - 1.0);
    flink.take_metrics(&jobs);
    let notes = flink.notes();
    assert!(notes.len() == 1 && notes[0].contains("has told no metric of any job for 30 s"), "{notes:?}");
}

#[test]
fn a_source_tells_the_watermark_that_its_chain_lets_out() {
    let mut api = captured();
    let vertex = api.0[ARCHIVE]["vertices"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("{ARCHIVE}/vertices/{vertex}/subtasks/metrics");
    let (source, assigner) = ("Source__a[1].currentOutputWatermark", "Assigner[2].currentOutputWatermark");
    api.0[&path] = serde_json::json!([{"id": "numRecordsIn"}, {"id": source}, {"id": assigner}]);
    let ids = "Source__a%5B1%5D.currentOutputWatermark,Assigner%5B2%5D.currentOutputWatermark";
    api.0[&format!("{path}?get={ids}&agg=min")] = serde_json::json!([{"id": source, "min": -9.223_372_036_854_776e18}, {"id": assigner, "min": 4_999.0}]);
    let mut flink = flink(api);
    let Layout { mut topology, origins, owners, .. } = layout(&flink);
    let source = origins.iter().position(|(job, of)| ARCHIVE.ends_with(job) && *of == vertex).unwrap();
    let next = topology.operators.iter().position(|operator| operator.upstream == [source]).unwrap();
    let window = laxity_graph::WindowShape { size_ms: 1_000, slide_ms: 1_000, end_ms: Some(0) };
    topology.operators[next].window = Some(window);
    let task =
        |operator| Task { operators: vec![operator], instance: 0, threads: Vec::new(), timer_slack_ns: None };
    assert!(owners.iter().any(|&(operator, _)| operator == source));
    topology.tasks = vec![task(source), task(next)];
    (flink.topology, flink.origins) = (topology, origins);
    assert_eq!(flink.watermark(source), None, "the window's own tells it");
    flink.topology.tasks.pop();
    assert_eq!(flink.watermark(source), Some(4_999.0));
}

/// A chain that sums up before it sends lets out a row for thousands that its source makes.
#[test]
fn rows_of_a_source_are_counted_before_its_chain() {
    let mut api = captured();
    let vertex = api.0[ARCHIVE]["vertices"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("{ARCHIVE}/vertices/{vertex}/subtasks/metrics");
    let ids = |ids: &[&str]| ids.iter().map(|id| serde_json::json!({"id": id})).collect::<Value>();
    let (chain, own) = ("Local[2].numRecordsOut", "Source__a[1].numRecordsOut");
    api.0[&path] = ids(&["numRecordsOut"]);
    let mut flink = flink(api);
    let jobs = flink.jobs().unwrap();
    let Layout { topology, origins, .. } = layout(&flink);
    let source = origins.iter().position(|(job, of)| ARCHIVE.ends_with(job) && *of == vertex).unwrap();
    (flink.topology, flink.origins, flink.read_ms) = (topology, origins, since_boot_ns() as f64 / 1e6);
    flink.take_metrics(&jobs);
    assert_eq!(flink.rows_made(source), Some(28_228_141.0));
    flink.topology.operators[source].name = "Source: a[1] -> Local[2]".into();
    assert_eq!(flink.rows_made(source), None, "its task begins");
    let mut api = captured();
    api.0[&path] = ids(&["numRecordsOut", chain, own]);
    api.0[&format!("{path}?get={}&agg=sum", escaped(own))] = serde_json::json!([{"id": own, "sum": 5e9}]);
    flink.api = Box::new(api);
    assert_eq!(flink.rows_made(source), Some(5e9));
}

#[test]
fn a_task_manager_is_known_by_its_ports() {
    let managers: TaskManagers = Flink::over(Box::new(captured())).unwrap().ask("/taskmanagers").unwrap();
    assert_eq!(managers.taskmanagers[0].ports(), [44_777, 45_833]);
}

#[test]
fn a_port_is_read_of_an_address() {
    let addresses = ["http://a:8081", "http://a/b", "http://[::1]:81/x", "https://a"];
    assert_eq!(addresses.map(port_of), [8081, 80, 81, 443]);
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
