#!/usr/bin/env python3
"""`laxity attach` on a real Flink: nice values come to the right threads, follow jobs that end, are rescaled and fail, and
go again; on two machines each by its own agent. What is missing is said.

Cannot catch: whether latencies get better; that is measured, not tested.
"""

import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from agent import Agent, Thread, child_of, threads
from flink import Flink
from machine import Machine, join
from submit import files_are_submitted

# Two statements differ in names, so that threads can be told apart without the agent.
JOB = """SET 'pipeline.name' = '{name}';
SET 'parallelism.default' = '{parallelism}';
SET 'pipeline.operator-chaining.enabled' = 'false';
CREATE TABLE {name}_in (sensor INT, degrees DOUBLE) WITH ({source});
CREATE TABLE {name}_out (sensor INT, degrees DOUBLE) WITH ('connector' = 'blackhole');
INSERT INTO {name}_out SELECT sensor, degrees * 2 FROM {name}_in WHERE degrees > 0;
"""
URGENT, BULK = "alarms", "archive"
# Of the old and of the new interface. The urgent job fails for as long as a row in that folder is no row.
SOURCE = {
    URGENT: "'connector' = 'filesystem', 'path' = '{rows}', 'format' = 'csv', 'source.monitor-interval' = '100 ms'",
    BULK: "'connector' = 'datagen', 'rows-per-second' = '100'",
}
# Of equal length: what is known of a file stays right.
ROW, NO_ROW = "1,21.5\n", "1,warm\n"
# llf: the least urgent gets one end of the default range, the most urgent the other; what waits for nothing lies between.
NICE = {URGENT: range(-10, 0), BULK: range(10, 11)}
# Begin the names of threads that no job may slow down.
ENGINE_THREADS = ("flink-pekko", "Flink Netty", "flink-metrics", "GC Thread", "VM Thread", "C1 Compiler", "C2 Compiler", "main")
PORT = 19464
AUTOGROUP = Path("/proc/self/autogroup")
# Jobs restart long enough after a failure to be healed before. What Flink tells of jobs is no older than the agent's
# period: by default it tells the same for 3 s.
RESTARTED = """web.refresh-interval: 1000
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 1000000
restart-strategy.fixed-delay.delay: 2 s
"""
ELASTIC = RESTARTED + """jobmanager.scheduler: adaptive
jobmanager.adaptive-scheduler.scaling-interval.min: 0 s
"""
# Operators come to both machines; one that is lost is missed soon.
SPREAD = RESTARTED + """taskmanager.load-balance.mode: SLOTS
heartbeat.interval: 1000
heartbeat.timeout: 15000
"""
# Three fifths of the CPU time that engines and first jobs take to start, measured.
QUICK_START = "-XX:TieredStopAtLevel=1"
READ_ONLY_CGROUPS = """awk '$3 ~ /^cgroup/ { print $2 }' /proc/mounts | while read -r at; do
    mount -o remount,bind,ro "$at" || exit
done
exec "$@"
"""


@dataclass
class Told:
    """By the agent's metrics."""
    round: int
    # By job and task: thread and nice.
    jobs: dict[str, dict[tuple[str, int], tuple[int, int]]]
    # What an agent of another machine said counts.
    is_told: bool

    @staticmethod
    def read(address: str) -> "Told":
        text = urllib.request.urlopen(f"http://{address}/metrics", timeout=10).read().decode()
        jobs: dict = {}
        for job, operator, instance, tid, nice in re.findall(
                r'^laxity_agent_nice\{job="(.*?)",operator="(.*?)",instance="(\d+)",tid="(\d+)"\} (\S+)$', text, re.M):
            jobs.setdefault(job, {})[operator, int(instance)] = int(tid), int(float(nice))
        rounds = re.search(r"^laxity_agent_rounds_total (\d+)", text, re.M)
        is_told = re.search(r"^laxity_agent_exchange_used\{.*\} 1$", text, re.M)
        return Told(int(rounds[1]) if rounds else 0, jobs, is_told is not None)


class Test:
    """Against a cluster that runs no job yet."""

    def __init__(self, laxity: str, folder: Path, flink: Flink):
        self.laxity = laxity
        self.folder = folder
        self.flink = flink
        self.rows = folder / "rows"
        self.urgent = self.submit(URGENT, 1)
        self.bulk = self.submit(BULK, 1)
        self.before = threads(flink.taskmanager)
        self.session = session_nice()

    def submit(self, name: str, parallelism: int) -> str:
        return submit(self.flink, self.folder, name, parallelism)

    def attach(self, *arguments: str) -> Agent:
        """With groups, whatever else computes in the cgroup that the test is started in."""
        return Agent(self.laxity, self.folder / "agent", ["--flink", self.flink.url, "--job", f"{URGENT}=50 ms", "--share", "100",
                                                          "--listen", f"127.0.0.1:{PORT}", *arguments])

    def a_dry_run_changes_nothing(self) -> None:
        said = self.attach_once("--dry-run")
        check(URGENT in said and BULK in said and "dry run" in said, "a dry run shows both jobs", said)
        check(self.is_unchanged(), "and changes nothing")

    def jobs_come_change_and_go(self) -> None:
        agent = self.attach()
        self.jobs_have_nice({URGENT: 1, BULK: 1}, agent)
        self.engine_is_untouched()
        self.change("a job that is rescaled", BULK, 2, lambda: self.flink.rescale(self.bulk, 2))
        self.change("a job that fails", URGENT, 1, self.fail_urgent)
        self.change("a job that fails again", URGENT, 1, self.fail_urgent)
        self.change("a job that is rescaled back", BULK, 1, lambda: self.flink.rescale(self.bulk, 1))
        self.flink.cancel(self.bulk)
        eventually("a cancelled job is forgotten", lambda: BULK not in self.told().jobs)
        self.bulk = self.submit(BULK, 2)
        self.jobs_have_nice({URGENT: 1, BULK: 2}, agent)
        self.engine_is_untouched()
        groups = self.groups()
        check(agent.stop() == 0, "SIGTERM ends it well", agent.text()[-2000:])
        self.all_is_as_before(groups)
        check(session_nice() == self.session, "so is the session that the agent ran in", str(session_nice()))

    def what_a_crash_leaves_is_put_back(self) -> None:
        """With a group for each job, where groups can be made; the jobs change before anybody puts back anything."""
        agent = self.attach("--translator", "query-shares+nice" if is_writable_cgroup() else "nice")
        agent.kill()
        groups = self.groups()
        check(not self.is_unchanged(), "a killed agent leaves what it did")
        self.flink.rescale(self.bulk, 1)
        self.fail_urgent()
        said = self.command("restore", "--state", str(agent.state))
        self.all_is_as_before(groups, said)
        check(session_nice() == self.session, "so is the session that the agent ran in", said)

    def what_is_missing_is_said(self) -> None:
        nowhere = self.command("attach", "--flink", "http://127.0.0.1:1", "--once", code=2)
        check("nothing answers at http://127.0.0.1:1" in nowhere, "an address where nothing answers is told", nowhere)
        gateway = self.flink.url.replace(str(self.flink.port), str(self.flink.port + 2))
        other = self.command("attach", "--flink", gateway, "--once", code=2)
        check("is this the engine's REST address?" in other, "so is one where something else does", other)

        if not can_run(WITHOUT_CAPABILITY):
            return print("skipped: what is not permitted (needs root, setpriv, unshare)")
        said = self.attach_once(code=2, through=WITHOUT_CAPABILITY)
        check("not permitted" in said and "CAP_SYS_NICE" in said and "docs/attach.md" in said, "without CAP_SYS_NICE it says so", said)
        said = self.attach_once(code=2, through=AS_NOBODY)
        check("are only shown to its user 0 and to root" in said, "another user is told who may see threads", said)
        if can_run(WITH_READ_ONLY_CGROUPS):
            said = self.attach_once(through=WITH_READ_ONLY_CGROUPS)
            check("is mounted read-only" in said and re.search(r"put back [1-9]", said),
                  "where cgroups are read-only it says so, and goes by nice alone", said)
            said = self.attach_once("--translator", "shares", code=2, through=WITH_READ_ONLY_CGROUPS)
            check("not permitted" in said and "is mounted read-only" in said, "and shares are refused", said)
        check(self.is_unchanged(), "all of this changes nothing")

    def files_become_jobs(self) -> None:
        files_are_submitted(self.laxity, self.folder, self.flink, check)

    def without_metrics_all_are_equal(self) -> None:
        agent = self.attach("--policy", "qs")
        check("metrics are switched off" in agent.text(), "that metrics are switched off is said", agent.text())
        begin = self.told().round
        eventually("rounds go on", lambda: self.told().round >= begin + 2)
        nice = {nice for tasks in self.told().jobs.values() for _, nice in tasks.values()}
        check(nice == {0}, "without metrics every operator gets the middle", f"{nice} {agent.text()[-2000:]}")
        agent.stop()
        agent = self.attach()
        self.jobs_have_nice({URGENT: 1, BULK: 1}, agent)
        groups = self.groups()
        agent.stop()
        self.all_is_as_before(groups)

    def fail_urgent(self) -> None:
        """Returns when all of its tasks run again."""
        path = self.rows / f"{len(list(self.rows.iterdir()))}.csv"
        begin_ms = time.time() * 1e3
        path.write_text(NO_ROW)
        self.flink.await_failure(self.urgent, begin_ms)
        path.write_text(ROW)
        self.flink.await_running(self.urgent, time.time() * 1e3)

    def change(self, what: str, job: str, instances: int, make) -> None:
        """Its new threads have the plan within two periods, and nothing is left of those before."""
        old = {tid for tid, _ in self.told().jobs[job].values()}
        make()
        begin = self.told().round

        def is_planned() -> bool:
            tasks = self.told().jobs.get(job, {}).values()
            now = threads(self.flink.taskmanager)
            return len(tasks) == instances * 3 and all(
                tid not in old and tid in now and now[tid].nice == nice and nice in NICE[job] for tid, nice in tasks)
        eventually(f"{what} has the plan again", is_planned, lambda: str(self.told()), step_s=0.05)
        # Two, and one that may have been under way; as much again for a machine that is busy with other things.
        rounds = self.told().round - begin
        check(rounds <= 6, f"in round {rounds} after it ran", "that is too late")

    def attach_once(self, *arguments: str, code: int = 0, through: list[str] = []) -> str:
        # Others than root have to come there.
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            program = shutil.copy(self.laxity, folder) if through else self.laxity
            # It becomes what lies beside it.
            for agent in Path(self.laxity).parent.glob("laxity-agent"):
                shutil.copy(agent, folder)
            return self.command("attach", "--flink", self.flink.url, "--job", f"{URGENT}=50 ms", "--once", "--plain",
                                "--state", f"{folder}/state", *arguments, code=code, program=[*through, program])

    def command(self, *arguments: str, code: int = 0, program: list[str] = []) -> str:
        done = subprocess.run([*(program or [self.laxity]), *arguments], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60)
        check(done.returncode == code, f"laxity {arguments[0]} ends with {code}", f"it ended with {done.returncode}: {done.stdout}")
        return done.stdout

    def told(self) -> Told:
        return Told.read(f"127.0.0.1:{PORT}")

    def jobs_have_nice(self, parallelism: dict[str, int], agent: Agent) -> None:
        def wrong() -> list[str]:
            told, now, names = self.told().jobs, threads(self.flink.taskmanager), self.names()
            found = []
            for job, instances in parallelism.items():
                tasks = told.get(job, {})
                # Source, calculation and sink.
                if len(tasks) != instances * 3:
                    found.append(f"{job}: {len(tasks)} tasks")
                found += [f"{task}: {nice} told, {now[tid].nice} had" for task, (tid, nice) in tasks.items()
                          if nice not in NICE[job] or tid in now and now[tid].nice != nice]
                # Threads of timers are the engine's: a timer that is late is late for all.
                found += [f"{name}: {now[tid].nice}" for tid, name in names.items() if f"{job}_" in name
                          and "Time Trigger" not in name and tid in now and now[tid].nice not in NICE[job]]
            return found
        eventually(f"nice values suit the targets, with instances {parallelism}", lambda: not wrong(),
                   lambda: "\n".join(wrong()) + agent.text()[-3000:])

    def engine_is_untouched(self) -> None:
        now = threads(self.flink.taskmanager)
        engine = [tid for tid, name in self.names().items() if name.startswith(ENGINE_THREADS) and tid in now]
        usual = self.before[self.flink.taskmanager]
        changed = [now[tid].name for tid in engine if now[tid].nice != self.before.get(tid, usual).nice]
        check(len(engine) > 20 and not changed, f"{len(engine)} threads of the engine itself keep their nice value", str(changed))

    def names(self) -> dict[int, str]:
        dump = subprocess.run(["jcmd", str(self.flink.taskmanager), "Thread.print"], text=True, stdout=subprocess.PIPE, timeout=60).stdout
        return {int(nid, 0): name for name, nid in re.findall(r'^"(.*)" .*\bnid=(0x[0-9a-f]+|\d+)', dump, re.M)}

    def groups(self) -> set[Path]:
        """The agent's, that threads of the TaskManager are in."""
        lines = (line for thread in threads(self.flink.taskmanager).values() for line in thread.cgroups.splitlines())
        places = (line.split(":", 2)[1:] for line in lines if "/laxity" in line)
        return {Path("/sys/fs/cgroup", controllers, path.lstrip("/")) for controllers, path in places}

    def all_is_as_before(self, groups: set[Path], said: str = "") -> None:
        check(self.is_unchanged(), "all threads are as before", said)
        left = [group for group in groups if group.exists()]
        check(not left, f"{len(groups)} groups are gone", f"{left} are there; {said}")

    def is_unchanged(self) -> bool:
        return is_unchanged(self.before, self.flink.taskmanager)


class Split:
    """A job with an instance of each operator on either of two machines, each with an agent."""
    NODES = {"a": "10.78.0.1", "b": "10.78.0.2"}

    def __init__(self, laxity: str, folder: Path):
        self.folder = folder
        self.machines = {node: Machine(first_pid) for node, first_pid in zip(self.NODES, (0, 2000))}
        join(*self.machines.values(), tuple(self.NODES.values()))
        self.laxity = laxity
        self.flink: Flink | None = None
        self.agents: dict[str, Agent] = {}

    def run(self) -> None:
        a, b = self.machines.values()
        with a.network():
            self.flink = flink = Flink(sql=True, enter=a.enter, FLINK_HOST=self.NODES["a"],
                                       FLINK_PROPERTIES=SPREAD, JAVA_TOOL_OPTIONS=QUICK_START)
            managers = {"a": a.outer(flink.taskmanager), "b": self.task_manager(a.outer(flink.taskmanager))}
            eventually("a TaskManager on each machine", lambda: len(flink.call("GET", "/taskmanagers")["taskmanagers"]) == 2)
            submit(flink, self.folder, URGENT, 2)
        before = {node: threads(pid) for node, pid in managers.items()}
        self.authority()
        for node in self.NODES:
            self.agents[node] = self.attach(node, flink.url)
        told = {node: self.told(node).jobs.get(URGENT, {}) for node in self.NODES}
        check([len(told[node]) for node in self.NODES] == [3, 3] and len(told["a"] | told["b"]) == 6,
              "each agent has the instances of its machine, and no other's", str(told))
        for node, pid in managers.items():
            now = threads(pid)
            check(all(now[tid].nice == nice for tid, nice in told[node].values()), f"their threads on machine {node} have the plan",
                  str(told[node]))
        for node in self.NODES:
            eventually(f"what the other told machine {node} counts", lambda: self.told(node).is_told, self.agents[node].text)
        check(self.agents["b"].stop() == 0 and is_unchanged(before["b"], managers["b"]), "one ends, and puts its machine back",
              self.agents["b"].text()[-2000:])
        self.agents["a"].await_text("agent b has been silent", 30)
        check(not is_unchanged(before["a"], managers["a"]) and self.told("a").jobs[URGENT].keys() == told["a"].keys(),
              "the other says so, and goes on with its own")
        os.kill(managers["b"], signal.SIGKILL)
        eventually("when a TaskManager is lost, the other machine's agent has all instances",
                   lambda: self.told("a").jobs.get(URGENT, {}).keys() == (told["a"] | told["b"]).keys(), self.agents["a"].text)
        check(self.agents["a"].stop() == 0 and is_unchanged(before["a"], managers["a"]), "and puts its own back",
              self.agents["a"].text()[-2000:])

    def task_manager(self, like: int) -> int:
        """On the second machine, as that process on the first."""
        parts = lambda name: Path(f"/proc/{like}/{name}").read_text().rstrip("\0").split("\0")
        host = [f"-Dtaskmanager.{key}={self.NODES['b']}" for key in ("host", "bind-host")]
        command = [part.replace("taskmanager-1", "taskmanager-2") for part in parts("cmdline")]
        started = subprocess.Popen([*self.machines["b"].enter, *command, *host], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=dict(part.split("=", 1) for part in parts("environ")))
        return child_of(started.pid)

    def authority(self) -> None:
        """Certificates of it, and of each agent."""
        (self.folder / "openssl.cnf").write_text("[req]\ndistinguished_name=name\n[name]\n")
        request = lambda name, *more: subprocess.run(
            ["openssl", "req", "-x509", "-config", "openssl.cnf", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem", *more],
            cwd=self.folder, check=True, stderr=subprocess.DEVNULL)
        request("ca", "-addext", "basicConstraints=critical,CA:TRUE")
        for node, address in self.NODES.items():
            request(node, "-CA", "ca.pem", "-CAkey", "ca.key", "-addext", f"subjectAltName=IP:{address}",
                    "-addext", "basicConstraints=critical,CA:FALSE")

    def attach(self, node: str, url: str) -> Agent:
        folder = self.folder / f"agent-{node}"
        folder.mkdir()
        others = [f"{address}:9465" for other, address in self.NODES.items() if other != node]
        (folder / "attach.toml").write_text(f"""share = 100
[exchange]
listen = "{self.NODES[node]}:9465"
peers = {others}
ca = "{self.folder}/ca.pem"
cert = "{self.folder}/{node}.pem"
key = "{self.folder}/{node}.key"
node = "{node}"
stale = "3 s"
""")
        return Agent(self.laxity, folder, ["--flink", url, "--job", f"{URGENT}=50 ms", "--listen", f"127.0.0.1:{PORT}",
                                           "--config", str(folder / "attach.toml")], self.machines[node].enter)

    def told(self, node: str) -> Told:
        with self.machines[node].network():
            return Told.read(f"127.0.0.1:{PORT}")

    def stop(self) -> None:
        for stopped in (*self.agents.values(), *filter(None, [self.flink]), *self.machines.values()):
            stopped.stop()


def session_nice() -> int | None:
    """By which the kernel's autogroup weighs all that was started from one terminal. None where there is no autogroup, or
    no terminal or daemon has made a session since boot: the file is empty then and takes no value."""
    told = AUTOGROUP.read_text().split() if AUTOGROUP.exists() else []
    return int(told[-1]) if told else None


def set_session_nice(nice: int | None) -> None:
    if nice is not None and session_nice() is not None:
        AUTOGROUP.write_text(str(nice))


def submit(flink: Flink, folder: Path, name: str, parallelism: int) -> str:
    rows = folder / "rows"
    rows.mkdir(exist_ok=True)
    path = folder / f"{name}.sql"
    path.write_text(JOB.format(name=name, parallelism=parallelism, source=SOURCE[name].format(rows=rows)))
    job = flink.sql(path)
    flink.await_running(job)
    return job


def is_unchanged(before: dict[int, Thread], pid: int) -> bool:
    """Threads that came since are as all were."""
    usual = next(iter(before.values()))
    had = lambda tid: before.get(tid, usual)
    return all((thread.nice, thread.cgroups) == (had(tid).nice, had(tid).cgroups) for tid, thread in threads(pid).items())


WITHOUT_CAPABILITY = ["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice"]
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
WITH_READ_ONLY_CGROUPS = ["unshare", "--mount", "sh", "-c", READ_ONLY_CGROUPS, "sh"]


def can_run(through: list[str]) -> bool:
    try:
        return subprocess.run([*through, "true"], stderr=subprocess.DEVNULL).returncode == 0
    except FileNotFoundError:
        return False


def is_writable_cgroup() -> bool:
    return any(os.access(folder, os.W_OK) for folder in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cgroup.procs"))


def check(is_so: object, what: str, otherwise: str = "") -> None:
    if not is_so:
        raise SystemExit(f"FAILED: {what}\n{otherwise}")
    print(f"ok: {what}", flush=True)


def eventually(what: str, is_so, otherwise=lambda: "", patience_s: float = 30, step_s: float = 0.5) -> None:
    until = time.time() + patience_s
    while not is_so():
        if time.time() > until:
            check(False, f"{what}, after {patience_s:.0f} s", otherwise())
        time.sleep(step_s)
    check(True, what)


def main() -> None:
    # As it is where no agent was killed before.
    set_session_nice(0)
    # A signal ends this as an error would: agents put back what they changed, engines end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if os.environ.get("SMALL") == "1":
        on_cluster(folder, [Test.jobs_come_change_and_go, Test.files_become_jobs], FLINK_PROPERTIES=ELASTIC)
    else:
        on_cluster(folder, [Test.a_dry_run_changes_nothing, Test.jobs_come_change_and_go, Test.what_a_crash_leaves_is_put_back,
                            Test.what_is_missing_is_said, Test.files_become_jobs], FLINK_PROPERTIES=ELASTIC)
        on_cluster(folder, [Test.without_metrics_all_are_equal], FETCH_MS="0")
        on_two_machines(folder)
    print("attach: all well")


def on_two_machines(folder: Path) -> None:
    needed = ["unshare", "--net", "--pid", "--fork", "--mount-proc"]
    if not can_run(needed) or not all(map(shutil.which, ("nsenter", "ip", "openssl"))):
        return print("skipped: two machines (needs root, unshare, nsenter, ip, openssl)")
    begin = time.time()
    split = Split(sys.argv[1], folder)
    try:
        split.run()
    finally:
        split.stop()
    print(f"== {Split.__name__}: {time.time() - begin:.1f} s", flush=True)


def on_cluster(folder: Path, parts: list, **settings: str) -> None:
    flink = Flink(sql=True, JAVA_TOOL_OPTIONS=QUICK_START, **settings)
    try:
        test = Test(sys.argv[1], folder, flink)
        for part in parts:
            begin = time.time()
            part(test)
            print(f"== {part.__name__}: {time.time() - begin:.1f} s", flush=True)
    finally:
        flink.stop()


if __name__ == "__main__":
    main()
