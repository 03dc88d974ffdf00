"""A `laxity attach` beside an engine."""

import atexit
import os
import re
import signal
import subprocess
import time
from pathlib import Path


class Agent:
    """Attaches when made; has ranked and written when its constructor returns. `enter`: the command that runs another in
    the namespaces it is to be in."""

    def __init__(self, laxity: str, folder: Path, arguments: list[str], enter: list[str] = []):
        folder.mkdir(parents=True, exist_ok=True)
        self.state = folder / "state"
        self.log = folder / "agent.log"
        self.out = open(self.log, "w")
        self.process = subprocess.Popen(
            [*enter, laxity, "attach", "--plain", "--state", str(self.state), *arguments],
            stdout=self.out, stderr=subprocess.STDOUT)
        # Other process ids are entered by a child.
        self.pid = child_of(self.process.pid) if "-p" in enter else self.process.pid
        # Whatever goes wrong here: threads are not left with nice values of ours.
        atexit.register(self.stop)
        # The first round knows no rates yet, and not all metrics. Moving a thread to a group waits for the kernel (an RCU grace
        # period), which on a machine that is much too busy took a minute.
        self.await_text(r"\bround 2 took\b", 180)

    def text(self) -> str:
        return self.log.read_text()

    def await_text(self, pattern: str, patience_s: float) -> None:
        until = time.time() + patience_s
        while not re.search(pattern, self.text()):
            if self.process.poll() is not None or time.time() > until:
                self.stop()
                raise SystemExit(f"the agent did not come to {pattern!r}; it said:\n{self.text()[-4000:]}")
            time.sleep(0.1)

    def cpu_s(self) -> float:
        return sum(thread.cpu_s for thread in threads(self.pid).values())

    def rss_mb(self) -> float:
        """At its highest so far."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024

    def stop(self) -> int:
        """Ends it, which puts all back; its exit code."""
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise SystemExit(f"the agent did not end within a minute of SIGTERM; it said:\n{self.text()[-4000:]}")

    def kill(self) -> None:
        """As a crash would: nothing is put back."""
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait()


def child_of(pid: int) -> int:
    """The one that it has, or is about to have."""
    until = time.time() + 10
    while time.time() < until:
        if children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            return int(children[0])
        time.sleep(0.01)
    raise SystemExit(f"process {pid} has started no other, or that one has ended at once")


def threads(pid: int) -> dict[int, "Thread"]:
    """Of a process, by thread id as it sees them itself; those that end meanwhile are left out."""
    found = {}
    for entry in Path(f"/proc/{pid}/task").iterdir():
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            found[inner_id(entry)] = Thread(int(fields[16]), int((entry / "schedstat").read_text().split()[0]) / 1e9,
                                            (entry / "cgroup").read_text(), (entry / "comm").read_text().strip())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def inner_id(entry: Path) -> int:
    """Of a process or thread in /proc, the id by which it sees itself."""
    return int(re.search(r"^NSpid:.*\t(\d+)$", (entry / "status").read_text(), re.M)[1])


class Thread:
    def __init__(self, nice: int, cpu_s: float, cgroups: str, name: str):
        self.nice = nice
        self.cpu_s = cpu_s
        self.cgroups = cgroups
        self.name = name
