"""Asks Flink for the rows of the queries in examples/nexmark, over events that Laxity's generator has written to a file."""

import pathlib
import re

from gateway import Session
from queries import in_flink
from goldens import ROOT
from line import escaped
from flink_sql import statements

EXAMPLES = ROOT / "examples/nexmark"
# Depends on the clock.
NOT_ASKED = ["q12"]


def asked(gateway: str, data: pathlib.Path, properties: dict[str, str]) -> list[str]:
    """Query, and its rows in the order of their texts."""
    lines = []
    tables = re.sub(r"WITH \('connector' = 'nexmark'.*?\)", f"WITH ('connector' = 'filesystem', 'path' = '{data}/nexmark.jsonl', 'format' = 'json')", (EXAMPLES / "tables.sql").read_text())
    side_input = f"'path' = '{EXAMPLES}/data/"
    for path in sorted(EXAMPLES.glob("q*.sql")):
        if path.stem in NOT_ASKED:
            continue
        session = Session(gateway, properties)
        for statement in [*statements(tables), *statements(in_flink(path.read_text()).replace("'path' = 'data/", side_input))]:
            query = re.match(r"INSERT INTO \w+\s", statement)
            if query is None:
                session.run(statement)
                continue
            _, rows = session.run(statement[query.end() :])
            shown = ("|".join("\\N" if cell is None else escaped(cell).replace("|", "\\x007c") for cell in row) for row in rows)
            lines.append("\t".join([path.stem, *sorted(shown)]))
    print(f"{len(lines)} queries of Nexmark asked", flush=True)
    return lines
