//! A real Java virtual machine with named threads, read and scheduled as any engine of named threads. Skipped, and says
//! so, where there is no JDK or no permission. Cannot catch: what is particular to Flink or Storm.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use laxity_agent::linux::{Applier, Capability, Hierarchy, Journal, Version, thread_status};
use laxity_agent::threads::{Names, ThreadsEngine, ThreadsSpec, own_engine};
use laxity_agent::{Agent, JobWish, PolicyUse, Ranges, Translator, Wishes, jvm};
use regex::Regex;

/// Starts two workers at once and one more for every line it reads; those named child by the bulk worker.
const ENGINE: &str = r#"
class Engine {
    static java.util.concurrent.SynchronousQueue<String> children = new java.util.concurrent.SynchronousQueue<>();
    static void parent() {
        Thread thread = new Thread(() -> {
            try { while (true) worker(children.take()); } catch (InterruptedException end) { }
        }, "bulk-work-worker-0");
        thread.setDaemon(true);
        thread.start();
    }
    static void worker(String name) {
        Thread thread = new Thread(() -> { try { Thread.sleep(600_000); } catch (InterruptedException end) { } }, name);
        thread.setDaemon(true);
        thread.start();
    }
    public static void main(String[] arguments) throws Exception {
        worker("urgent-a-rather-long-operator-name \"quoted\"-worker-0");
        parent();
        System.out.println("started");
        var lines = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            if (line.startsWith("child")) children.put(line); else worker(line);
            System.out.println("started");
        }
    }
}
"#;

/// The tests use one cgroup, so they take turns.
static TURN: Mutex<()> = Mutex::new(());

struct Engine {
    _turn: MutexGuard<'static, ()>,
    child: Child,
    input: ChildStdin,
    said: BufReader<std::process::ChildStdout>,
}

impl Engine {
    fn start(folder: &Path) -> Option<Engine> {
        let turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let source = folder.join("Engine.java");
        std::fs::write(&source, ENGINE).unwrap();
        let started = Command::new("java")
            .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx64m"])
            .arg(&source)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = started else {
            println!("skipped: no java here");
            return None;
        };
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut engine = Engine { _turn: turn, child, input, said: BufReader::new(output) };
        if !engine.hear() {
            println!("skipped: this java runs no source file");
            return None;
        }
        Some(engine)
    }

    fn hear(&mut self) -> bool {
        let mut line = String::new();
        self.said.read_line(&mut line).is_ok_and(|bytes| bytes > 0)
    }

    fn worker(&mut self, name: &str) {
        writeln!(self.input, "{name}").unwrap();
        assert!(self.hear());
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spec(folder: &Path) -> ThreadsSpec {
    let path = regex::escape(&folder.join("Engine.java").display().to_string());
    ThreadsSpec {
        name: "Engine".to_owned(),
        process: Regex::new(&path).unwrap(),
        names: Names::Jvm,
        thread: Regex::new(r"^(?P<query>[a-z]+)-(?P<operator>.+)-worker-(?P<instance>\d+)$").unwrap(),
        ..own_engine()
    }
}

#[test]
fn named_threads_are_found_scheduled_and_left_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut engine) = Engine::start(folder.path()) else { return };
    let pid = engine.child.id();
    let named = jvm::threads(pid).unwrap();
    let tid = |part: &str, named: &[jvm::JavaThread]| {
        named.iter().find(|thread| thread.name.contains(part)).unwrap_or_else(|| panic!("{named:?}")).tid
    };
    let (urgent, bulk) = (tid("\"quoted\"", &named), tid("bulk-work", &named));
    if !Capability::read().sys_nice {
        return println!("skipped in part: no CAP_SYS_NICE here");
    }
    let adapter = ThreadsEngine::start(spec(folder.path())).unwrap();
    let urgent_wish =
        JobWish { name: "urgent".to_owned(), wishes: Wishes::within(Duration::from_millis(50)).unwrap() };
    let uses = vec![PolicyUse::new("static".parse().unwrap(), Duration::from_secs(1))];
    let mut wish = urgent_wish;
    wish.wishes.priority = Some(1.0);
    let mut agent =
        Agent::new(vec![Box::new(adapter)], uses, vec![wish], Translator::Nice, Ranges::default()).unwrap();
    let journal = Journal::open(&folder.path().join("journal")).unwrap();
    let hierarchy = Hierarchy::find().filter(|hierarchy| {
        let home = hierarchy.of_thread(pid, pid).unwrap();
        Capability::read().lacks_for_groups(Some(hierarchy), &home).is_empty()
    });
    let has_groups = hierarchy.is_some();
    agent.write_through(Applier::new(journal, hierarchy.clone()));
    let nice = |tid: u32| thread_status(pid, tid).unwrap().nice;
    let usual = nice(pid);
    let report = agent.round().unwrap();
    assert!(report.failed.is_empty(), "{:?}", report.failed);
    assert_eq!((nice(urgent), nice(bulk)), (-10, 10));
    // The virtual machine's own threads are not touched but for their group.
    assert_eq!(nice(pid), usual);
    let group = |tid: u32| {
        let folder = hierarchy.as_ref().unwrap().of_thread(pid, tid).unwrap();
        folder.file_name().unwrap().to_str().unwrap().to_owned()
    };
    if has_groups {
        assert_eq!([urgent, bulk, pid].map(group), ["urgent", "operators", "service"]);
    }

    // A new operator thread is found by a second dump, which comes a second later at the earliest.
    engine.worker("bulk-more-worker-1");
    let more = tid("bulk-more", &jvm::threads(pid).unwrap());
    for _ in 0..50 {
        agent.round().unwrap();
        if nice(more) == 10 {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(nice(more), 10);

    // What an operator thread starts has its nice value, but is no operator.
    engine.worker("child of bulk");
    let child = loop {
        let named = jvm::threads(pid).unwrap();
        if let Some(child) = named.iter().find(|thread| thread.name == "child of bulk") {
            break child.tid;
        }
    };
    assert_eq!(nice(child), 10);
    agent.round().unwrap();
    assert_eq!(nice(child), usual);
    if has_groups {
        assert_eq!(group(child), "service");
    }

    let restored = agent.finish().unwrap().unwrap();
    assert!(restored.failed.is_empty(), "{:?}", restored.failed);
    assert_eq!([urgent, bulk, more].map(nice), [usual; 3]);
    if has_groups {
        assert_ne!(group(pid), "service");
    }
}

#[test]
fn every_translator_is_written_and_undone() {
    let folder = tempfile::tempdir().unwrap();
    let Some(engine) = Engine::start(folder.path()) else { return };
    let pid = engine.child.id();
    let hierarchy = Hierarchy::find().filter(|hierarchy| {
        let home = hierarchy.of_thread(pid, pid).unwrap();
        Capability::read().lacks_for_groups(Some(hierarchy), &home).is_empty()
    });
    if !Capability::read().sys_nice || hierarchy.is_none() {
        return println!("skipped: no CAP_SYS_NICE, or no cpu cgroup that can be written");
    }
    let home = hierarchy.as_ref().unwrap().of_thread(pid, pid).unwrap();
    let status = || -> Vec<_> {
        let threads = jvm::threads(pid).unwrap();
        let named = threads.iter().filter(|thread| thread.name.contains("-worker-"));
        named.map(|thread| thread_status(pid, thread.tid).unwrap()).collect()
    };
    let before = status();
    let mut passed_over = 0;
    for translator in ["nice", "shares", "quota", "rr", "query-shares+nice"] {
        let adapter = ThreadsEngine::start(spec(folder.path())).unwrap();
        let wishes = Wishes::within(Duration::from_millis(50)).unwrap();
        let wish = JobWish { name: "urgent".to_owned(), wishes };
        let uses = vec![PolicyUse::new("random".parse().unwrap(), Duration::from_secs(1))];
        let translator = translator.parse().unwrap();
        let mut agent =
            Agent::new(vec![Box::new(adapter)], uses, vec![wish], translator, Ranges::default()).unwrap();
        let journal = Journal::open(&folder.path().join("journal")).unwrap();
        agent.write_through(Applier::new(journal, hierarchy.clone()));
        let report = agent.round().unwrap();
        let is_v2 = hierarchy.as_ref().is_some_and(|hierarchy| hierarchy.version == Version::V2);
        // A kernel without real-time groups, or a group around us without a share of real-time: nothing to be done about
        // it here.
        let needs = if is_v2 { "CONFIG_RT_GROUP_SCHED" } else { "cpu.rt_runtime_us" };
        // Without a share for the group no thread in it can be of the real-time class.
        let is_of_it = |why: &String| why.contains(needs) || why.starts_with("RoundRobin ");
        let has_no_real_time = translator == Translator::RoundRobin
            && report.failed.iter().any(|why| why.contains(needs))
            && report.failed.iter().all(is_of_it);
        if has_no_real_time {
            passed_over += 1;
            println!("passed over ({passed_over}): {translator} has no real-time here: {:?}", report.failed);
        }
        assert!(has_no_real_time || report.failed.is_empty(), "{translator}: {:?}", report.failed);
        let service = hierarchy.as_ref().unwrap().of_thread(pid, pid).unwrap();
        let base = service.parent().unwrap().to_owned();
        assert!(
            service.ends_with("service") && base.starts_with(&home) && base != home,
            "{}",
            service.display()
        );
        if translator == Translator::RoundRobin && !has_no_real_time {
            let classes: Vec<i32> = status().iter().map(|status| status.class).collect();
            assert!(classes.contains(&2) && classes.contains(&0), "{classes:?}");
        }
        let restored = agent.finish().unwrap().unwrap();
        assert!(restored.failed.is_empty(), "{translator}: {:?}", restored.failed);
        assert!(!base.exists(), "{translator}");
        assert_eq!(status(), before, "{translator}");
    }
    assert!(passed_over <= 1, "only one of them needs real-time");
}

#[test]
fn an_engine_that_dies_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let Some(engine) = Engine::start(folder.path()) else { return };
    if !Capability::read().sys_nice {
        return println!("skipped: no CAP_SYS_NICE here");
    }
    let adapter = ThreadsEngine::start(spec(folder.path())).unwrap();
    let uses = vec![PolicyUse::new("static".parse().unwrap(), Duration::from_secs(1))];
    let mut agent =
        Agent::new(vec![Box::new(adapter)], uses, Vec::new(), Translator::Nice, Ranges::default()).unwrap();
    agent.write_through(Applier::new(Journal::open(&folder.path().join("journal")).unwrap(), None));
    assert_eq!(agent.round().unwrap().rows.len(), 2);
    drop(engine);
    let report = agent.round().unwrap();
    assert!(report.rows.is_empty() && report.failed.is_empty(), "{report:?}");
    let restored = agent.finish().unwrap().unwrap();
    assert_eq!((restored.threads, restored.failed.len()), (0, 0));
}

#[test]
fn a_machine_that_hangs_is_not_waited_for_and_read_when_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let Some(engine) = Engine::start(folder.path()) else { return };
    let pid = rustix::process::Pid::from_raw(engine.child.id() as i32).unwrap();
    let adapter = ThreadsEngine::start(spec(folder.path())).unwrap();
    let uses = vec![PolicyUse::new("static".parse().unwrap(), Duration::from_secs(1))];
    let mut agent =
        Agent::new(vec![Box::new(adapter)], uses, Vec::new(), Translator::Nice, Ranges::default()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let report = agent.round().unwrap();
    assert!(report.rows.is_empty());
    // A machine has 10 s to answer; the round goes on after 2.
    assert!(report.took < Duration::from_secs(8), "{:?}", report.took);
    assert!(
        report.notes.iter().any(|note| note.contains("takes long to show its threads")),
        "{:?}",
        report.notes
    );
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    let is_read = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        agent.round().unwrap().rows.len() == 2
    });
    assert!(is_read);
}
