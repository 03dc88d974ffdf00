"""The engines, each run the same way: what is asked is started, its process is watched, and it is stopped."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "attach"))
from flink import Flink as Cluster  # noqa: E402

from queries import ALWAYS, SERVER, TUNED, many, one

LAXITY = os.environ.get("LAXITY", "laxity")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int, field: str = "VmRSS") -> float:
    return int(re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


class Sql:
    """What is asked is one file for all who read it."""

    one_job = False

    def asks(self, query: str, events: str, results: str, format: str) -> str:
        return one(query, events, results, format)

    def asks_many(self, urgents: int, heavies: int, *topics: str) -> str:
        return many(urgents, heavies, *topics, one_job=self.one_job)


class Laxity(Sql):
    """A process for each file."""

    name = "laxity"

    def start(self, sql: str, folder: Path) -> None:
        path = folder / "laxity.sql"
        path.write_text(ALWAYS + TUNED + sql)
        self.log = open(folder / "laxity.log", "wb")
        self.began = time.monotonic()
        self.process = subprocess.Popen([LAXITY, "run", path, "--plain"], stdout=self.log, stderr=self.log)
        self.folder = folder

    def cpu_s(self) -> float:
        return cpu_s(self.process.pid)

    def resident_mb(self) -> dict[str, float]:
        return {"all": resident_mb(self.process.pid)}

    def finish(self) -> tuple[float, float, float]:
        """Waits for the end of a bounded file: CPU s, wall s, peak MB."""
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.said()
        return usage.ru_utime + usage.ru_stime, time.monotonic() - self.began, usage.ru_maxrss / 1024

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        # 3: what was on its way was dropped, as it is when an overloaded run is stopped.
        if self.process.returncode not in (0, 3):
            self.said()

    def said(self) -> None:
        if self.process.returncode != 0:
            sys.exit(f"laxity ended with {self.process.returncode}: {(self.folder / 'laxity.log').read_text(errors='replace')[-3000:]}")

    def end(self) -> None:
        pass


class DoesNotRun(Exception):
    """The engine cannot run this file."""


def cause(exceptions: dict) -> str:
    """The first line of the last cause that Flink tells of.

    >>> cause({"exceptionHistory": {"entries": [{"stacktrace": "A: b\\n\\tat c\\nCaused by: D: e\\n\\tat f"}]}})
    'D: e'
    """
    entries = exceptions.get("exceptionHistory", {}).get("entries", [])
    text = entries[0]["stacktrace"] if entries else str(exceptions)
    return text.rsplit("Caused by: ", 1)[-1].splitlines()[0]


class Flink(Sql):
    """A session cluster that stays while files come and go."""

    def __init__(self, parallelism: int, tuned: bool = True, slots: int = 8, fetch_ms: int = 0, one_job: bool = False):
        """`slots` share what is managed: a job has as many as it is parallel. `one_job`: of all queries of a file."""
        self.one_job = one_job
        self.name = "flink" if tuned else "flink-default"
        self.settings = ALWAYS + (TUNED if tuned else "") + f"SET 'parallelism.default' = '{parallelism}';\n"
        self.cluster = Cluster(sql=True, TASKMANAGERS="1", FETCH_MS=str(fetch_ms), SLOTS=str(slots))
        self.jobs: list[str] = []

    def start(self, sql: str, folder: Path) -> None:
        path = folder / "flink.sql"
        path.write_text(self.settings + sql)
        Path(f"/proc/{self.cluster.taskmanager}/clear_refs").write_text("5")  # the peak from here on
        self.cpu_before_s, self.began = cpu_s(self.cluster.taskmanager), time.monotonic()
        self.jobs = self.cluster.script("sql", str(path)).split()
        for job in self.jobs:
            state = self.cluster.call("GET", f"/jobs/{job}")["state"]
            if state not in ("FINISHED",):
                self.running(job)

    def running(self, job: str) -> None:
        until = time.monotonic() + 300
        while time.monotonic() < until:
            told = self.cluster.call("GET", f"/jobs/{job}")
            states = {vertex["status"] for vertex in told["vertices"]}
            if told["state"] == "FINISHED" or (told["state"] == "RUNNING" and states <= {"RUNNING", "FINISHED"}):
                return
            if told["state"] in ("FAILED", "CANCELED"):
                break
            time.sleep(0.05)
        why = DoesNotRun(f"job {job}: {cause(self.cluster.call('GET', f'/jobs/{job}/exceptions'))}")
        self.jobs = []
        raise why

    def cpu_s(self) -> float:
        return cpu_s(self.cluster.taskmanager)

    def resident_mb(self) -> dict[str, float]:
        """Of the TaskManager, and of it with the JobManager; the SQL gateway is in neither."""
        taskmanager = resident_mb(self.cluster.taskmanager)
        return {"taskmanager": taskmanager, "all": taskmanager + resident_mb(self.cluster.pids[0])}

    def finish(self) -> tuple[float, float, float]:
        for job in self.jobs:
            while True:
                told = self.cluster.call("GET", f"/jobs/{job}")
                if told["state"] == "FINISHED":
                    break
                if told["state"] in ("FAILED", "CANCELED"):
                    sys.exit(f"job {job} is {told['state']}: {cause(self.cluster.call('GET', f'/jobs/{job}/exceptions'))}")
                time.sleep(0.1)
        wall_s = max(self.cluster.call("GET", f"/jobs/{job}")["duration"] for job in self.jobs) / 1000
        self.jobs = []
        return cpu_s(self.cluster.taskmanager) - self.cpu_before_s, wall_s, resident_mb(self.cluster.taskmanager, "VmHWM")

    def stop(self) -> None:
        for job in self.jobs:
            self.cluster.call("PATCH", f"/jobs/{job}?mode=cancel")
        for job in self.jobs:
            self.cluster.await_state(job, "CANCELED")
        self.jobs = []

    def end(self) -> None:
        self.cluster.stop()


class Attached(Flink):
    """Flink with an agent of ours beside it: the targets are of the file."""

    def __init__(self):
        super().__init__(parallelism=1, slots=32, fetch_ms=1_000)
        self.name = "flink-attached"

    def start(self, sql: str, folder: Path) -> None:
        super().start(sql, folder)
        targets = re.findall(r"'pipeline\.name' = '(urgent \d+)';\nSET 'laxity\.latency\.target' = '([^']*)'", sql)
        jobs = [word for name, target in targets for word in ("--job", f"{name}={target}")]
        self.log = open(folder / "attach.log", "wb")
        self.agent = subprocess.Popen([LAXITY, "attach", "--flink", self.cluster.url, "--state", folder / "agent", "--plain", *jobs],
                                      stdout=self.log, stderr=self.log)

    def stop(self) -> None:
        self.agent.terminate()
        self.agent.wait(30)
        super().stop()


class KafkaStreams:
    """A process for each query: its queries are a program, java/laxity/race."""

    name = "kafka-streams"
    RUNS = ("q0", "q1", "q2", "q11", "join")
    process = None

    def asks(self, query: str, events: str, results: str, format: str) -> str:
        """In words of the program: IN OUT QUERY.

        >>> KafkaStreams().asks("q0", "i", "o", "json")
        'i o q0'
        """
        runs = query in self.RUNS and format == "json"
        return f"{events} {results} {query}" if runs else ""

    def start(self, asked: str, folder: Path) -> None:
        if not asked:
            raise DoesNotRun("of this query there is no program: see scripts/race.sh")
        self.state = tempfile.mkdtemp(dir=folder)
        self.log = folder / "streams.log"
        command = ["java", f"-Xmx{os.environ.get('HEAP_MB', '2048')}m", "-cp", os.environ["STREAMS_CLASSES"], "laxity.race.OnKafkaStreams"]
        self.process = subprocess.Popen([*command, SERVER, *asked.split(), self.state], stdout=self.log.open("wb"), stderr=subprocess.STDOUT)
        until = time.monotonic() + 120
        while "running" not in self.log.read_text(errors="replace").split("\n"):
            if self.process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise DoesNotRun(self.log.read_text(errors="replace")[-500:])
            time.sleep(0.05)

    def cpu_s(self) -> float:
        return cpu_s(self.process.pid)

    def resident_mb(self) -> dict[str, float]:
        runs = self.process is not None and self.process.poll() is None
        return {"all": resident_mb(self.process.pid) if runs else 0.0}

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.state)

    def end(self) -> None:
        pass
