#!/usr/bin/env python3
"""Asks a real Flink for all that Laxity is compared with, and writes what it said beside this file.

    ask.py GATEWAY SEED          expressions.tsv, queries.tsv, inputs.tsv, sinks.tsv, nexmark.tsv. Only expressions and queries
                                 that these do not hold yet are asked, so that a new template costs seconds: remove a file to
                                 ask all of it. Golden SQL files are compared at once
    ask.py GATEWAY SEED 1.20     the same questions to an older Flink, all of them; of its answers expressions-1.20.tsv and
                                 the others keep those that are not the current one's
"""

import concurrent.futures
import pathlib
import sys
import tempfile
from collections.abc import Callable

import ask_queries
import goldens
import nexmark
import queries
import sinks
from expressions import expressions
from gateway import Refused, Session
from inputs import inputs
from inputs import line as line_of
from line import escaped

HERE = pathlib.Path(__file__).parent
BATCH = 40
# What one session is asked, and how many there are at a time.
PART = 32
SESSIONS = 2
PROPERTIES = {"execution.runtime-mode": "streaming", "table.local-time-zone": "UTC"}


def main(gateway: str, seed: int, version: str) -> None:
    queries.write(HERE, seed)
    head = "expression, type, values over the rows of v (one if all are the same)"
    ask(f"expressions{version}.tsv", f"# seed {seed}; {head}", expressions(seed), lambda part: answer(gateway, part), version)
    head = "query, types, its rows in the order of their texts"
    wanted = queries.queries(seed)
    ask(f"queries{version}.tsv", f"# seed {seed}; {head}", wanted, lambda part: ask_queries.answer(gateway, part, HERE / "data"), version)
    head = "format, type, field as it stands in the file, value; bad fields and fields without a row are \\N"
    keep(f"inputs{version}.tsv", f"# {head}", asked_inputs(gateway), version)
    head = "column of v, type of the sink, the value of each row"
    keep(f"sinks{version}.tsv", f"# {head}", sinks.asked(gateway, tables(), PROPERTIES), version)
    head = "query of examples/nexmark, its rows in the order of their texts"
    keep(f"nexmark{version}.tsv", f"# {head}", nexmark.asked(gateway, HERE / "data", ask_queries.PROPERTIES), version)
    goldens.check(gateway)


def ask(file: str, head: str, wanted: list[str], answer: Callable[[list[str]], dict[str, str]], version: str) -> None:
    """`answer` gives a line for each of what it is asked; each begins with what was asked."""
    lines = {} if version else held(file)
    asked = [each for each in wanted if escaped(each) not in lines]
    parts = [asked[start : start + PART] for start in range(0, len(asked), PART)]
    with concurrent.futures.ThreadPoolExecutor(SESSIONS) as pool:
        for answers in pool.map(answer, parts):
            lines.update((escaped(each), line) for each, line in answers.items())
            # What is interrupted goes on from here.
            keep(file, head, [lines[escaped(each)] for each in wanted if escaped(each) in lines], version)
    print(f"{file}: {len(asked)} of {len(wanted)} asked", flush=True)
    keep(file, head, [lines[escaped(each)] for each in wanted], version)


def held(file: str) -> dict[str, str]:
    path = HERE / file
    lines = path.read_text().split("\n") if path.exists() else []
    return {line.split("\t", 1)[0]: line for line in lines if line and not line.startswith("#")}


def keep(file: str, head: str, lines: list[str], version: str) -> None:
    if version:
        current = set((HERE / file.replace(version, "")).read_text().split("\n"))
        lines = [line for line in lines if line not in current]
        head += f"; where Flink {version[1:]} says otherwise"
    (HERE / file).write_text("\n".join([head, *lines]) + "\n")


def asked_inputs(gateway: str) -> list[str]:
    """One table for each format and type, its bad fields NULL."""
    session = Session(gateway, PROPERTIES)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (form, data_type, fields) in enumerate(inputs()):
            path = pathlib.Path(folder) / f"{number}.{form}"
            path.write_text("".join(line_of(form, at, field) + "\n" for at, field in enumerate(fields)))
            session.run(
                f"CREATE TABLE inputs{number} (id INT, x {data_type}) WITH ('connector' = 'filesystem', "
                f"'path' = '{path}', 'format' = '{form}', '{form}.ignore-parse-errors' = 'true')"
            )
            try:
                _, rows = session.run(f"SELECT id, x FROM inputs{number}")
            except Refused as refused:
                print(f"run\tinputs {form} {data_type}\t{str(refused)[:200]}", file=sys.stderr)
                rows = []
            values = {int(row[0]): row[1] for row in rows}
            for at, field in enumerate(fields):
                value = values.get(at)
                shown = "\\N" if value is None else escaped(value)
                lines.append("\t".join([form, data_type, escaped(field), shown]))
    print(f"{len(lines)} inputs asked", flush=True)
    return lines


def answer(gateway: str, exprs: list[str]) -> dict[str, str]:
    session = Session(gateway, PROPERTIES)
    session.run(tables())
    answers: dict[str, str] = {}
    valid = []
    for expr in exprs:
        try:
            session.run(f"EXPLAIN SELECT {expr} FROM v")
            valid.append(expr)
        except Refused as refused:
            answers[expr] = line(expr, "!plan", [])
            print(f"plan\t{expr}\t{str(refused)[:200]}", file=sys.stderr)
    for start in range(0, len(valid), BATCH):
        answers.update(run(session, valid[start : start + BATCH]))
    return answers


def tables() -> str:
    text = (HERE / "tables.sql").read_text()
    return text[text.index("CREATE") :].replace("DATA", str(HERE / "data")).rstrip(";\n")


def run(session: Session, exprs: list[str]) -> dict[str, str]:
    """One query for all; in halves where one of them fails."""
    items = ", ".join(f"{expr} AS c{number}" for number, expr in enumerate(exprs))
    try:
        columns, rows = session.run(f"SELECT id AS id__, {items} FROM v")
    except Refused as refused:
        if len(exprs) == 1:
            print(f"run\t{exprs[0]}\t{str(refused)[:200]}", file=sys.stderr)
            return {exprs[0]: line(exprs[0], "!run", [])}
        half = len(exprs) // 2
        return {**run(session, exprs[:half]), **run(session, exprs[half:])}
    rows.sort(key=lambda row: int(row[0]))
    return {
        expr: line(expr, type_name(columns[number + 1]["logicalType"]), [row[number + 1] for row in rows])
        for number, expr in enumerate(exprs)
    }


def line(expr: str, answered: str, values: list[str | None]) -> str:
    shown = ["\\N" if value is None else escaped(value) for value in values]
    if len(set(shown)) == 1:
        shown = shown[:1]
    return "\t".join([escaped(expr), answered, *shown])


def type_name(logical: dict) -> str:
    """As SQL, without lengths of texts, which Laxity does not keep."""
    kind = logical["type"]
    match kind:
        case "INTEGER":
            return "INT"
        case "CHAR" | "VARCHAR":
            return "STRING"
        case "BINARY" | "VARBINARY":
            return "BYTES"
        case "DECIMAL":
            return f"DECIMAL({logical['precision']}, {logical['scale']})"
        case "TIME_WITHOUT_TIME_ZONE":
            return "TIME"
        case "TIMESTAMP_WITHOUT_TIME_ZONE":
            return f"TIMESTAMP({logical['precision']})"
        case "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
            return f"TIMESTAMP_LTZ({logical['precision']})"
        case "ARRAY" | "MULTISET":
            return f"{kind}<{type_name(logical['elementType'])}>"
        case "MAP":
            return f"MAP<{type_name(logical['keyType'])}, {type_name(logical['valueType'])}>"
        case "ROW":
            fields = ", ".join(f"{field['name']} {type_name(field['fieldType'])}" for field in logical["fields"])
            return f"ROW<{fields}>"
    return kind


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), f"-{sys.argv[3]}" if len(sys.argv) > 3 else "")
