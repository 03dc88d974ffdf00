"""Asks Flink for the rows of every generated query."""

import pathlib
import re
import sys

import queries
from gateway import Refused, Session
from line import escaped

# A watermark behind every row that moves it on, so that which rows come too late depends on the rows alone.
PROPERTIES = {"execution.runtime-mode": "streaming", "table.local-time-zone": "UTC", "pipeline.auto-watermark-interval": "0 ms"}
# Queries that one job runs.
BATCH = 16


def answer(gateway: str, wanted: list[str], data: pathlib.Path) -> dict[str, str]:
    """Query: its line, which is the query, the types of its columns, and its rows in the order of their texts."""
    bounded = [query for query in wanted if queries.is_bounded(query)]
    others = [query for query in wanted if not queries.is_bounded(query)]
    lines = asked(gateway, PROPERTIES, others, data) if others else {}
    if bounded:
        lines.update(asked(gateway, PROPERTIES | {"execution.runtime-mode": "batch"}, bounded, data))
    return lines


def asked(gateway: str, properties: dict[str, str], wanted: list[str], data: pathlib.Path) -> dict[str, str]:
    session = Session(gateway, properties)
    for statement in queries.tables().replace("DATA/", f"{data}/").split(";"):
        if statement.strip():
            session.run(statement)
    lines: dict[str, str] = {}
    planned: list[tuple[str, list[str]]] = []
    for number, query in enumerate(wanted):
        try:
            session.run(f"CREATE TEMPORARY VIEW q{number} AS {queries.in_flink(query)}")
            _, columns = session.run(f"DESCRIBE q{number}")
        except Refused as refused:
            lines[query] = f"{query}\t!plan"
            print(f"plan\t{query}\t{str(refused)[:200]}", file=sys.stderr)
            continue
        planned.append((query, [type_name(column[1]) for column in columns]))
    for start in range(0, len(planned), BATCH):
        lines.update(run(session, planned[start : start + BATCH]))
    return lines


def run(session: Session, planned: list[tuple[str, list[str]]]) -> dict[str, str]:
    """One job for all; in halves where one of them fails."""
    parts = []
    for number, (query, types) in enumerate(planned):
        items = ", ".join(f"CAST(c{at} AS STRING)" for at in range(len(types)))
        # Not from a view: its text loses the brackets of PARTITION BY (k, g).
        parts.append(f"SELECT {number} AS query, ARRAY[{items}] AS cells FROM ({queries.in_flink(query)})")
    try:
        _, answered = session.run(" UNION ALL ".join(parts), rows_as_json=True)
    except Refused as refused:
        if "NoResourceAvailable" in str(refused):
            sys.exit(f"the TaskManager has ended, after {planned[0][0]}")
        if len(planned) == 1:
            print(f"run\t{planned[0][0]}\t{str(refused)[:200]}", file=sys.stderr)
            return {planned[0][0]: f"{planned[0][0]}\t!run"}
        half = len(planned) // 2
        return {**run(session, planned[:half]), **run(session, planned[half:])}
    rows: dict[int, list[str]] = {number: [] for number in range(len(planned))}
    for number, cells in answered:
        shown = ("\\N" if cell is None else escaped(cell).replace("|", "\\x007c") for cell in cells)
        rows[number].append("|".join(shown))
    return {query: "\t".join([query, ", ".join(types), *sorted(rows[number])]) for number, (query, types) in enumerate(planned)}


def type_name(described: str) -> str:
    """As DESCRIBE writes it, without quotes, and lengths of texts, which Laxity does not keep."""
    described = re.sub(r"`| NOT NULL| \*(ROW|PROC)TIME\*", "", described)
    return re.sub(r"\b(VAR)?CHAR\(\d+\)", "STRING", described)
