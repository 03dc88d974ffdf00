#!/usr/bin/env python3
"""Asks a real Flink for the value of every generated expression, and writes what it said to expressions.tsv.

    ask.py GATEWAY [SEED]

Only expressions that the file does not hold yet are asked, so that a new template costs seconds: remove the file to
ask all of them again.
"""

import concurrent.futures
import pathlib
import re
import sys
import tempfile

from expressions import expressions
from gateway import Refused, Session
from inputs import inputs
from inputs import line as line_of

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE / "expressions.tsv"
BATCH = 40
SESSIONS = 2
PROPERTIES = {"execution.runtime-mode": "streaming", "table.local-time-zone": "UTC"}


def main(gateway: str, seed: int) -> None:
    wanted = expressions(seed)
    known = {}
    if GOLDEN.exists():
        lines = GOLDEN.read_text().split("\n")
        known = {line.split("\t", 1)[0]: line for line in lines if line and not line.startswith("#")}
    asked = [expr for expr in wanted if escaped(expr) not in known]
    parts = [asked[start::SESSIONS] for start in range(SESSIONS)]
    with concurrent.futures.ThreadPoolExecutor(SESSIONS) as pool:
        for answers in pool.map(lambda part: answer(gateway, part), parts):
            known.update((escaped(expr), line) for expr, line in answers.items())
    body = "\n".join(known[escaped(expr)] for expr in wanted)
    GOLDEN.write_text(f"# seed {seed}; expression, type, values over the rows of v (one if all are the same)\n{body}\n")
    print(f"{len(asked)} of {len(wanted)} expressions asked")
    ask_inputs(gateway)


def ask_inputs(gateway: str) -> None:
    """One table for each format and type, its bad fields NULL."""
    session = Session(gateway, PROPERTIES)
    lines = ["# format, type, field as it stands in the file, value; bad fields and fields without a row are \\N"]
    with tempfile.TemporaryDirectory() as folder:
        for number, (form, data_type, fields) in enumerate(inputs()):
            path = pathlib.Path(folder) / f"{number}.{form}"
            path.write_text("".join(line_of(form, at, field) + "\n" for at, field in enumerate(fields)))
            session.run(
                f"CREATE TABLE inputs{number} (id INT, x {data_type}) WITH ('connector' = 'filesystem', "
                f"'path' = '{path}', 'format' = '{form}', '{form}.ignore-parse-errors' = 'true')"
            )
            _, rows = session.run(f"SELECT id, x FROM inputs{number}")
            values = {int(row[0]): row[1] for row in rows}
            for at, field in enumerate(fields):
                value = values.get(at)
                shown = "\\N" if value is None else escaped(value)
                lines.append("\t".join([form, data_type, escaped(field), shown]))
    (HERE / "inputs.tsv").write_text("\n".join(lines) + "\n")
    print(f"{len(lines) - 1} inputs asked")


def answer(gateway: str, exprs: list[str]) -> dict[str, str]:
    session = Session(gateway, PROPERTIES)
    for statement in (HERE / "tables.sql").read_text().replace("DATA", str(HERE / "data")).split(";"):
        if "CREATE" in statement:
            session.run(statement)
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


def escaped(text: str) -> str:
    text = text.replace("\\", "\\\\")
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", lambda found: f"\\x{ord(found[0]):04x}", text)


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
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1)
