"""Asks Flink what becomes of every type in a sink of every type, over the columns of the table v."""

import json
import pathlib
import sys
import tempfile
from decimal import Decimal

from gateway import Refused, Session
from line import escaped

COLUMNS = ["ti", "si", "i", "l", "f", "d", "dc", "db", "s", "u", "c", "vc", "b", "dt", "tm", "ts", "t6"]
TYPES = [
    "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 1)", "DECIMAL(12, 2)", "DECIMAL(38, 18)", "STRING",
    "VARCHAR(3)", "CHAR(7)", "BOOLEAN", "DATE", "TIME", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)",
]  # fmt: skip
BATCH = 20


def asked(gateway: str, tables: str, properties: dict[str, str]) -> list[str]:
    """Column, type of the sink, and the value of each row as JSON writes it."""
    session = Session(gateway, {**properties, "table.dml-sync": "true", "execution.checkpointing.interval": "300 ms"})
    session.run(tables)
    pairs = [(column, data_type) for column in COLUMNS for data_type in TYPES]
    lines = {pair: "\t".join([*pair, "!plan"]) for pair in pairs}
    with tempfile.TemporaryDirectory() as folder:
        accepted = []
        for number, (column, data_type) in enumerate(pairs):
            session.run(
                f"CREATE TABLE sink{number} (id INT, x {data_type}) WITH ('connector' = 'filesystem', "
                f"'path' = '{folder}/{number}', 'format' = 'json')"
            )
            try:
                session.run(f"EXPLAIN INSERT INTO sink{number} SELECT id, {column} FROM v")
                accepted.append(number)
            except Refused:
                pass
        for start in range(0, len(accepted), BATCH):
            run(session, pairs, accepted[start : start + BATCH], pathlib.Path(folder), lines)
    print(f"{len(accepted)} of {len(pairs)} pairs of types taken by sinks", flush=True)
    return list(lines.values())


def run(session: Session, pairs: list, numbers: list[int], folder: pathlib.Path, lines: dict) -> None:
    inserts = " ".join(f"INSERT INTO sink{number} SELECT id, {pairs[number][0]} FROM v;" for number in numbers)
    try:
        session.run(f"EXECUTE STATEMENT SET BEGIN {inserts} END")
    except Refused as refused:
        if len(numbers) == 1:
            print(f"run\t{pairs[numbers[0]]}\t{str(refused)[:200]}", file=sys.stderr)
            lines[pairs[numbers[0]]] = "\t".join([*pairs[numbers[0]], "!run"])
            return
        half = len(numbers) // 2
        run(session, pairs, numbers[:half], folder, lines)
        run(session, pairs, numbers[half:], folder, lines)
        return
    for number in numbers:
        files = [part for part in (folder / str(number)).rglob("part-*") if part.is_file()]
        rows = [json.loads(line, parse_float=str, parse_int=str) for part in files for line in part.read_text().splitlines()]
        rows.sort(key=lambda row: int(row["id"]))
        shown = ["\\N" if row.get("x") is None else escaped(text(pairs[number][1], row["x"])) for row in rows]
        lines[pairs[number]] = "\t".join([*pairs[number], *shown])


def text(data_type: str, value: object) -> str:
    """JSON has 100.00 as 1E+2."""
    return format(Decimal(str(value)), "f") if data_type.startswith("DECIMAL") else str(value)
