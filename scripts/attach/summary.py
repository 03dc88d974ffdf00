"""What was measured, as raw csv, as charts, and in words with the targets that were set before."""

import csv
import os
import platform
import subprocess
import time
from pathlib import Path
from statistics import median

import chart

# Of the issue that asked for these numbers.
URGENT_TIMES_LOWER = 20
URGENT_TIMES_ALONE = 3
BULK_LOSS_PERCENT = 10
SHARE_WITHIN_PERCENT = 5
AGENT_CPU_PERCENT = 1
AGENT_RSS_MB = 30
STORM_THROUGHPUT_GAIN_PERCENT = 30
STORM_TIMES_LOWER = 10
# A load is sustained if so much of it is processed as it comes.
SUSTAINED = 0.97
# Below, a hundredth of the core decides, and 5 % of it is less than the kernel's clock tick.
SHARE_LEAST = 0.05


class Summary:
    def __init__(self, out: Path):
        self.out = out
        self.began = time.strftime("%Y-%m-%d-%H%M", time.gmtime())
        self.load_average = os.getloadavg()[0]
        self.tables: dict[str, list[dict]] = {}

    def add(self, table: str, row: dict) -> None:
        self.tables.setdefault(table, []).append(row)

    def tenants(self, round_: int, kind: str, offered: float, row: dict) -> None:
        self.add("flink-urgent", {"round": round_, "kind": kind, "offered_rows_per_s": offered, **row})

    def overhead(self, round_: int, engine: str, period: str, row: dict) -> None:
        self.add("overhead", {"round": round_, "engine": engine, "period": period, "agent_cpu_percent": row["agent_cpu_percent"],
                              "agent_rss_mb": row["agent_rss_mb"], "urgent_p99_ms": row.get("p99_ms", "")})

    def share(self, round_: int, translator: str, job: str, asked: float, got: float) -> None:
        self.add("shares", {"round": round_, "translator": translator, "job": job, "asked": asked, "got": got})

    def curve(self, round_: int, engine: str, workload: str, scheduler: str, load: float, row: dict) -> None:
        self.add("curves", {"round": round_, "engine": engine, "workload": workload, "scheduler": scheduler, "load": load, **row})

    def write(self) -> None:
        if not self.tables:
            return
        folder = self.out / self.began
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in self.tables.items():
            with open(folder / f"{name}.csv", "w", newline="") as file:
                writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
                writer.writeheader()
                writer.writerows({key: rounded(value) for key, value in row.items()} for row in rows)
        for engine, workload in sorted({(row["engine"], row["workload"]) for row in self.tables.get("curves", [])}):
            self.draw(folder, engine, workload)
        (folder / "summary.md").write_text(self.text())

    def text(self) -> str:
        lines = [f"# attach, {self.began} UTC", ""]
        lines += [f"- {name}: {value}" for name, value in self.circumstances()]
        for title, part in (("Urgent job beside a bulk job, on Flink", self.urgent_text()),
                            ("The agent itself", self.overhead_text()),
                            ("CPU got against CPU asked", self.shares_text()),
                            ("Throughput and latency by load", self.curves_text())):
            if part:
                lines += ["", f"## {title}", "", *part]
        return "\n".join(lines) + "\n"

    def circumstances(self) -> list[tuple[str, str]]:
        run = lambda *command: subprocess.run(command, text=True, capture_output=True).stdout.strip()
        model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
        set_ = [f"{name}='{os.environ[name]}'" for name in ("SMALL", "ROUNDS", "PHASE", "ONLY", "LOADS", "URGENT", "SCHEDULERS", "SHARE")
                if os.environ.get(name)]
        return [("command", f"`{' '.join([*set_, 'make bench-attach'])}`"), ("revision", run("git", "rev-parse", "--short", "HEAD")),
                ("machine", f"{os.cpu_count()} cores of {model}, load average {self.load_average:.2f} at the start"),
                ("kernel", f"{platform.system()} {platform.release()}"),
                ("engines", os.environ.get("ENGINES", "?"))]

    def urgent_text(self) -> list[str]:
        rows = self.tables.get("flink-urgent", [])
        kinds = [kind for kind in ("alone", "os", "without", "with") if any(row["kind"] == kind for row in rows)]
        of = lambda kind, column: [row[column] for row in rows if row["kind"] == kind]
        if not rows:
            return []
        lines = ["Medians of the rounds (lowest to highest). `os`: nothing beside Flink. `without`: all threads in one cgroup of the "
                 "same share as with Laxity, at nice 0; what Laxity is compared with. `with`: policy llf, translator nice.", "",
                 "| | p99 ms | mean ms | urgent rows/s | bulk rows/s |", "|---|---|---|---|---|"]
        lines += [f"| {kind} | " + " | ".join(spread(of(kind, column)) for column in ("p99_ms", "mean_ms", "rows_per_s", "bulk_rows_per_s")) + " |"
                  for kind in kinds]
        lines.append("")
        if {"alone", "without", "with"} <= set(kinds):
            # Ratios of the same round: what disturbed one disturbed the other.
            ratio = lambda a, b, column: [x / y if y else float("nan") for x, y in zip(of(a, column), of(b, column))]
            offered = rows[0]["offered_rows_per_s"]
            lost = [100 * (1 - share) for share in ratio("with", "without", "bulk_rows_per_s")]
            lines += [verdict("urgent p99, without over with", ratio("without", "with", "p99_ms"), "times", at_least=URGENT_TIMES_LOWER),
                      verdict("urgent p99, with over alone", ratio("with", "alone", "p99_ms"), "times", at_most=URGENT_TIMES_ALONE),
                      verdict("urgent rows per second with Laxity, of those offered",
                              [100 * rate / offered for rate in of("with", "rows_per_s")], "%", at_least=99),
                      verdict("bulk throughput lost, with against without", lost, "%", at_most=BULK_LOSS_PERCENT)]
        return lines

    def overhead_text(self) -> list[str]:
        rows = self.tables.get("overhead", [])
        lines = []
        for engine, period in dict.fromkeys((row["engine"], row["period"]) for row in rows):
            own = [row for row in rows if (row["engine"], row["period"]) == (engine, period)]
            limit = AGENT_CPU_PERCENT if (engine, period) == ("200 threads", "1 s") else None
            lines.append(verdict(f"{engine}, period {period}: CPU", [row["agent_cpu_percent"] for row in own], "% of a core", at_most=limit))
            lines.append(verdict(f"{engine}, period {period}: memory", [row["agent_rss_mb"] for row in own], "MB", at_most=AGENT_RSS_MB))
            if own[0]["urgent_p99_ms"] != "":
                lines.append(verdict(f"{engine}, period {period}: urgent p99", [row["urgent_p99_ms"] for row in own], "ms"))
        return lines

    def shares_text(self) -> list[str]:
        rows = self.tables.get("shares", [])
        lines = []
        for translator in dict.fromkeys(row["translator"] for row in rows):
            off = {}
            for row in rows:
                if row["translator"] == translator and row["asked"] >= SHARE_LEAST:
                    off[row["round"]] = max(off.get(row["round"], 0), 100 * abs(row["got"] / row["asked"] - 1))
            lines.append(verdict(f"{translator}: the job whose share is furthest from what was asked", list(off.values()), "% off",
                                 at_most=SHARE_WITHIN_PERCENT))
            for job in dict.fromkeys(row["job"] for row in rows):
                own = [row for row in rows if (row["translator"], row["job"]) == (translator, job)]
                lines.append(f"  - {job}: asked {100 * own[0]['asked']:.1f} %, got {spread([100 * row['got'] for row in own])} %")
        if lines:
            lines.append(f"\nShares below {100 * SHARE_LEAST:.0f} % are shown, not judged.")
        return lines

    def curves_text(self) -> list[str]:
        rows = self.tables.get("curves", [])
        lines = []
        for engine, workload in dict.fromkeys((row["engine"], row["workload"]) for row in rows):
            of = lambda scheduler, load, column: [row[column] for row in rows if (row["engine"], row["workload"], row["scheduler"], row["load"])
                                                  == (engine, workload, scheduler, load)]
            own = [row for row in rows if (row["engine"], row["workload"]) == (engine, workload)]
            loads = sorted({row["load"] for row in own})
            schedulers = list(dict.fromkeys(row["scheduler"] for row in own))
            lines += [f"### {workload} on {engine}", "", "| load | scheduler | offered rows/s | processed rows/s | mean ms | p99 ms |", "|---|---|---|---|---|---|"]
            for load in loads:
                for scheduler in schedulers:
                    cells = [spread(of(scheduler, load, column)) for column in ("offered_rows_per_s", "processed_rows_per_s", "mean_ms", "p99_ms")]
                    lines.append(f"| {load:g} | {scheduler} | {median(of(scheduler, load, 'offered_rows_per_s')):.0f} | {' | '.join(cells[1:])} |")
            lines.append("")
            if not {"os", "qs"} <= set(schedulers):
                continue
            is_sustained = lambda scheduler, load: (median(of(scheduler, load, "processed_rows_per_s"))
                                                    >= SUSTAINED * median(of(scheduler, load, "offered_rows_per_s")))
            best = lambda scheduler: max((median(of(scheduler, load, "processed_rows_per_s")) for load in loads if is_sustained(scheduler, load)), default=0)
            saturated = next((load for load in loads if not is_sustained("os", load)), loads[-1])
            ratio = lambda column: [x / y if y else float("nan") for x, y in zip(of("os", saturated, column), of("qs", saturated, column))]
            gain = 100 * (best("qs") / best("os") - 1) if best("os") else float("nan")
            gained = f"sustained throughput, qs against os: {gain:+.0f} %" if best("os") else "os sustains none of these loads"
            where = f"at load {saturated:g}, " + ("the first that os does not sustain" if not is_sustained("os", saturated) else "the highest tried")
            if engine == "storm":
                is_met = gain >= STORM_THROUGHPUT_GAIN_PERCENT or median(ratio("mean_ms")) >= STORM_TIMES_LOWER
                lines += [f"- {gained}; mean latency {where}, os over qs: {spread(ratio('mean_ms'))} times; "
                          f"target {STORM_THROUGHPUT_GAIN_PERCENT:+d} % or {STORM_TIMES_LOWER} times: {'met' if is_met else 'MISSED'}"]
            else:
                lines += [verdict(f"p99 {where}, os over qs", ratio("p99_ms"), "times", at_least=1), f"- {gained}"]
            lines.append("")
        if lines:
            lines = ["`os`: nothing but the cgroup that all have. `random`: new random nice values every second. `qs`: by queue length. "
                     "Operators take the CPU time that `crates/workload` gives them, so that at a load of 1 they alone would fill the cores: 1625 and 875 rows/s a core. "
                     f"Sustained: {100 * SUSTAINED:.0f} % of the load is processed as it comes.", "", *lines]
        return lines

    def draw(self, folder: Path, engine: str, workload: str) -> None:
        rows = [row for row in self.tables["curves"] if (row["engine"], row["workload"]) == (engine, workload)]
        for column, label, is_logarithmic in (("processed_rows_per_s", "processed rows/s", False), ("mean_ms", "mean latency, ms", True), ("p99_ms", "p99 latency, ms", True)):
            series = {}
            for scheduler in dict.fromkeys(row["scheduler"] for row in rows):
                for offered in sorted({row["offered_rows_per_s"] for row in rows}):
                    values = [row[column] for row in rows if row["scheduler"] == scheduler and row["offered_rows_per_s"] == offered and row[column] == row[column]]
                    if values:
                        series.setdefault(scheduler, []).append((round(offered), median(values), min(values), max(values)))
            kind = column.removesuffix("_ms").removesuffix("_rows_per_s")
            chart.draw(folder / f"{engine}-{workload}-{kind}.svg", f"{workload} on {engine}", "offered rows/s", label, series, is_logarithmic)


def rounded(value):
    return f"{value:.6g}" if isinstance(value, float) else value


def shown(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def spread(values: list[float]) -> str:
    known = [value for value in values if value == value]
    if not known:
        return "none came"
    return f"{shown(median(known))} ({shown(min(known))} to {shown(max(known))})" if len(known) > 1 else shown(known[0])


def verdict(name: str, values: list[float], unit: str, at_least: float | None = None, at_most: float | None = None) -> str:
    """The median decides; without a value nothing is met.

    >>> verdict("p99", [19.0, 21.0, 30.0], "times", at_least=20)
    '- p99: 21.0 (19.0 to 30.0) times, target at least 20: met'
    >>> verdict("lost", [11.0, float("nan"), 12.0], "%", at_most=10)
    '- lost: 11.5 (11.0 to 12.0) %, target at most 10: MISSED'
    >>> verdict("p99", [float("nan")], "times", at_least=20)
    '- p99: none came times, target at least 20: MISSED'
    """
    known = [value for value in values if value == value]
    line = f"- {name}: {spread(values)} {unit}"
    if at_least is None and at_most is None:
        return line
    is_met = bool(known) and (median(known) >= at_least if at_least is not None else median(known) <= at_most)
    bound = f"at least {at_least:g}" if at_least is not None else f"at most {at_most:g}"
    return f"{line}, target {bound}: {'met' if is_met else 'MISSED'}"
