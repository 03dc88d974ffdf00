"""`laxity submit` on a real Flink: files become jobs under their names, what is missing is said and then nothing starts."""

import math
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from flink import Flink

TABLES = """CREATE TABLE {name}_in (sensor INT, at_ms BIGINT, ts AS TO_TIMESTAMP_LTZ(at_ms, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'datagen', 'rows-per-second' = '50', 'laxity.datagen.seed' = '3',
      'fields.at_ms.kind' = 'sequence', 'fields.at_ms.start' = '0', 'fields.at_ms.end' = '100000');
CREATE TABLE {name}_out (ends TIMESTAMP(3), number BIGINT) WITH ('connector' = '{connector}');
"""
QUERY = """SET 'pipeline.name' = '{name}';
SET 'laxity.latency.target' = '{target}';
INSERT INTO {name}_out
SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE {name}_in, DESCRIPTOR(ts), INTERVAL '1' SECOND))
{where} GROUP BY window_start, window_end;
"""
URGENT, LAZY = "submitted alarms", "submitted archive"


def files_are_submitted(laxity: str, folder: Path, flink: Flink, check) -> None:
    gateway = f"http://127.0.0.1:{flink.port + 2}"
    run = lambda *arguments, code=0: command(laxity, "submit", *map(str, arguments), code=code)
    if subprocess.run([laxity, "submit", "--help"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        return print("skipped: submitting (the agent alone has been built)")
    before = names(flink)
    good = file(folder, "good", [("a", URGENT, "50 ms"), ("b", LAZY, "1 min")])

    said = run(good, "--flink", gateway, "--check")
    check("2 queries can run there" in said and names(flink) == before, "what can run is said, and nothing starts", said)
    for missing, says in [({"connector": "kafka"}, "connector or format 'kafka' is to be in the lib folder"),
                          ({"where": "WHERE ELT_NOT_THERE(sensor) > 0"}, "ELT_NOT_THERE")]:
        bad = file(folder, "bad", [("a", URGENT, "50 ms")], **missing)
        said = run(good, bad, "--flink", gateway, code=2)
        check(says in said and "bad.sql:" in said and "nothing was started" in said and names(flink) == before,
              f"what is missing is named, and nothing starts: {says}", said)
    said = run(good, "--flink", "http://127.0.0.1:1", code=2)
    check("nothing answers at http://127.0.0.1:1" in said, "so is a gateway that is not there", said)
    said = run(good, "--flink", flink.url, code=2)
    check("is no SQL gateway" in said, "and an address that is no gateway's", said)

    said = run(good, "--flink", gateway)
    ids = dict(re.findall(r"^(.*): job (\w{32}), http\S+/#/job/running/\2/overview$", said, re.M))
    check(set(ids) == {URGENT, LAZY} and said.count("left out: ") == 2 and "'laxity.datagen.seed' of table a_in" in said,
          "each INSERT is a job, and what Flink is not told is", said)
    for name, job in ids.items():
        told = flink.await_running(job)
        check(told["name"] == name, f"it runs under its name {name!r}", str(told)[:300])
        flink.cancel(job)

    log = folder / "submit.log"
    with open(log, "w") as out:
        process = subprocess.Popen([laxity, "submit", good, "--flink", gateway, "--attach", "--plain"],
                                   stdout=out, stderr=subprocess.STDOUT)
    try:
        until = time.time() + 60
        # A round in which nothing could be read is not told.
        is_on = lambda: any(int(number) >= 3 for number in re.findall(r"\bround (\d+) took\b", log.read_text()))
        while not is_on() and process.poll() is None and time.time() < until:
            time.sleep(0.1)
        check(process.poll() is None and is_on(), "with --attach an agent stays", log.read_text()[-3000:])
        os.kill(process.pid, signal.SIGTERM)
        check(process.wait(60) == 0, "and ends well", log.read_text()[-3000:])
    finally:
        process.kill()
    said = log.read_text()
    # llf's priority of an operator with hardly any work is the logarithm of its target in nanoseconds.
    for name, target_s in [(URGENT, 0.05), (LAZY, 60)]:
        ranks = [float(rank) for rank in re.findall(rf"^{name} .*\s(\d+\.\d{{3}})\s", said, re.M)]
        check(any(abs(rank - math.log(target_s * 1e9)) < 0.5 for rank in ranks), f"{name!r} has its target of the file", said[-3000:])
    for job in re.findall(r": job (\w{32}),", said):
        flink.cancel(job)


def file(folder: Path, name: str, queries: list[tuple[str, str, str]], connector: str = "blackhole", where: str = "") -> Path:
    path = folder / f"{name}.sql"
    text = ""
    for table, job, target in queries:
        query = QUERY.format(name=table, target=target, where=where).replace(f"'{table}'", f"'{job}'", 1)
        text += TABLES.format(name=table, connector=connector) + query
    path.write_text(text)
    return path


def names(flink: Flink) -> list[str]:
    """Of the jobs that have not ended."""
    jobs = flink.call("GET", "/jobs/overview")["jobs"]
    return sorted(job["name"] for job in jobs if job["state"] not in ("CANCELED", "FAILED", "FINISHED"))


def command(*arguments: str, code: int) -> str:
    done = subprocess.run(arguments, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    if done.returncode != code:
        raise SystemExit(f"FAILED: {' '.join(arguments)}: exit code {done.returncode}, not {code}\n{done.stdout}")
    return done.stdout
