"""Topics, what is sent to them at its time, and what was in them."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

from engines import LAXITY
from queries import load, read

ROOT = Path(__file__).resolve().parents[2]


def create(name: str, partitions: int, results: bool = False) -> str:
    """Of results the time of a record is when the broker took it. Events of long ago are kept all the same."""
    config = ["--config", "message.timestamp.type=LogAppendTime"] if results else []
    kafka("--create", "--topic", name, "--partitions", str(partitions), "--config", "retention.ms=-1", *config)
    return name


def delete(*names: str) -> None:
    for name in names:
        kafka("--delete", "--topic", name)


def kafka(*words: str) -> None:
    subprocess.run([ROOT / "scripts/kafka.sh", "topic", *words], check=True, stdout=subprocess.DEVNULL, timeout=60)


def fill(topic: str, format: str, count: int, folder: Path) -> None:
    path = folder / "fill.sql"
    path.write_text(load(topic, format, rate=10_000, count=count, live=False))
    done = subprocess.run([LAXITY, "run", path, "--plain"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"filling {topic}: {done.stderr[-2000:]}")


class Load:
    """Sends events at `rate` a second for a while, each when it is due."""

    def __init__(self, topic: str, format: str, rate: int, seconds: int, folder: Path):
        path, self.report = folder / "load.sql", folder / "load.json"
        path.write_text(load(topic, format, rate, 0, live=True))
        self.process = subprocess.Popen([LAXITY, "run", path, "--plain", "--for", f"{seconds} s", "--report", self.report],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait(self) -> float:
        """How late its events were in the topic at the 99th percentile, ms: no fault of who reads them."""
        self.process.wait()
        return json.loads(self.report.read_text())["queries"][0]["latency_ms"]["p99"]


def drain(topic: str, folder: Path) -> list[tuple[int, int, int]]:
    """Of each result: when it was due, of which query it is (0 if there is one), when the broker had it; ms."""
    path, out = folder / "read.sql", folder / "read.csv"
    out.unlink(missing_ok=True)
    path.write_text(read(topic, out))
    done = subprocess.run([LAXITY, "run", path, "--plain"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"reading {topic}: {done.stderr[-2000:]}")
    if not out.exists():
        return []
    with out.open() as file:
        return [(int(due), int(query or 0), int(appended)) for due, query, appended in csv.reader(file)]
