#!/usr/bin/env python3
"""Latencies of the urgent job, by phase: a table, and a plot over time.

Takes the phases ("with BEGIN END" a line), and the TaskManager's output, which the job prints its rows to: when a row was
behind the source and when before the sink, in UTC.
"""

import re
import sys
import time
from datetime import datetime
from math import log10

ROW = re.compile(r"\+[IU]\[\d+, \d+, \w+, (\S+), (\S+)\]")
SETTLING = 1 / 3


def read(path: str) -> list[tuple[float, float]]:
    """Time of day of each row, and its latency in ms."""
    samples = []
    with open(path) as lines:
        for row in map(ROW.search, lines):
            if row:
                seen, done = (datetime.fromisoformat(at + "+00:00").timestamp() for at in row.groups())
                samples.append((done, (done - seen) * 1000))
    return samples


def await_drained(path: str) -> None:
    """Returns when the rows that come are new ones; after a minute at the latest, saying so."""
    began = time.time()
    with open(path) as lines:
        lines.seek(0, 2)
        while time.time() - began < 60:
            rows = [row for row in map(ROW.search, lines) if row]
            if rows:
                seen, done = (datetime.fromisoformat(at) for at in rows[-1].groups())
                if (done - seen).total_seconds() < 0.5:
                    print(f"  backlog worked off after {time.time() - began:.0f} s")
                    return
            time.sleep(0.2)
    print("  the backlog is not worked off after a minute: the next numbers still hold it")


def main(phases_path: str, output_path: str) -> None:
    phases = [(kind, float(begin), float(end)) for kind, begin, end in map(str.split, open(phases_path))]
    samples = read(output_path)
    print(f"{'phase':10} {'rows':>7} {'rows/s':>7} {'mean ms':>9} {'p50':>8} {'p99':>8} {'max':>8}")
    p99s: dict[str, list[float]] = {"without": [], "with": []}
    for kind, begin, end in phases:
        settled = begin + (end - begin) * SETTLING
        ms = sorted(ms for at, ms in samples if settled <= at < end)
        if not ms:
            print(f"{kind:10} {'no row came':>7}")
            continue
        p = lambda share: ms[min(int(share * len(ms)), len(ms) - 1)]
        p99s[kind].append(p(0.99))
        rate = len(ms) / (end - settled)
        print(f"{kind:10} {len(ms):7} {rate:7.0f} {sum(ms) / len(ms):9.1f} {p(0.5):8.0f} {p(0.99):8.0f} {ms[-1]:8.0f}")
    medians = {kind: sorted(values)[len(values) // 2] for kind, values in p99s.items() if values}
    if len(medians) == 2:
        without, with_ = medians["without"], medians["with"]
        print(f"median p99: {without:.0f} ms without, {with_:.0f} ms with: {without / max(with_, 1):.1f} times")
    draw(phases, samples)


def draw(phases: list, samples: list) -> None:
    """p99 of every second, logarithmic, the phases with Laxity shaded."""
    width, height, left, top = 900, 360, 60, 30
    first, last = phases[0][1], phases[-1][2]
    seconds: dict[int, list[float]] = {}
    for at, ms in samples:
        seconds.setdefault(int(at - first), []).append(ms)
    x = lambda s: left + (width - left - 20) * s / (last - first)
    y = lambda ms: top + (height - top - 40) * (1 - log10(min(max(ms, 1), 1e5)) / 5)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for kind, begin, end in phases:
        if kind == "with":
            parts.append(f'<rect x="{x(begin - first):.1f}" y="{top}" width="{x(end - begin) - left:.1f}" '
                         f'height="{height - top - 40}" fill="#dff0df"/>')
    for power in range(6):
        parts.append(f'<path d="M{left} {y(10**power):.1f}H{width - 20}" stroke="#ddd"/>'
                     f'<text x="{left - 6}" y="{y(10**power) + 4:.1f}" text-anchor="end">{10**power} ms</text>')
    points = []
    for second, ms in sorted(seconds.items()):
        if 0 <= second <= last - first:
            ms.sort()
            points.append(f"{x(second):.1f},{y(ms[min(int(0.99 * len(ms)), len(ms) - 1)]):.1f}")
    parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="#1f4e9c" stroke-width="1.5"/>')
    parts.append(f'<text x="{left}" y="18">p99 latency of the urgent job, each second; green: with Laxity</text>')
    parts.append(f'<text x="{width - 20}" y="{height - 10}" text-anchor="end">{last - first:.0f} s</text></svg>')
    with open("out/attach-demo.svg", "w") as out:
        out.write("\n".join(parts))
    print("drawn to out/attach-demo.svg")


if __name__ == "__main__":
    if sys.argv[1] == "--drained":
        await_drained(sys.argv[2])
    else:
        main(sys.argv[1], sys.argv[2])
