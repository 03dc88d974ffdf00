"""A Storm cluster in one process, with one of our workloads as its topology."""

import os
import re
import subprocess
import time
from pathlib import Path

# In a network namespace of its own, where no port is taken: Storm's ZooKeeper would listen to the world.
GRAPHITE_PORT = 2003
OPENED = ("lang", "nio", "util", "net")


class Storm:
    """Runs from when it is made until stopped."""

    def __init__(self, workload: str, jars: str, control: Path, log: Path, folder: Path):
        self.workload = workload
        opens = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in OPENED]
        java = ["java", "-Xms1g", "-Xmx1g", *opens, "-cp", jars, "laxity.workload.OnStorm", workload,
                str(control), str(log), str(GRAPHITE_PORT)]
        self.output = folder / f"storm-{workload}.out"
        # No process between: what is started is, in the end, the virtual machine.
        self.process = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$0" "$@"', *java],
            stdin=subprocess.PIPE, stdout=open(self.output, "w"), stderr=subprocess.STDOUT, cwd=folder)
        self.pid = self.process.pid
        until = time.time() + 90
        while not re.search("^running", said := self.output.read_text(), re.M):
            if self.process.poll() is not None or time.time() > until:
                self.stop()
                raise SystemExit(f"Storm does not run; it said:\n{said[-4000:]}")
            time.sleep(0.2)
        self.folder = folder
        self.edges = re.findall(r"^edge (.*)", said, re.M)

    def configuration(self, with_timers: bool) -> Path:
        """The agent's: with the timer slack that it sets for Storm, or with that of any thread."""
        path = self.folder / f"storm-{self.workload}.toml"
        edges = ", ".join(f'"{edge}"' for edge in self.edges)
        path.write_text(f"""[[engine]]
kind = "storm"
process = 'laxity\\.workload\\.OnStorm {self.workload} '
query = "{self.workload}"
graphite = "127.0.0.1:{GRAPHITE_PORT}"
edges = [{edges}]
{'' if with_timers else 'timer_slack = "as it is"'}
""")
        return path

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def jars(*folders: Path, jar: Path) -> str:
    return os.pathsep.join([str(jar), *(str(folder / "*") for folder in folders)])
