#!/usr/bin/env python3
"""`laxity attach` on a real Flink: nice values come to the right threads, follow jobs that end and change, and go again.

Cannot catch: whether latencies get better; that is measured, not tested.
"""

import atexit
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from agent import Agent, threads
from flink import Flink

# Two statements differ in names, so that threads can be told apart without the agent.
JOB = """SET 'pipeline.name' = '{name}';
SET 'parallelism.default' = '{parallelism}';
SET 'pipeline.operator-chaining.enabled' = 'false';
CREATE TABLE {name}_in (sensor INT, degrees DOUBLE) WITH ('connector' = 'datagen', 'rows-per-second' = '100');
CREATE TABLE {name}_out (sensor INT, degrees DOUBLE) WITH ('connector' = 'blackhole');
INSERT INTO {name}_out SELECT sensor, degrees * 2 FROM {name}_in WHERE degrees > 0;
"""
URGENT, BULK = "alarms", "archive"
# llf: the least urgent gets one end of the default range, the most urgent the other; what waits for nothing lies between.
NICE = {URGENT: range(-10, 0), BULK: range(10, 11)}
# Begin the names of threads that no job may slow down.
ENGINE_THREADS = ("flink-pekko", "Flink Netty", "flink-metrics", "GC Thread", "VM Thread", "C1 Compiler", "C2 Compiler", "main")
PORT = 19464


class Test:
    def __init__(self, laxity: str, folder: Path):
        self.laxity = laxity
        self.folder = folder
        self.flink = Flink(sql=True)

    def submit(self, name: str, parallelism: int) -> str:
        path = self.folder / f"{name}.sql"
        path.write_text(JOB.format(name=name, parallelism=parallelism))
        job = self.flink.sql(path)
        self.flink.await_running(job)
        return job

    def attach(self) -> Agent:
        return Agent(self.laxity, self.folder / "agent", ["--flink", self.flink.url, "--job", f"{URGENT}=50 ms",
                                                          "--listen", f"127.0.0.1:{PORT}"])

    def run(self) -> None:
        said = self.command("attach", "--flink", "http://127.0.0.1:1", "--once", "--dry-run", code=2)
        check("127.0.0.1:1" in said, "an address where nothing answers is told", said)

        self.submit(URGENT, 1)
        archive = self.submit(BULK, 1)
        before = threads(self.flink.taskmanager)
        said = self.command("attach", "--flink", self.flink.url, "--job", f"{URGENT}=50 ms", "--once", "--dry-run",
                            "--plain", "--state", str(self.folder / "dry"))
        check(URGENT in said and BULK in said and "dry run" in said, "a dry run shows both jobs", said)
        check(self.unchanged(before), "and changes nothing")

        agent = self.attach()
        self.jobs_have_nice({URGENT: 1, BULK: 1}, agent)
        self.engine_is_untouched(before)
        self.flink.cancel(archive)
        eventually("a cancelled job is forgotten", lambda: BULK not in self.told())
        self.submit(BULK, 2)
        self.jobs_have_nice({URGENT: 1, BULK: 2}, agent)
        check(agent.stop() == 0, "SIGTERM ends it well", agent.text()[-2000:])
        check(self.unchanged(before), "and puts all back")

        agent = self.attach()
        agent.kill()
        check(not self.unchanged(before), "a killed agent leaves what it did")
        said = self.command("restore", "--state", str(agent.state))
        check(self.unchanged(before), "and restore puts it back", said)

    def command(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run([self.laxity, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        check(done.returncode == code, f"laxity {arguments[0]} ends with {code}", f"it ended with {done.returncode}: {done.stdout}")
        return done.stdout

    def told(self) -> dict[str, dict[tuple[str, int], tuple[int, int]]]:
        """By job and task: thread and nice, as the agent tells them."""
        text = urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=10).read().decode()
        jobs: dict = {}
        for job, operator, instance, tid, nice in re.findall(
                r'^laxity_agent_nice\{job="(.*?)",operator="(.*?)",instance="(\d+)",tid="(\d+)"\} (\S+)$', text, re.M):
            jobs.setdefault(job, {})[operator, int(instance)] = int(tid), int(float(nice))
        return jobs

    def jobs_have_nice(self, parallelism: dict[str, int], agent: Agent) -> None:
        def wrong() -> list[str]:
            told, now, names = self.told(), threads(self.flink.taskmanager), self.names()
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

    def engine_is_untouched(self, before: dict) -> None:
        now = threads(self.flink.taskmanager)
        engine = [tid for tid, name in self.names().items() if name.startswith(ENGINE_THREADS) and tid in now and tid in before]
        changed = [now[tid].name for tid in engine if now[tid].nice != before[tid].nice]
        check(len(engine) > 20 and not changed, f"{len(engine)} threads of the engine itself keep their nice value", str(changed))

    def names(self) -> dict[int, str]:
        dump = subprocess.run(["jcmd", str(self.flink.taskmanager), "Thread.print"], text=True, stdout=subprocess.PIPE, timeout=60).stdout
        return {int(nid, 0): name for name, nid in re.findall(r'^"(.*)" .*\bnid=(0x[0-9a-f]+|\d+)', dump, re.M)}

    def unchanged(self, before: dict) -> bool:
        """Threads that came since are as their process is."""
        usual = before[self.flink.taskmanager]
        return all((thread.nice, thread.cgroups) == ((before.get(tid) or usual).nice, (before.get(tid) or usual).cgroups)
                   for tid, thread in threads(self.flink.taskmanager).items())


def check(is_so: bool, what: str, otherwise: str = "") -> None:
    if not is_so:
        raise SystemExit(f"FAILED: {what}\n{otherwise}")
    print(f"ok: {what}", flush=True)


def eventually(what: str, is_so, otherwise=lambda: "", patience_s: float = 30) -> None:
    until = time.time() + patience_s
    while not is_so():
        if time.time() > until:
            check(False, f"{what}, after {patience_s:.0f} s", otherwise())
        time.sleep(0.5)
    check(True, what)


def main() -> None:
    # A signal ends this as an error would: agents put back what they changed, engines end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    test = Test(sys.argv[1], folder)
    try:
        test.run()
    finally:
        test.flink.stop()
    print("attach: all well")


if __name__ == "__main__":
    main()
