"""The figures of a race in tables."""

import csv
import os
import statistics
import time
from pathlib import Path


def rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open() as file:
        return list(csv.DictReader(file))


def grouped(lines: list[dict[str, str]], *keys: str) -> dict[tuple, list[dict[str, str]]]:
    """
    >>> grouped([{"a": "1", "b": "2"}, {"a": "1", "b": "3"}], "a")
    {('1',): [{'a': '1', 'b': '2'}, {'a': '1', 'b': '3'}]}
    """
    groups: dict[tuple, list[dict[str, str]]] = {}
    for line in lines:
        groups.setdefault(tuple(line[key] for key in keys), []).append(line)
    return groups


def middle(lines: list[dict[str, str]], column: str) -> float:
    return statistics.median(float(line[column]) for line in lines)


def event_ns(lines: list[dict[str, str]]) -> float:
    """CPU time of an event by the difference between two sizes, median over rounds.

    >>> event_ns([{"round": "1", "events": "1000", "cpu_s": "1.5"}, {"round": "1", "events": "4000", "cpu_s": "3.0"}])
    500000.0
    """
    costs = []
    for of in grouped(lines, "round").values():
        (short, of_short), (long, of_long) = sorted((int(line["events"]), float(line["cpu_s"])) for line in of)
        costs.append((of_long - of_short) / (long - short) * 1e9)
    return statistics.median(costs)


def table(head: str, lines: list[str]) -> list[str]:
    return [head, "|" + "---|" * (head.count("|") - 1), *lines, ""] if lines else []


def of_cost(out: Path) -> list[str]:
    lines = []
    for (format, query), of in grouped(rows(out / "cost.csv"), "format", "query").items():
        by = grouped(of, "engine")
        own, flink = event_ns(by["laxity",]), event_ns(by["flink",])
        peak = {engine: max(float(line["peak_mb"]) for line in by[engine,]) for engine in ("laxity", "flink")}
        lines.append(f"| {query}, {format} | {own:.0f} | {flink:.0f} | {flink / own:.1f} | {1e9 / own / 1e6:.2f} | "
                     f"{peak['laxity']:.0f} | {peak['flink']:.0f} |")
    return table("| query | laxity, CPU ns an event | Flink | times | laxity, million events a CPU second | laxity, peak MB | Flink, peak MB |", lines)


def cell(of: list[dict[str, str]], *columns: tuple[str, int]) -> str:
    return " | ".join(f"{middle(of, column):,.{digits}f}" for column, digits in columns)


def of_latency(out: Path) -> list[str]:
    highest, cells = [], []
    for (format, query), of in grouped(rows(out / "latency.csv"), "format", "query").items():
        for (engine,), rates in grouped(of, "engine").items():
            p99_ms = {int(rate): middle(at, "p99_ms") for (rate,), at in grouped(rates, "rate").items()}
            best = {bound: max((rate for rate, ms in p99_ms.items() if ms <= bound), default=0) for bound in (100, 1_000)}
            highest.append(f"| {query}, {format} | {engine} | {best[100]:,} | {best[1000]:,} |")
        for (rate, engine), at in sorted(grouped(of, "rate", "engine").items(), key=lambda item: int(item[0][0])):
            shown = cell(at, ("p50_ms", 0), ("p99_ms", 0), ("from_event_p99_ms", 0), ("load_p99_ms", 0), ("cores", 2), ("resident_mb", 0))
            cells.append(f"| {query}, {format} | {int(rate):,} | {engine} | {100 * middle(at, 'met'):.1f} % | {shown} |")
    return table("| query | engine | highest rate tried with p99 up to 100 ms | up to 1 s |", highest) + table(
        "| query | events/s | engine | within 50 ms | p50, ms | p99, ms | p99 from the event's time, ms | of the load itself | cores | MB |", cells)


def of_together(out: Path) -> list[str]:
    all_of, lines = rows(out / "together.csv"), []
    for (part, engine, form, rate), of in grouped(all_of, "part", "engine", "form", "rate").items():
        shown = cell(of, ("p50_ms", 0), ("worst_p99_ms", 0), ("from_event_p99_ms", 0), ("load_p99_ms", 0), ("heavy_p99_ms", 0),
                           ("cores", 2), ("resident_mb", 0))
        lines.append(f"| {part} | {int(rate):,} | {engine}, {form} | {100 * middle(of, 'met'):.1f} % | {shown} |")
    times = []
    for (part, rate), of in grouped([line for line in all_of if line["part"] != "ladder"], "part", "rate").items():
        by = {engine: middle(of, "worst_p99_ms") for engine, of in grouped(of, "engine", "form").items()}
        own = min((ms for (engine, _), ms in by.items() if engine == "laxity"), default=None)
        others = {f"{engine}, {form}": ms for (engine, form), ms in by.items() if engine != "laxity"}
        if others and own is not None:
            best = min(others, key=lambda name: others[name])
            times.append(f"| {part} | {int(rate):,} | {own:,.0f} | {others[best]:,.0f} | {best} | {times_of(others[best], own, 10)} |")
    return table("| part | events/s | engine | urgent within 50 ms | p50, ms | worst p99, ms | p99 from the event's time, ms | of the load itself | heavy p99, ms | cores | MB |",
                 lines) + table("| part | events/s | laxity, worst p99, ms | least of Flink's, ms | of | times lower; ten wanted |", times)


def times_of(other: float, own: float, wanted: float) -> str:
    """
    >>> times_of(100.0, 4.0, 10), times_of(30.0, 10.0, 10), times_of(float("inf"), 10.0, 10)
    ('25.0: met', '3.0: MISSED', 'Flink does not keep up: met')
    """
    if other == float("inf"):
        return "neither keeps up" if own == other else "Flink does not keep up: met"
    return f"{other / own:.1f}: {'met' if other / own >= wanted else 'MISSED'}"


def of_density(out: Path) -> list[str]:
    all_of, lines, times = rows(out / "density.csv"), [], []
    for (queries, engine), of in grouped(all_of, "queries", "engine").items():
        shown = cell(of, ("p50_ms", 0), ("worst_p99_ms", 0), ("from_event_p99_ms", 0), ("cores", 2), ("resident_mb", 0), ("first_result_s", 1))
        lines.append(f"| {queries} | {engine} | {100 * middle(of, 'met'):.1f} % | {shown} |")
    for (queries,), of in grouped(all_of, "queries").items():
        by = {engine: middle(of, "resident_mb") for (engine,), of in grouped(of, "engine").items()}
        if {"laxity", "flink"} <= by.keys():
            times.append(f"| {queries} | {by['laxity']:,.0f} | {by['flink']:,.0f} | {times_of(by['flink'], by['laxity'], 10)} |")
    return table("| queries | engine | within 50 ms | p50, ms | worst p99, ms | p99 from the event's time, ms | cores | MB | first result after, s |", lines) + table(
        "| queries | laxity, MB | Flink, MB | times less; ten wanted |", times)


def write_summary(out: Path) -> None:
    names = "PHASES ROUNDS FORMATS QUERIES EVENTS RATES RATES_TOGETHER ENGINES DENSITIES SECONDS_EACH".split()
    settings = ", ".join(f"{name}={os.environ[name]}" for name in names if os.environ.get(name))
    text = [f"# Laxity and Flink on the same topics, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC", "",
            f"`scripts/race.sh` ({settings}; what each part is, and Flink's settings, stand in it and in scripts/race/race.py); raw figures beside "
            "this. Broker, sender and engine share the machine. Medians of the rounds; `inf`: not out two seconds after the end.", ""]
    for title, part in [("CPU of an event, a query alone", of_cost), ("A query alone at rates that double", of_latency),
                        ("20 urgent and 4 heavy queries together", of_together), ("Many small queries at 2 000 events/s", of_density)]:
        if lines := part(out):
            text += [f"## {title}", "", *lines]
    (out / "summary.md").write_text("\n".join(text))
    print((out / "summary.md").read_text())
