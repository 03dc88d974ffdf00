#!/usr/bin/env python3
"""Writes examples/boards.sql: a board for every airport, airline, destination and route that sees a hundred departures a
year or more. Run it again when examples/data/departures.csv.gz changes."""

import csv
import gzip
from collections import Counter
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
DEPARTURES_MIN = 100

HEAD = """\
-- The control tower has a screen on every wall: a board of the day for each airport, airline, destination and route, each
-- a query of its own with a target of 50 ms, {count} of them. They read the departures of two-tenants.sql, beside its six heavy
-- queries: laxity run examples/two-tenants.sql examples/boards.sql --shared --pace 0.9, or make run.
--
-- Results go to out/boards/, one file per query. Written by scripts/boards.py.

CREATE TABLE boards (board STRING, window_end TIMESTAMP(3), departures BIGINT, mean_delay_min INT, worst_delay_min INT)
WITH ('connector' = 'filesystem', 'path' = '../out/boards', 'format' = 'csv');

CREATE VIEW by_day AS
SELECT * FROM TABLE(TUMBLE(TABLE departures, DESCRIPTOR(event_ts), INTERVAL '1' DAY));

SET 'laxity.latency.target' = '50 ms';
SET 'parallelism.default' = '1';
"""

BOARD = """\
SET 'pipeline.name' = '{name}';
INSERT INTO boards SELECT '{name}', window_end, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM by_day WHERE {where} GROUP BY window_start, window_end;
"""


def boards():
    """(title, [(name, condition)]) for each kind of board, the busiest first."""
    kinds = [
        ("Airports", ["origin"], "from {}"),
        ("Airlines", ["carrier"], "{}"),
        ("Destinations", ["dest"], "to {}"),
        ("Routes", ["origin", "dest"], "{} to {}"),
    ]
    with gzip.open(EXAMPLES / "data" / "departures.csv.gz", "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    for title, columns, name in kinds:
        counts = Counter(tuple(row[column] for column in columns) for row in rows)
        busy = sorted((-count, keys) for keys, count in counts.items() if count >= DEPARTURES_MIN)
        yield title, [
            (name.format(*keys), " AND ".join(f"{column} = '{key}'" for column, key in zip(columns, keys)))
            for _, keys in busy
        ]


def main():
    kinds = list(boards())
    text = HEAD.format(count=sum(len(of_kind) for _, of_kind in kinds))
    for title, of_kind in kinds:
        text += f"\n-- {title}.\n"
        for name, where in of_kind:
            text += "\n" + BOARD.format(name=name, where=where)
    (EXAMPLES / "boards.sql").write_text(text)


if __name__ == "__main__":
    main()
