"""Measures N queries over one stream as a Flink job and with laxity; scripts/beside-flink.sh prepares, and says what can be set."""

import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from datetime import datetime, timedelta
from pathlib import Path

TENANTS = 300
ROWS_PER_S = 10_000  # of event time
ENGINES = ("flink", "laxity")
REST = f"http://{os.environ.get('FLINK_HOST', '127.0.0.1')}:{os.environ.get('FLINK_PORT', '18081')}"


def main() -> None:
    laxity, out, flink_home = (Path(os.environ[name]) for name in ("LAXITY", "OUT", "FLINK_HOME"))
    counts = [int(count) for count in os.environ["QUERIES"].split()]
    rows, rounds = int(os.environ["ROWS"]), int(os.environ["ROUNDS"])
    pids = [int(pid) for pid in (flink_home / "run.pids").read_text().split()]
    taskmanager = pids[1]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        files = {size: write_rows(folder / f"{size}.csv", size) for size in (rows // 4, rows)}
        check(laxity, flink_home, folder, write_rows(folder / "check.csv", min(rows, 100_000)))
        figures = (out / "beside-flink.csv").open("w")
        print("round,engine,queries,rows,cpu_s,wall_s,peak_mb", file=figures, flush=True)
        cost: dict[tuple[str, int], list[float]] = {}
        peak: dict[tuple[str, int], float] = {}
        for number in range(rounds + 1):
            for count in counts:
                for engine in ENGINES:
                    cpu = {}
                    for size, file in files.items():
                        sql = folder / "script.sql"
                        sql.write_text(script(count, file, "blackhole"))
                        measured = on_flink(sql, taskmanager) if engine == "flink" else with_laxity(laxity, sql)
                        cpu[size], wall_s, peak_mb = measured
                        if number > 0:
                            line = f"{number},{engine},{count},{size},{cpu[size]:.2f},{wall_s:.2f},{peak_mb:.0f}"
                            print(line, file=figures, flush=True)
                            print(line, flush=True)
                            peak[engine, count] = max(peak.get((engine, count), 0), peak_mb)
                    if number > 0:
                        cost.setdefault((engine, count), []).append(row_ns(cpu))
        figures.close()
    (out / "summary.md").write_text(summary(counts, rounds, rows, cost, peak))
    print((out / "summary.md").read_text())


def row_ns(cpu_s: dict[int, float]) -> float:
    """CPU time of a row, by the difference between two files.

    >>> row_ns({1_000: 1.5, 4_000: 3.0})
    500000.0
    """
    (short, of_short), (long, of_long) = sorted(cpu_s.items())
    return (of_long - of_short) / (long - short) * 1e9


def write_rows(path: Path, count: int) -> Path:
    """Rows in order of event time, of random tenants; the same each time."""
    dice, start = random.Random(1), datetime(2024, 1, 1)
    with path.open("w") as file:
        for first in range(0, count, 10):
            at = start + timedelta(milliseconds=first * 1000 // ROWS_PER_S)
            text = at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03}"
            for _ in range(min(10, count - first)):
                file.write(f"{dice.randrange(TENANTS)},{dice.randrange(100)},{text}\n")
    return path


def script(count: int, file: Path, connector: str) -> str:
    """
    >>> print(script(2, Path("/x.csv"), "print").count("INSERT"))
    2
    """
    inserts = "".join(
        "INSERT INTO results SELECT window_end, tenant, COUNT(*), SUM(v) "
        "FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND)) "
        f"WHERE tenant = {tenant} GROUP BY window_start, window_end, tenant;\n"
        for tenant in range(count))
    return (
        "SET 'pipeline.object-reuse' = 'true';\n"
        "CREATE TABLE events (tenant BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
        f"WITH ('connector' = 'filesystem', 'path' = '{file}', 'format' = 'csv');\n"
        "CREATE TABLE results (e TIMESTAMP(3), tenant BIGINT, n BIGINT, s BIGINT) "
        f"WITH ('connector' = '{connector}');\n"
        f"EXECUTE STATEMENT SET BEGIN\n{inserts}END;\n")


def check(laxity: Path, flink_home: Path, folder: Path, file: Path) -> None:
    """Both give the same rows."""
    sql = folder / "check.sql"
    sql.write_text(script(4, file, "print"))
    printed = flink_home / "log" / "taskmanager-1.out"
    before = len(printed.read_text())
    run_job(sql)
    of_flink = sorted(re.findall(r"\+I\[.*\]", printed.read_text()[before:]))
    output = subprocess.run([laxity, "run", sql, "--plain"], capture_output=True, text=True, check=True).stdout
    of_laxity = sorted(re.findall(r"\+I\[.*\]", output))
    if not of_flink or of_flink != of_laxity:
        sys.exit(f"not the same results: {len(of_flink)} of Flink, {len(of_laxity)} here")


def on_flink(sql: Path, taskmanager: int) -> tuple[float, float, float]:
    # The peak from here on.
    Path(f"/proc/{taskmanager}/clear_refs").write_text("5")
    before_s = cpu_s(taskmanager)
    wall_s = run_job(sql)
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{taskmanager}/status").read_text())
    return cpu_s(taskmanager) - before_s, wall_s, int(peak[1]) / 1024


def run_job(sql: Path) -> float:
    """Until it has finished; how long that took, s."""
    started = subprocess.run(["scripts/flink.sh", "sql", sql], capture_output=True, text=True, check=True)
    (job,) = started.stdout.split()
    while True:
        with urllib.request.urlopen(f"{REST}/jobs/{job}", timeout=60) as answer:
            state = json.load(answer)
        if state["state"] == "FINISHED":
            return state["duration"] / 1000
        if state["state"] in ("FAILED", "CANCELED"):
            sys.exit(f"the job of {sql} is {state['state']}: see Flink's log")
        time.sleep(0.2)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def with_laxity(laxity: Path, sql: Path) -> tuple[float, float, float]:
    began = time.monotonic()
    process = subprocess.Popen([laxity, "run", sql, "--plain"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"laxity: {said[-2000:]}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - began, usage.ru_maxrss / 1024


def summary(counts: list[int], rounds: int, rows: int, cost: dict, peak: dict) -> str:
    lines = [
        f"# N queries over one stream, beside Flink, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC", "",
        f"`scripts/beside-flink.sh`, {rows} and {rows // 4} rows, {rounds} rounds; raw figures in beside-flink.csv. CPU time of "
        "a row is of the TaskManager alone, and of the whole program here; memory the peak of the resident set.", "",
        "| queries | Flink, ns a row | laxity, ns a row | Flink, MB | laxity, MB |",
        "|---|---|---|---|---|"]
    for count in counts:
        ns = " | ".join(f"{statistics.median(cost[engine, count]):.0f}" for engine in ENGINES)
        mb = " | ".join(f"{peak[engine, count]:.0f}" for engine in ENGINES)
        lines.append(f"| {count} | {ns} | {mb} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
