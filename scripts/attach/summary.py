#!/usr/bin/env python3
"""What was measured, as raw csv, as charts, and in words with the targets that were set before.

summary.py FOLDER…: tells the csv of earlier runs again.
"""

import csv
import os
import platform
import re
import subprocess
import sys
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
# Of a smaller share, 5 % is less than the kernel cares to be exact about.
SHARE_LEAST = 0.05
SETTINGS = ("SMALL", "ROUNDS", "PHASE", "ONLY", "LOADS", "URGENT", "SCHEDULERS", "SLACK", "SHARE")


class Table(list):
    """Rows of one kind of measurement."""

    def where(self, **values) -> "Table":
        return Table(row for row in self if all(row[key] == value for key, value in values.items()))

    def column(self, name: str) -> list:
        return [row[name] for row in self]

    def values(self, *names: str) -> list:
        """That a column, or some together, take: each once, in order of appearance."""
        rows = (tuple(row[name] for name in names) for row in self)
        return list(dict.fromkeys(row if len(names) > 1 else row[0] for row in rows))


def cpu_cgroup_version() -> str:
    mounted = (line.split()[2:4] for line in Path("/proc/mounts").read_text().splitlines())
    return "v1" if any(kind == "cgroup" and "cpu" in options.split(",") for kind, options in mounted) else "v2"


class Summary:
    def __init__(self, out: Path):
        self.out = out
        self.began = time.strftime("%Y-%m-%d-%H%M", time.gmtime())
        self.load_average = os.getloadavg()[0]
        self.tables: dict[str, Table] = {}

    def add(self, table: str, row: dict) -> None:
        self.tables.setdefault(table, Table()).append(row)

    def table(self, name: str) -> Table:
        return self.tables.get(name, Table())

    def tenants(self, round_: int, kind: str, offered: float, row: dict) -> None:
        self.add("flink-urgent", {"round": round_, "kind": kind, "offered_rows_per_s": offered, **row})

    def overhead(self, round_: int, engine: str, period: str, row: dict) -> None:
        own = {name: row[name] for name in ("agent_cpu_percent", "agent_rss_mb")}
        which = {"round": round_, "engine": engine, "period": period}
        self.add("overhead", {**which, **own, "urgent_p99_ms": row.get("p99_ms", "")})

    def share(self, round_: int, translator: str, job: str, asked: float, got: float) -> None:
        self.add("shares", {"round": round_, "translator": translator, "job": job, "asked": asked, "got": got})

    def curve(self, round_: int, engine: str, workload: str, scheduler: str, load: float, row: dict) -> None:
        which = {"round": round_, "engine": engine, "workload": workload, "scheduler": scheduler, "load": load}
        self.add("curves", {**which, **row})

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
        for engine, workload in self.table("curves").values("engine", "workload"):
            draw(folder, engine, workload, self.table("curves").where(engine=engine, workload=workload))
        (folder / "summary.md").write_text(self.text())

    def text(self) -> str:
        lines = [f"# attach, {self.began} UTC", "", *self.circumstances()]
        return "\n".join(lines + self.told()) + "\n"

    def told(self) -> list[str]:
        lines = []
        for title, name, told in (("Urgent job beside a bulk job, on Flink", "flink-urgent", urgent_told),
                                  ("The agent itself", "overhead", overhead_told),
                                  ("CPU got against CPU asked", "shares", shares_told),
                                  ("Throughput and latency by load", "curves", curves_told)):
            if self.table(name):
                lines += ["", f"## {title}", "", *told(self.table(name))]
        return lines

    def circumstances(self) -> list[str]:
        settings = [f"{name}='{os.environ[name]}'" for name in SETTINGS if os.environ.get(name)]
        revision = subprocess.run(["git", "rev-parse", "--short", "HEAD"], text=True, capture_output=True).stdout.strip()
        with open("/proc/cpuinfo") as lines:
            model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "?")
        return [f"- command: `{' '.join([*settings, 'make bench-attach'])}`",
                f"- revision: {revision}",
                f"- machine: {os.cpu_count()} cores of {model}, load average {self.load_average:.2f} at the start",
                f"- kernel: {platform.system()} {platform.release()}, cpu controller in cgroup {cpu_cgroup_version()}",
                f"- engines: {os.environ.get('ENGINES', '?')}"]


def urgent_told(table: Table) -> list[str]:
    columns = ("p99_ms", "mean_ms", "rows_per_s", "bulk_rows_per_s")
    kinds = [kind for kind in ("alone", "os", "without", "with") if kind in table.values("kind")]
    lines = ["Medians of the rounds (lowest to highest). `os`: nothing beside Flink, as its user has it. `without`: all threads in "
             "one cgroup of the same share as with Laxity, at nice 0, so that what is left is the doing of groups and nice values; "
             "nobody has that without Laxity. `with`: policy llf, translator nice.", "",
             "| | p99 ms | mean ms | urgent rows/s | bulk rows/s |", "|---|---|---|---|---|"]
    for kind in kinds:
        lines.append(f"| {kind} | {' | '.join(spread(table.where(kind=kind).column(name)) for name in columns)} |")
    if not {"alone", "without", "with"} <= set(kinds):
        return lines

    def of(kind: str, name: str) -> list[float]:
        return sorted_by_round(table.where(kind=kind)).column(name)

    lost_percent = [100 * (1 - share) for share in ratios(of("with", "bulk_rows_per_s"), of("without", "bulk_rows_per_s"))]
    offered = table[0]["offered_rows_per_s"]
    kept_percent = [100 * rate / offered for rate in table.where(kind="with").column("rows_per_s")]
    lines.append("")
    for base in ("os", "without"):
        if base in kinds:
            lines += [times_lower(f"urgent p99, {base} over with", of(base, "p99_ms"), of("with", "p99_ms"), URGENT_TIMES_LOWER),
                      times_lower(f"urgent mean, {base} over with", of(base, "mean_ms"), of("with", "mean_ms"))]
    times_alone = median(of("with", "p99_ms")) / median(of("alone", "p99_ms"))
    return [*lines,
            f"- urgent p99, with over alone: {shown(times_alone)} times, target at most {URGENT_TIMES_ALONE}: "
            f"{'met' if times_alone <= URGENT_TIMES_ALONE else 'MISSED'}",
            verdict("urgent rows with Laxity, of those offered", kept_percent, "%", at_least=99),
            verdict("bulk throughput lost, with against without", lost_percent, "%", at_most=BULK_LOSS_PERCENT)]


def overhead_told(table: Table) -> list[str]:
    lines = []
    for engine, period in table.values("engine", "period"):
        own = table.where(engine=engine, period=period)
        name = f"{engine}, period {period}"
        limit = AGENT_CPU_PERCENT if (engine, period) == ("200 threads", "1 s") else None
        lines.append(verdict(f"{name}: CPU", own.column("agent_cpu_percent"), "% of a core", at_most=limit))
        lines.append(verdict(f"{name}: memory", own.column("agent_rss_mb"), "MB", at_most=AGENT_RSS_MB))
        if own[0]["urgent_p99_ms"] != "":
            lines.append(verdict(f"{name}: urgent p99", own.column("urgent_p99_ms"), "ms"))
    return lines


def shares_told(table: Table) -> list[str]:
    lines = []
    for translator in table.values("translator"):
        own = table.where(translator=translator)
        judged = [(row["round"], 100 * abs(row["got"] / row["asked"] - 1)) for row in own if row["asked"] >= SHARE_LEAST]
        furthest = [max(off for of, off in judged if of == round_) for round_ in own.values("round")]
        name = f"{translator}: the job furthest from what was asked"
        lines.append(verdict(name, furthest, "% off", at_most=SHARE_WITHIN_PERCENT))
        for job in own.values("job"):
            got = [100 * share for share in own.where(job=job).column("got")]
            lines.append(f"  - {job}: asked {100 * own.where(job=job)[0]['asked']:.1f} %, got {spread(got)} %")
    return [*lines, "", f"Shares below {100 * SHARE_LEAST:.0f} % are shown, not judged."]


def curves_told(table: Table) -> list[str]:
    lines = ["`os`: nothing but the cgroup that all have. `random`: new random nice values every second. `qs`: by queue length. "
             "`timers`: Laxity's timer slack for threads that poll, and nothing else. `llf`: Laxity's default, timer slack "
             "included; `-slack`: without it, `+slack`: with it. Operators take the CPU time that `crates/workload` gives them, so that at a load of 1 "
             "they alone would fill the cores: 1625 and 875 rows/s a core. Sustained: "
             f"{100 * SUSTAINED:.0f} % of the load is processed as it comes."]
    columns = ("processed_rows_per_s", "mean_ms", "p99_ms")
    for engine, workload in table.values("engine", "workload"):
        own = table.where(engine=engine, workload=workload)
        lines += ["", f"### {workload} on {engine}", "",
                  "| load | scheduler | offered rows/s | processed rows/s | mean ms | p99 ms |", "|---|---|---|---|---|---|"]
        for load, scheduler in own.values("load", "scheduler"):
            rows = own.where(load=load, scheduler=scheduler)
            cells = [f"{load:g}", scheduler, f"{rows[0]['offered_rows_per_s']:.0f}", *(spread(rows.column(c)) for c in columns)]
            lines.append(f"| {' | '.join(cells)} |")
        schedulers = own.values("scheduler")
        if "os" in schedulers:
            lines += ["", *(compared(engine, own, scheduler, "os") for scheduler in schedulers if scheduler != "os")]
        if "timers" in schedulers:
            slack = [name for name in schedulers if name == "llf" or name.endswith("+slack")]
            lines += ["", "What order adds, to the timer slack alone:", "",
                      *(compared(engine, own, scheduler, "timers") for scheduler in slack)] if slack else []
    return lines


def compared(engine: str, table: Table, scheduler: str, base: str) -> str:
    """One line: a scheduler against the operating system's, or that with the timer slack. By medians, as targets are."""
    loads = sorted(table.where(scheduler=scheduler).values("load"))

    def processed(name: str, load: float) -> float:
        return median(table.where(scheduler=name, load=load).column("processed_rows_per_s"))

    def is_sustained(name: str, load: float) -> bool:
        return processed(name, load) >= SUSTAINED * table.where(load=load)[0]["offered_rows_per_s"]

    best = lambda name: max((processed(name, load) for load in loads if is_sustained(name, load)), default=0)
    gain_percent = 100 * (best(scheduler) / best(base) - 1) if best(base) else None
    # Where what it is compared with is saturated, or the nearest to it.
    load = next((load for load in loads if not is_sustained(base, load)), loads[-1])
    of = lambda name, column: sorted_by_round(table.where(scheduler=name, load=load)).column(column)
    mean, p99 = (times(of(base, column), of(scheduler, column)) for column in ("mean_ms", "p99_ms"))
    gained = f"{base} sustains none of these loads" if gain_percent is None else f"sustained throughput {gain_percent:+.0f} %"
    line = (f"- {scheduler} against {base}: {gained}; at load {load:g}, mean latency {shown(mean)} and p99 {shown(p99)} times "
            f"lower")
    # Targets were set for Laxity against the operating system.
    if base != "os" or scheduler in ("random", "timers"):
        return line
    if engine == "storm":
        is_met = (gain_percent or 0) >= STORM_THROUGHPUT_GAIN_PERCENT or mean >= STORM_TIMES_LOWER
        target = f"{STORM_THROUGHPUT_GAIN_PERCENT:+d} % or mean {STORM_TIMES_LOWER} times lower"
    else:
        is_met, target = p99 > 1, "a lower p99"
    return f"{line}; target {target}: {'met' if is_met else 'MISSED'}"


def times(over: list[float], under: list[float]) -> float:
    """How many times lower the median is.

    >>> round(times([1290, 1100, 1500], [1191, 1300, 900]), 2)
    1.08
    """
    over, under = known(over), known(under)
    return median(over) / median(under) if over and under and median(under) else float("nan")


def times_lower(name: str, over: list[float], under: list[float], at_least: float | None = None) -> str:
    """The ratio of the medians, which the target is about, and those of the rounds.

    >>> times_lower("p99", [100.0, 300.0, 200.0], [10.0, 10.0, 20.0], at_least=20)
    '- p99: 20.0 times by medians (rounds 10.0 to 30.0), target at least 20: met'
    """
    rounds = known(ratios(over, under))
    ratio = times(over, under)
    line = f"- {name}: {shown(ratio)} times by medians"
    line += f" (rounds {shown(min(rounds))} to {shown(max(rounds))})" if rounds else ""
    if at_least is None:
        return line
    return f"{line}, target at least {at_least:g}: {'met' if ratio >= at_least else 'MISSED'}"


def told_again(folder: Path) -> None:
    """Writes the words of an earlier run anew from its csv; what stood above them stays."""
    summary = Summary(folder.parent)
    number = lambda text: float(text) if re.fullmatch(r"-?[0-9.]+(e[+-]?[0-9]+)?", text) else text
    for path in sorted(folder.glob("*.csv")):
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                summary.add(path.stem, {key: float("nan") if value == "nan" else number(value) for key, value in row.items()})
    path = folder / "summary.md"
    head, _, _ = path.read_text().partition("\n## ")
    path.write_text("\n".join([head.rstrip("\n"), *summary.told()]) + "\n")


def draw(folder: Path, engine: str, workload: str, table: Table) -> None:
    for column, name, label in (("processed_rows_per_s", "processed", "processed rows/s"),
                                ("mean_ms", "mean", "mean latency, ms"), ("p99_ms", "p99", "p99 latency, ms")):
        series: dict[str, list] = {}
        for scheduler in table.values("scheduler"):
            for offered in sorted(table.values("offered_rows_per_s")):
                values = known(table.where(scheduler=scheduler, offered_rows_per_s=offered).column(column))
                if values:
                    point = (round(offered), median(values), min(values), max(values))
                    series.setdefault(scheduler, []).append(point)
        path = folder / f"{engine}-{workload}-{name}.svg"
        chart.draw(path, f"{workload} on {engine}", "offered rows/s", label, series, logarithmic=name != "processed")


def sorted_by_round(table: Table) -> Table:
    return Table(sorted(table, key=lambda row: row["round"]))


def ratios(over: list[float], under: list[float]) -> list[float]:
    return [x / y if y else float("nan") for x, y in zip(over, under)]


def known(values: list[float]) -> list[float]:
    """Without those of phases in which no row came."""
    return [value for value in values if value == value]


def is_reached(values: list[float], at_least: float) -> bool:
    return bool(known(values)) and median(known(values)) >= at_least


def rounded(value):
    return f"{value:.6g}" if isinstance(value, float) else value


def shown(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def spread(values: list[float]) -> str:
    values = known(values)
    if len(values) < 2:
        return shown(values[0]) if values else "none"
    return f"{shown(median(values))} ({shown(min(values))} to {shown(max(values))})"


def verdict(name: str, values: list[float], unit: str, at_least: float | None = None, at_most: float | None = None) -> str:
    """The median decides; without a value nothing is met.

    >>> verdict("p99", [19.0, 21.0, 30.0], "times", at_least=20)
    '- p99: 21.0 (19.0 to 30.0) times, target at least 20: met'
    >>> verdict("lost", [11.0, float("nan"), 12.0], "%", at_most=10)
    '- lost: 11.5 (11.0 to 12.0) %, target at most 10: MISSED'
    >>> verdict("p99", [float("nan")], "times", at_least=20)
    '- p99: none times, target at least 20: MISSED'
    """
    line = f"- {name}: {spread(values)} {unit}"
    if at_least is not None:
        return f"{line}, target at least {at_least:g}: {'met' if is_reached(values, at_least) else 'MISSED'}"
    if at_most is not None:
        is_met = bool(known(values)) and median(known(values)) <= at_most
        return f"{line}, target at most {at_most:g}: {'met' if is_met else 'MISSED'}"
    return line


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        told_again(Path(folder))
