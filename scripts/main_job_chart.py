"""Draws the p99 of every urgent query of the main job, by policy, beside the raw data of a run of `laxity-bench main-job`."""

import csv
import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent / "attach"))
from chart import draw

folder = Path(sys.argv[1])
rows = list(csv.DictReader((folder / "main-job.csv").open()))
target_ms = min(float(row["target_ms"]) for row in rows)
p99_ms: dict[str, dict[str, list[float]]] = {}
for row in rows:
    if float(row["target_ms"]) == target_ms and row["p99_ms"] != "null":
        p99_ms.setdefault(row["policy"], {}).setdefault(row["query"], []).append(float(row["p99_ms"]))
series = {}
for policy, queries in p99_ms.items():
    # Of each query the median of its rounds; the queries from the best to the worst.
    ordered = sorted(median(rounds) for rounds in queries.values())
    share = lambda percent: ordered[min(len(ordered) * percent // 100, len(ordered) - 1)]
    series[policy] = [(percent, share(percent), share(percent), share(percent)) for percent in range(0, 101, 10)]
draw(folder / "urgent-p99.svg", f"{len(ordered)} urgent queries, target {target_ms:g} ms",
     "share of the queries that are no worse, %", "p99, ms", series, logarithmic=True)
