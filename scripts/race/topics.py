"""Topics, what is sent to them at its time, and what was in them."""

import csv
import os
import subprocess
import sys
from pathlib import Path

from engines import LAXITY
from queries import load, read, read_load

ROOT = Path(__file__).resolve().parents[2]


def create(name: str, partitions: int, appended: bool = False) -> str:
    """`appended`: the time of a record is when the broker took it. Events of long ago are kept all the same."""
    config = ["--config", "message.timestamp.type=LogAppendTime"] if appended else []
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
    """Sends events at `rate` a second for a while, each when it is due, before all else: an engine in want of CPU delays nobody's
    load but its own."""

    def __init__(self, topic: str, format: str, rate: int, seconds: int, folder: Path):
        path = folder / "load.sql"
        path.write_text(load(topic, format, rate, 0, live=True))
        self.process = subprocess.Popen(["nice", "-n", "-10", LAXITY, "run", path, "--plain", "--for", f"{seconds} s"], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

    def wait(self) -> None:
        self.process.wait()


def drain(topic: str, folder: Path, load_format: str = "") -> list[tuple[int, int, int]]:
    """Of each result: when it was due, of which query it is (0 if there is one), when the broker had it; ms. Of a sample of the
    events if there is a `load_format`."""
    path, out = folder / "read.sql", folder / "read.csv"
    out.unlink(missing_ok=True)
    path.write_text(read_load(topic, load_format, out) if load_format else read(topic, out))
    done = subprocess.run([LAXITY, "run", path, "--plain"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"reading {topic}: {done.stderr[-2000:]}")
    if not out.exists():
        return []
    with out.open() as file:
        return [(int(due), int(query or 0), int(appended)) for due, query, appended in csv.reader(file)]
