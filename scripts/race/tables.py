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


def of_latency(out: Path) -> list[str]:
    lines = []
    for (format, query), of in grouped(rows(out / "latency.csv"), "format", "query").items():
        for (engine,), rates in grouped(of, "engine").items():
            best = {bound: max((int(line["rate"]) for line in rates if float(line["p99_ms"]) <= bound), default=0) for bound in (100, 1_000)}
            shown = ", ".join(f"{int(line['rate']):,}: {float(line['p99_ms']):.0f} ms, {float(line['cores']):.2f}" for line in rates)
            lines.append(f"| {query}, {format} | {engine} | {best[100]:,} | {best[1000]:,} | {shown} |")
    return table("| query | engine | highest rate tried with p99 up to 100 ms | up to 1 s | rate: p99, cores |", lines)


def of_together(out: Path) -> list[str]:
    lines = []
    for (part, engine, form, rate), of in grouped(rows(out / "together.csv"), "part", "engine", "form", "rate").items():
        shown = " | ".join(f"{middle(of, column):.{digits}f}" for column, digits in
                           [("p50_ms", 0), ("worst_p99_ms", 0), ("heavy_p99_ms", 0), ("cores", 2), ("resident_mb", 0), ("load_p99_ms", 0)])
        lines.append(f"| {part} | {int(rate):,} | {engine}, {form} | {100 * middle(of, 'met'):.1f} % | {shown} |")
    return table("| part | events/s | engine | urgent within 50 ms | p50, ms | worst p99, ms | heavy p99, ms | cores | MB | p99 of the load itself, ms |", lines)


def of_density(out: Path) -> list[str]:
    lines = []
    for (queries, engine), of in grouped(rows(out / "density.csv"), "queries", "engine").items():
        shown = " | ".join(f"{middle(of, column):.{digits}f}" for column, digits in
                           [("p50_ms", 0), ("worst_p99_ms", 0), ("cores", 2), ("resident_mb", 0), ("first_result_s", 1)])
        lines.append(f"| {queries} | {engine} | {100 * middle(of, 'met'):.1f} % | {shown} |")
    return table("| queries | engine | within 50 ms | p50, ms | worst p99, ms | cores | MB | first result after, s |", lines)


def write_summary(out: Path) -> None:
    settings = ", ".join(f"{name}={os.environ[name]}" for name in ("PHASES", "ROUNDS", "FORMATS", "QUERIES", "EVENTS", "RATES", "DENSITIES", "SECONDS_EACH")
                         if os.environ.get(name))
    text = [f"# Laxity and Flink on the same topics, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC", "",
            f"`scripts/race.sh` ({settings}; what each part is, and Flink's settings, stand in it and in scripts/race/race.py); raw figures beside "
            "this. Broker, sender and engine share the machine. Medians of the rounds; `inf`: not out two seconds after the end.", ""]
    for title, part in [("CPU of an event, a query alone", of_cost), ("A query alone at rates that double", of_latency),
                        ("20 urgent and 4 heavy queries together", of_together), ("Many small queries at 2 000 events/s", of_density)]:
        if lines := part(out):
            text += [f"## {title}", "", *lines]
    (out / "summary.md").write_text("\n".join(text))
    print((out / "summary.md").read_text())
