"""Topics, what is sent to them at its time, and what was in them."""

import bisect
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
    """Of each result: when it was due, of which query it is (0 if there is one), when the broker had it; ms. Of the events, with
    their partition, if there is a `load_format`."""
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


class Completed:
    """When the broker had the record that completes a result: from then on an engine could have told it.

    Of an event that is its own record; of several of one instant, the first. Where the watermark decides, it is the first record
    of each partition that takes the partition past the instant, and of these the last.

    >>> events = [(10, 0, 12), (11, 1, 13), (20, 0, 21), (19, 1, 30), (20, 1, 33)]
    >>> by_event, by_watermark = Completed(events), Completed(events, delay_ms=9)
    >>> by_event.at(20), by_event.at(15), by_watermark.at(10), by_watermark.at(12), by_watermark.at(13)
    (21, None, 30, 33, None)
    """

    def __init__(self, sent: list[tuple[int, int, int]], delay_ms: int | None = None):
        self.delay_ms = delay_ms
        self.first: dict[int, int] = {}
        for due, _, appended in sent:
            self.first[due] = min(appended, self.first.get(due, appended))
        self.partitions = []
        for partition in {partition for _, partition, _ in sent}:
            of = sorted((due, appended) for due, at, appended in sent if at == partition)
            appended = [appended for _, appended in of]
            for place in reversed(range(len(appended) - 1)):
                appended[place] = min(appended[place], appended[place + 1])
            self.partitions.append(([due for due, _ in of], appended))

    def at(self, due_ms: int) -> int | None:
        """Of a result that was due then, without the delay; `None` if there is no such record."""
        if self.delay_ms is None:
            return self.first.get(due_ms)
        last = []
        for dues, appended in self.partitions:
            # A window has ended when the watermark has come to its last millisecond.
            place = bisect.bisect_left(dues, due_ms + self.delay_ms - 1)
            if place == len(dues):
                return None
            last.append(appended[place])
        return max(last, default=None)
