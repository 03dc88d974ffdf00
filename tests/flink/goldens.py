"""Runs the SQL files of tests/golden and examples on Flink, those that use nothing of Laxity's own, and compares what they write
with their `.expected` files.

The line of column names that CSV files here begin with is taken off, since Flink cannot skip it.
"""

import csv
import json
import pathlib
import re
import sys
import tempfile

from gateway import Refused, Session

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from flink_sql import statements  # noqa: E402

GOLDEN = ROOT / "tests/golden"
# APPROX_COUNT_DISTINCT is refused by Flink in streaming, and files as tables to look rows up in.
NOT_ASKED = ["count_distinct", "lookup_join"]
# A sink's files are whole when a checkpoint has seen their end.
PROPERTIES = {
    "execution.runtime-mode": "streaming",
    "table.local-time-zone": "UTC",
    "table.dml-sync": "true",
    "pipeline.auto-watermark-interval": "0 ms",
    "execution.checkpointing.interval": "300 ms",
}


def check(gateway: str) -> None:
    """Exits with what differs."""
    differing, ran = [], []
    for path in sorted(GOLDEN.glob("*.sql")):
        if "'laxity." in path.read_text() or path.stem in NOT_ASKED:
            continue
        ran.append(path.stem)
        with tempfile.TemporaryDirectory() as folder:
            differing += [f"{path.name}: {what}" for what in run(gateway, path, pathlib.Path(folder))]
    print(f"{len(ran)} golden files asked: {', '.join(ran)}", flush=True)
    if differing:
        sys.exit("\n".join(differing))


def run(gateway: str, path: pathlib.Path, folder: pathlib.Path) -> list[str]:
    text = path.read_text()
    (folder / "data").mkdir()
    for data in (GOLDEN / "data").iterdir():
        content = data.read_text(errors="surrogateescape")
        is_headed = re.search(rf"{re.escape(data.name)}'[^;]*'csv.header' = 'true'", text)
        (folder / "data" / data.name).write_text(content.split("\n", 1)[1] if is_headed else content, errors="surrogateescape")
    text = re.sub(r",\s*'csv.header' = 'true'", "", text)
    text = re.sub(r"'path' = '(.*?)'", lambda found: f"'path' = '{folder}/{found[1]}'", text)
    session = Session(gateway, PROPERTIES)
    for statement in statements(text):
        try:
            session.run(statement)
        except Refused as refused:
            return [f"refused: {str(refused)[:300]}"]
    wrong = []
    for file, expected in sections(path.with_suffix(".expected").read_text()).items():
        written = folder / "out" / file
        parts = [part for part in written.rglob("*") if part.is_file() and not part.name.startswith((".", "_"))] if written.exists() else []
        given = sorted(line for part in parts for line in rows(file, part.read_text()))
        wanted = sorted(rows(file, expected))
        wrong += [f"{file}: only Flink: {line}" for line in only(given, wanted)]
        wrong += [f"{file}: only here: {line}" for line in only(wanted, given)]
    return wrong


def sections(expected: str) -> dict[str, str]:
    parts = re.split(r"^== (.*)\n", expected, flags=re.M)
    return {name: body for name, body in zip(parts[1::2], parts[2::2]) if name != "counts"}


def rows(file: str, text: str) -> list[str]:
    """One text for each row, in which zeros that say nothing are left out: `12:00:00.500` is `12:00:00.5`, `1.00` is `1`."""
    if file.endswith(".jsonl"):
        cells = [[json.dumps(json.loads(line), sort_keys=True, ensure_ascii=False)] for line in text.splitlines()]
    else:
        cells = csv.reader(text.splitlines(keepends=True))
    return ["|".join(plain(cell) for cell in row) for row in cells if row]


def plain(cell: str) -> str:
    if re.fullmatch(r"-?\d+\.\d+", cell):
        return cell.rstrip("0").removesuffix(".")
    return re.sub(r"(:\d\d\.\d*?)0+(?=\"|$)", r"\1", cell).removesuffix(".")


def only(these: list[str], those: list[str]) -> list[str]:
    left = list(those)
    found = []
    for line in these:
        if line in left:
            left.remove(line)
        else:
            found.append(line)
    return found[:5]
