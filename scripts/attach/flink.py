"""A Flink session cluster, by scripts/flink.sh and its REST interface."""

import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Flink:
    """Runs from when it is made until stopped."""

    def __init__(self, sql: bool, enter: list[str] = [], **settings: str):
        """`enter`: the command that runs another in the namespaces it is to be in. `settings`: variables of
        scripts/flink.sh."""
        self.enter = enter
        self.environment = {**os.environ, "SQL": "yes" if sql else "no", **settings}
        self.script("stop")
        try:
            self.url = self.script("start").strip()
        except BaseException:
            self.stop()
            raise
        self.port = int(self.url.rsplit(":", 1)[1])
        home = self.environment.get("FLINK_HOME") or ROOT / f"target/flink-{self.environment.get('FLINK_VERSION', '2.3.0')}"
        # The JobManager's is the first, then each TaskManager's; as they see themselves.
        self.pids = [int(pid) for pid in (Path(home) / "run.pids").read_text().split()]
        self.taskmanager = self.pids[1]

    def script(self, *arguments: str) -> str:
        done = subprocess.run([*self.enter, ROOT / "scripts/flink.sh", *arguments], env=self.environment, text=True,
                              stdout=subprocess.PIPE, timeout=300)
        if done.returncode != 0:
            raise SystemExit(f"scripts/flink.sh {' '.join(arguments)}: exit code {done.returncode}")
        return done.stdout

    def stop(self) -> None:
        self.script("stop")

    def sql(self, path: Path) -> str:
        """The id of the job that the file starts."""
        return self.script("sql", str(path)).split()[-1]

    def upload(self, jar: Path) -> str:
        boundary = uuid.uuid4().hex
        body = (f'--{boundary}\r\nContent-Disposition: form-data; name="jarfile"; filename="{jar.name}"\r\n'
                "Content-Type: application/java-archive\r\n\r\n").encode() + jar.read_bytes() + f"\r\n--{boundary}--\r\n".encode()
        answer = self.call("POST", "/jars/upload", body, f"multipart/form-data; boundary={boundary}")
        return answer["filename"].rsplit("/", 1)[1]

    def run(self, jar: str, main: str, arguments: list[str]) -> str:
        """Runs a main class of an uploaded jar; the id of its job."""
        body = json.dumps({"entryClass": main, "programArgsList": arguments}).encode()
        return self.call("POST", f"/jars/{jar}/run", body)["jobid"]

    def cancel(self, job: str) -> None:
        self.call("PATCH", f"/jobs/{job}?mode=cancel")
        self.await_state(job, "CANCELED")

    def rescale(self, job: str, parallelism: int) -> None:
        """Needs the adaptive scheduler. Returns when all of its tasks run so."""
        begin_ms = time.time() * 1e3
        wanted = self.call("GET", f"/jobs/{job}/resource-requirements")
        for vertex in wanted.values():
            vertex["parallelism"] = {"lowerBound": 1, "upperBound": parallelism}
        self.call("PUT", f"/jobs/{job}/resource-requirements", json.dumps(wanted).encode())
        told = self.await_running(job, begin_ms)
        if any(vertex["parallelism"] != parallelism for vertex in told["vertices"]):
            raise SystemExit(f"job {job} does not run with {parallelism} instances of each operator")

    def await_running(self, job: str, since_ms: float = 0) -> dict:
        """When all of its tasks run, and were started since then; what Flink says of the job then."""
        until = time.time() + 60
        while time.time() < until:
            told = self.call("GET", f"/jobs/{job}")
            runs = lambda vertex: vertex["status"] == "RUNNING" and vertex["start-time"] >= since_ms
            if all(map(runs, told["vertices"])) and told["state"] == "RUNNING":
                return told
            if told["state"] in ("FAILED", "CANCELED", "FINISHED"):
                break
            time.sleep(0.1)
        raise SystemExit(f"job {job} does not run: {self.call('GET', f'/jobs/{job}/exceptions')}"[:4000])

    def await_failure(self, job: str, since_ms: float) -> None:
        """When it has failed since then, whether it runs again or not."""
        until = time.time() + 60
        while not any(failure["timestamp"] >= since_ms
                      for failure in self.call("GET", f"/jobs/{job}/exceptions")["exceptionHistory"]["entries"]):
            if time.time() > until:
                raise SystemExit(f"job {job} has not failed within a minute")
            time.sleep(0.1)

    def await_state(self, job: str, state: str) -> None:
        until = time.time() + 60
        while self.call("GET", f"/jobs/{job}")["state"] != state:
            if time.time() > until:
                raise SystemExit(f"job {job} is not {state} after a minute")
            time.sleep(0.1)

    def call(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> dict:
        request = urllib.request.Request(self.url + path, body, {"Content-Type": kind} if body else {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            said = error.read().decode()
            # Of two who ask for one job, the later ends the earlier one's question where Flink is slow.
            if error.code == 500 and "java.util.concurrent.CancellationException" in said:
                return self.call(method, path, body, kind)
            causes = re.findall(r"Caused by: ([^\\]*)", said)
            raise SystemExit(f"{method} {path}: {error.code}: {causes[-1] if causes else said[:2000]}")
