//! Nice values, cgroups and the real-time class on threads of this very process. What the machine does not offer is
//! skipped, and says so. Cannot catch: how engines' threads behave.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use laxity_agent::linux::{
    Applier, Capability, Hierarchy, Journal, Watchdog, cpu_times_ns, restore, thread_ids, thread_status,
    timer_slack_ns,
};
use laxity_agent::{Change, GroupSetting, Plan, ThreadId, ThreadSetting};

/// Threads that burn CPU until dropped.
struct Burners {
    ids: Vec<ThreadId>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Burners {
    fn start(count: usize) -> Burners {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = mpsc::channel();
        let threads = (0..count).map(|place| {
            let (stop, sender) = (stop.clone(), sender.clone());
            let body = move || {
                sender.send((place, rustix::thread::gettid().as_raw_nonzero().get() as u32)).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            std::thread::Builder::new().name(format!("burner-{place}")).spawn(body).unwrap()
        });
        let threads = threads.collect();
        let mut tids: Vec<(usize, u32)> = (0..count).map(|_| receiver.recv().unwrap()).collect();
        tids.sort_unstable();
        let all = thread_ids(std::process::id()).unwrap();
        let id = |tid| *all.iter().find(|id| id.tid == tid).unwrap();
        Burners { ids: tids.into_iter().map(|(_, tid)| id(tid)).collect(), stop, threads }
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// A thread that starts others, all idle until dropped.
struct Family {
    parent: ThreadId,
    ask: mpsc::Sender<()>,
    born: mpsc::Receiver<ThreadId>,
}

impl Family {
    fn start() -> Family {
        let (ask, asked) = mpsc::channel::<()>();
        let (bear, born) = mpsc::channel();
        spawn(move || {
            bear.send(this_thread()).unwrap();
            let mut children = Vec::new();
            while asked.recv().is_ok() {
                let (bear, (end, until)) = (bear.clone(), mpsc::channel::<()>());
                spawn(move || {
                    bear.send(this_thread()).unwrap();
                    let _ = until.recv();
                });
                children.push(end);
            }
        });
        Family { parent: born.recv().unwrap(), ask, born }
    }

    fn child(&self) -> ThreadId {
        self.ask.send(()).unwrap();
        self.born.recv().unwrap()
    }
}

fn spawn(body: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().name("family".to_owned()).spawn(body).unwrap();
}

fn this_thread() -> ThreadId {
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    *thread_ids(std::process::id()).unwrap().iter().find(|id| id.tid == tid).unwrap()
}

/// The tests change the groups of one process, so they take turns.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn can_lower_nice() -> bool {
    let can = Capability::read().sys_nice;
    if !can {
        println!("skipped: no CAP_SYS_NICE here");
    }
    can
}

fn writable_hierarchy() -> Option<Hierarchy> {
    let hierarchy = Hierarchy::find();
    let usable = hierarchy.clone().filter(|hierarchy| {
        let home = hierarchy.of_thread(std::process::id(), std::process::id());
        home.is_ok_and(|home| Capability::read().lacks_for_groups(Some(hierarchy), &home).is_empty())
    });
    if usable.is_none() {
        println!("skipped: no cpu cgroup that can be written here ({hierarchy:?})");
    }
    usable
}

fn nice(thread: ThreadId) -> i32 {
    thread_status(thread.pid, thread.tid).unwrap().nice
}

fn setting(group: Option<&str>, nice: Option<i32>) -> ThreadSetting {
    ThreadSetting { group: group.map(str::to_owned), nice, ..ThreadSetting::default() }
}

fn applier(folder: &Path, hierarchy: Option<Hierarchy>) -> Applier {
    Applier::new(Journal::open(&folder.join("journal")).unwrap(), hierarchy)
}

#[test]
fn nice_values_are_written_once_and_put_back() {
    let _turn = turn();
    if !can_lower_nice() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let burners = Burners::start(2);
    let before = nice(burners.ids[0]);
    let mut applier = applier(folder.path(), None);
    applier.attach(std::process::id()).unwrap();
    let plan = |first, second| Plan {
        groups: BTreeMap::new(),
        threads: [
            (burners.ids[0], setting(None, Some(first))),
            (burners.ids[1], setting(None, Some(second))),
        ]
        .into(),
    };
    let applied = applier.apply(plan(-7, 9)).unwrap();
    assert_eq!((applied.changes.len(), applied.failed.len()), (2, 0));
    assert_eq!((nice(burners.ids[0]), nice(burners.ids[1])), (-7, 9));
    assert_eq!(applier.apply(plan(-7, 9)).unwrap().changes, []);
    assert_eq!(applier.apply(plan(-7, 4)).unwrap().changes.len(), 1);
    let restored = applier.finish().unwrap();
    assert_eq!((restored.threads, restored.failed.len()), (2, 0));
    assert_eq!((nice(burners.ids[0]), nice(burners.ids[1])), (before, before));
}

#[test]
fn timer_slack_is_written_and_put_back_for_children_too() {
    let _turn = turn();
    if !can_lower_nice() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let slack_ns = |thread: ThreadId| timer_slack_ns(thread.tid).unwrap();
    let family = Family::start();
    let first = family.parent;
    let before_ns = slack_ns(first);
    let mut applier = applier(folder.path(), None);
    applier.attach(std::process::id()).unwrap();
    // Their start is told in clock ticks.
    std::thread::sleep(Duration::from_millis(30));
    let with_slack = ThreadSetting { timer_slack_ns: Some(2_000_000), ..ThreadSetting::default() };
    let plan = Plan { groups: BTreeMap::new(), threads: [(first, with_slack)].into() };
    let applied = applier.apply(plan.clone()).unwrap();
    assert_eq!(applied.changes, [Change::TimerSlack { thread: first, ns: 2_000_000 }]);
    assert_eq!(slack_ns(first), 2_000_000);
    assert_eq!(applier.apply(plan.clone()).unwrap().changes, []);
    // One that an operator starts, before and after the agent sees it.
    let mut other = plan;
    let child = family.child();
    assert_eq!(slack_ns(child), 2_000_000);
    other.threads.insert(child, ThreadSetting::default());
    assert_eq!(applier.apply(other).unwrap().changes, [Change::TimerSlack { thread: child, ns: before_ns }]);
    assert_eq!(slack_ns(child), before_ns);
    let unseen = family.child();
    assert_eq!(slack_ns(unseen), 2_000_000);
    assert_eq!(applier.finish().unwrap().failed, [""; 0]);
    assert_eq!([first, child, unseen].map(slack_ns), [before_ns; 3]);
}

#[test]
fn after_a_crash_the_next_start_puts_back_and_knows_ended_threads() {
    let _turn = turn();
    if !can_lower_nice() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let burners = Burners::start(1);
    let ended = Burners::start(1).ids[0];
    let reused = ThreadId { started_ticks: burners.ids[0].started_ticks + 1, ..burners.ids[0] };
    let before = nice(burners.ids[0]);
    let mut applier = applier(folder.path(), None);
    applier.attach(std::process::id()).unwrap();
    let threads = [burners.ids[0], ended, reused].map(|id| (id, setting(None, Some(-5)))).into();
    let applied = applier.apply(Plan { groups: BTreeMap::new(), threads }).unwrap();
    assert_eq!(applied.failed.len(), 0, "an ended thread is no failure");
    assert_eq!(nice(burners.ids[0]), -5);
    // The crash: nothing is put back, the lock is gone with the process.
    drop(applier);
    let mut journal = Journal::open(&folder.path().join("journal")).unwrap();
    let restored = restore(&mut journal).unwrap();
    assert_eq!((restored.threads, restored.failed.len()), (1, 0));
    assert_eq!(nice(burners.ids[0]), before);
    let again = restore(&mut journal).unwrap();
    assert_eq!((again.threads, again.ended), (0, 0));
}

#[test]
fn groups_are_made_below_the_own_one_and_removed() {
    let _turn = turn();
    let Some(hierarchy) = writable_hierarchy() else { return };
    let folder = tempfile::tempdir().unwrap();
    let burners = Burners::start(2);
    let pid = std::process::id();
    let home = hierarchy.of_thread(pid, burners.ids[0].tid).unwrap();
    let mut applier = applier(folder.path(), Some(hierarchy.clone()));
    applier.attach(pid).unwrap();
    let group = |weight, quota_cores| GroupSetting { weight, quota_cores };
    let plan = Plan {
        groups: [("a".to_owned(), group(1_000, None)), ("b".to_owned(), group(10, Some(0.5)))].into(),
        threads: [(burners.ids[0], setting(Some("a"), None)), (burners.ids[1], setting(Some("b"), None))]
            .into(),
    };
    let applied = applier.apply(plan).unwrap();
    assert!(applied.failed.is_empty(), "{:?}", applied.failed);
    let base = hierarchy.of_thread(pid, burners.ids[0].tid).unwrap().parent().unwrap().to_owned();
    assert!(base.starts_with(&home) && base != home, "{}", base.display());
    let (a, b) = (base.join("a"), base.join("b"));
    assert_eq!(hierarchy.threads(&a).unwrap(), [burners.ids[0].tid]);
    assert_eq!(hierarchy.threads(&b).unwrap(), [burners.ids[1].tid]);
    if hierarchy.version == laxity_agent::linux::Version::V1 {
        let read = |file: &Path| std::fs::read_to_string(file).unwrap().trim().to_owned();
        assert_eq!(read(&a.join("cpu.shares")), "10240");
        assert_eq!(
            (read(&b.join("cpu.shares")), read(&b.join("cpu.cfs_quota_us"))),
            ("102".into(), "50000".into())
        );
    }
    let restored = applier.finish().unwrap();
    assert!(restored.failed.is_empty(), "{:?}", restored.failed);
    assert!(!base.exists());
    assert_eq!(hierarchy.of_thread(pid, burners.ids[0].tid).unwrap(), home);
}

#[test]
fn a_process_that_is_planned_for_whole_comes_and_goes_whole() {
    let _turn = turn();
    let Some(hierarchy) = writable_hierarchy() else { return };
    let folder = tempfile::tempdir().unwrap();
    let burners = Burners::start(1);
    let pid = std::process::id();
    let home = hierarchy.of_thread(pid, pid).unwrap();
    let mut applier = applier(folder.path(), Some(hierarchy.clone()));
    applier.attach(pid).unwrap();
    let group = GroupSetting { weight: 100, quota_cores: None };
    let all = thread_ids(pid).unwrap().into_iter();
    let threads = all.map(|thread| {
        let name = if thread == burners.ids[0] { "operators" } else { "service" };
        (thread, setting(Some(name), None))
    });
    let plan = Plan {
        groups: ["operators", "service"].map(|name| (name.to_owned(), group)).into(),
        threads: threads.collect(),
    };
    let applied = applier.apply(plan).unwrap();
    assert!(applied.failed.is_empty(), "{:?}", applied.failed);
    let service = hierarchy.of_thread(pid, pid).unwrap();
    assert!(service.starts_with(&home) && service.ends_with("service"), "{}", service.display());
    assert_eq!(hierarchy.of_thread(pid, burners.ids[0].tid).unwrap(), service.with_file_name("operators"));
    // A thread that no plan knew came along with its parent, and goes back with it.
    let newborn = Burners::start(1);
    let restored = applier.finish().unwrap();
    assert!(restored.failed.is_empty(), "{:?}", restored.failed);
    for tid in [pid, burners.ids[0].tid, newborn.ids[0].tid] {
        assert_eq!(hierarchy.of_thread(pid, tid).unwrap(), home);
    }
}

#[test]
fn two_agents_do_not_take_each_others_groups_away() {
    let _turn = turn();
    let Some(hierarchy) = writable_hierarchy() else { return };
    let folder = tempfile::tempdir().unwrap();
    let burners = Burners::start(1);
    let pid = std::process::id();
    let home = hierarchy.of_thread(pid, burners.ids[0].tid).unwrap();
    let foreign = home.join("laxity");
    // Where an agent runs on this machine its group is there already.
    let is_ours = std::fs::create_dir(&foreign).is_ok();
    let mut applier = applier(folder.path(), Some(hierarchy.clone()));
    applier.attach(pid).unwrap();
    let plan = Plan {
        groups: [("a".to_owned(), GroupSetting { weight: 100, quota_cores: None })].into(),
        threads: [(burners.ids[0], setting(Some("a"), None))].into(),
    };
    assert!(applier.apply(plan).unwrap().failed.is_empty());
    let group = hierarchy.of_thread(pid, burners.ids[0].tid).unwrap();
    assert!(group.starts_with(&home) && !group.starts_with(&foreign), "{}", group.display());
    assert!(applier.finish().unwrap().failed.is_empty());
    assert!(foreign.exists() && !group.exists());
    if is_ours {
        std::fs::remove_dir(&foreign).unwrap();
    }
}

#[test]
fn shares_divide_a_core_as_asked() {
    let _turn = turn();
    let Some(hierarchy) = writable_hierarchy() else { return };
    let folder = tempfile::tempdir().unwrap();
    let burners = Burners::start(2);
    let mut core = rustix::thread::CpuSet::new();
    core.set(0);
    for id in &burners.ids {
        let tid = rustix::process::Pid::from_raw(id.tid as i32);
        rustix::thread::sched_setaffinity(tid, &core).unwrap();
    }
    let mut applier = applier(folder.path(), Some(hierarchy));
    applier.attach(std::process::id()).unwrap();
    let group = |weight| GroupSetting { weight, quota_cores: None };
    let plan = Plan {
        groups: [("a".to_owned(), group(300)), ("b".to_owned(), group(100))].into(),
        threads: [(burners.ids[0], setting(Some("a"), None)), (burners.ids[1], setting(Some("b"), None))]
            .into(),
    };
    assert!(applier.apply(plan).unwrap().failed.is_empty());
    let used = || burners.ids.iter().map(|&id| cpu_times_ns(id).unwrap().0 as f64).collect::<Vec<_>>();
    let before = used();
    std::thread::sleep(Duration::from_secs(1));
    let after = used();
    let share = (after[0] - before[0]) / (after[0] - before[0] + after[1] - before[1]);
    println!("asked 75 %, got {:.1} %", share * 100.0);
    // Who else runs on the core takes from both; only the direction is certain.
    assert!(share > 0.6, "{share}");
    assert!(applier.finish().unwrap().failed.is_empty());
}

#[test]
fn a_watchdog_that_starves_lets_real_time_threads_go() {
    let _turn = turn();
    if !can_lower_nice() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sleeper =
        std::thread::Builder::new().spawn(|| std::thread::park_timeout(Duration::from_secs(20))).unwrap();
    let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let pid = std::process::id();
    let target = thread_ids(pid).unwrap().into_iter().rfind(|id| id.tid != own && id.tid > own).unwrap();
    let watchdog = match Watchdog::start(Duration::from_millis(50)) {
        Ok(watchdog) => watchdog,
        Err(error) => return println!("skipped: no real-time threads here: {error}"),
    };
    let mut applier = applier(folder.path(), None);
    applier.attach(pid).unwrap();
    let setting = ThreadSetting { round_robin: Some(3), ..ThreadSetting::default() };
    let applied =
        applier.apply(Plan { groups: BTreeMap::new(), threads: [(target, setting)].into() }).unwrap();
    assert!(applied.failed.is_empty(), "{:?}", applied.failed);
    let class = || thread_status(pid, target.tid).unwrap().class;
    assert_eq!(class(), 2);
    watchdog.feed(vec![target]);
    while watchdog.bites() == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(class(), 0);
    assert!(applier.finish().unwrap().failed.is_empty());
    sleeper.thread().unpark();
    sleeper.join().unwrap();
}
