"""A workload of java/laxity/workload in an engine: what rate it is told to have, and what latencies it tells."""

import math
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

# As in LatencyLog.java.
BUCKET = 1.02


@dataclass
class Latencies:
    """Of rows that came in some seconds."""
    seconds: int = 0
    rows: int = 0
    sum_us: int = 0
    buckets: dict[int, int] = field(default_factory=dict)

    def rows_per_s(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0

    def mean_ms(self) -> float:
        return self.sum_us / self.rows / 1e3 if self.rows else math.nan

    def quantile_ms(self, share: float) -> float:
        """In the middle of its bucket.

        >>> latencies = Latencies(1, 100, 0, {350: 98, 465: 2})
        >>> [round(latencies.quantile_ms(share), 1) for share in (0.5, 0.98, 0.99, 1)]
        [1.0, 1.0, 10.1, 10.1]
        """
        left = share * self.rows
        for bucket, rows in sorted(self.buckets.items()):
            left -= rows
            if left <= 0 and self.rows:
                return BUCKET ** (bucket + 0.5) / 1e3
        return math.nan


class Workload:
    def __init__(self, folder: Path, name: str, instances: int = 1):
        self.name = name
        self.control = folder / f"{name}.control"
        self.log = folder / f"{name}.latencies"
        self.instances = instances
        self.phase = 0
        self.log.touch()
        self.tell(0)

    def tell(self, rows_per_s: float) -> None:
        new = self.control.with_suffix(".new")
        new.write_text(f"{self.phase} {rows_per_s:.3f}\n")
        os.replace(new, self.control)

    def begin(self, rows_per_s: float) -> int:
        """Begins a phase of that rate; negative: as fast as rows are taken. Its number."""
        self.phase += 1
        self.tell(rows_per_s)
        return self.phase

    def end(self) -> int:
        """Ends the phase, and returns when its last row has come: how many rows were sent."""
        ended = self.phase
        self.begin(0)
        until = time.time() + 180
        while time.time() < until:
            lasts = [line.split() for line in self.lines() if line.startswith(f"last {ended} ")]
            if len(lasts) == self.instances:
                return sum(int(last[2]) for last in lasts)
            time.sleep(0.1)
        raise SystemExit(f"{self.name}: the rows of phase {ended} have not all come after three minutes")

    def latencies(self, phase: int, begin: float = 0, end: float = math.inf) -> Latencies:
        """Of the rows of the phase that came in the seconds wholly between."""
        first, last = math.ceil(begin), math.inf if end == math.inf else math.floor(end)
        sum_ = Latencies(seconds=0 if last == math.inf else last - first)
        for line in self.lines():
            words = line.split()
            if words[0] == "last" or int(words[1]) != phase or not first <= int(words[0]) < last:
                continue
            sum_.rows += int(words[2])
            sum_.sum_us += int(words[3])
            for word in words[4:]:
                bucket, rows = map(int, word.split(":"))
                sum_.buckets[bucket] = sum_.buckets.get(bucket, 0) + rows
        return sum_

    def lines(self) -> list[str]:
        """Whole ones: the last may just be written."""
        return self.log.read_text().rpartition("\n")[0].splitlines()
