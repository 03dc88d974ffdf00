"""One line of many-cores.csv from what `laxity simulate` said."""

import re
import statistics
import sys

UNITS_MS = {"ns": 1e-6, "µs": 1e-3, "ms": 1.0, "s": 1e3, "min": 6e4}


def ms(text):
    number, unit = text.split()
    return float(number) * UNITS_MS[unit]


text = open(sys.argv[1], encoding="utf-8").read()
line = re.compile(r"^urgent \d+ +50 ms +(-|[\d.]+ \S+) +(-|[\d.]+ \S+) +([\d.]+) %", re.M)
queries = [(ms(p50), ms(p99), float(met)) for p50, p99, met in line.findall(text) if p50 != "-"]
busy = re.search(r"cores would be (\S+) % busy in operators, (\S+) % with looks at tables, (\S+) % with", text)
if not queries or not busy:
    sys.exit(f"{sys.argv[1]}: not what laxity simulate says")
p50s, p99s, met = zip(*queries)
figures = [statistics.mean(met), statistics.median(p50s), statistics.median(p99s), max(p99s)]
print(",".join(sys.argv[2:] + [f"{figure:.2f}" for figure in figures] + list(busy.groups())))
