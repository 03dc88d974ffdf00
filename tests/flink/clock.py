#!/usr/bin/env python3
"""Windows over PROCTIME(), here and on a real Flink: `clock.py GATEWAY LAXITY`, a quarter of a minute.

Which window a row is in depends on the clock, so that two runs are not compared row for row. Numbered rows come one by one, and
both must give windows as they are defined: their bounds, and that each row is in as many of them as it should be. The last
windows, which the end of the input finds open, are left out: Flink drops them, and Laxity fires them (docs/sql.md).
"""

import concurrent.futures
import re
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path

from gateway import Session

ROWS, ROWS_A_SECOND = 1_100, 100
SLOW_ROWS = 11
PROPERTIES = {"execution.runtime-mode": "streaming", "table.local-time-zone": "UTC", "parallelism.default": "1"}

TICKS = """CREATE TABLE ticks (n BIGINT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'rows-per-second' = '{rate}',
'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '{last}')"""
SELECT = ("SELECT {keys}window_start, window_end, MIN(n), MAX(n), COUNT(*) FROM TABLE({window}) GROUP BY {keys}window_start, window_end")

# Window function, bounds in ms (length, distance of starts or step, offset), rows a second.
CASES = {
    "TUMBLE": ("TUMBLE(TABLE ticks, DESCRIPTOR(p), INTERVAL '2' SECOND)", (2_000, 2_000, 0), ROWS_A_SECOND),
    "TUMBLE with an offset": ("TUMBLE(TABLE ticks, DESCRIPTOR(p), INTERVAL '2' SECOND, INTERVAL '0.7' SECOND)", (2_000, 2_000, 700), ROWS_A_SECOND),
    "HOP": ("HOP(TABLE ticks, DESCRIPTOR(p), INTERVAL '1' SECOND, INTERVAL '3' SECOND)", (3_000, 1_000, 0), ROWS_A_SECOND),
    "CUMULATE": ("CUMULATE(TABLE ticks, DESCRIPTOR(p), INTERVAL '1' SECOND, INTERVAL '3' SECOND)", (3_000, 1_000, 0), ROWS_A_SECOND),
    "SESSION": ("SESSION(TABLE ticks, DESCRIPTOR(p), INTERVAL '0.3' SECOND)", (300, 0, 0), 1),
}


class Window:
    def __init__(self, cells: list[str]):
        self.start_ms, self.end_ms = (
            round(datetime.fromisoformat(cell.strip().replace("T", " ").rstrip("Z") + "+00:00").timestamp() * 1e3) for cell in cells[:2])
        self.first, self.last, self.count = (int(cell) for cell in cells[2:])

    def __repr__(self) -> str:
        return f"[{self.start_ms}, {self.end_ms}) rows {self.first} to {self.last}, {self.count}"


def wrong(windows: list[Window], function: str, bounds: tuple[int, int, int]) -> str | None:
    """
    >>> window = lambda start, end, first, last: Window([f"1970-01-01 00:00:{start:02}", f"1970-01-01 00:00:{end:02}", first, last, last - first + 1])
    >>> wrong([window(0, 2, 0, 4), window(2, 4, 5, 9)], "TUMBLE", (2_000, 2_000, 0))
    >>> wrong([window(0, 2, 0, 4), window(2, 4, 6, 9)], "TUMBLE", (2_000, 2_000, 0))
    'no window goes on behind [0, 2000) rows 0 to 4, 5'
    >>> wrong([window(0, 3, 0, 4), window(1, 4, 0, 6), window(2, 5, 0, 9), window(3, 6, 5, 12)], "HOP", (3_000, 1_000, 0))
    >>> wrong([window(0, 3, 0, 4), window(1, 4, 0, 6), window(2, 5, 0, 9), window(3, 6, 6, 12)], "HOP", (3_000, 1_000, 0))
    'no window goes on behind [0, 3000) rows 0 to 4, 5'
    >>> wrong([window(0, 1, 0, 4), window(0, 2, 0, 6), window(0, 3, 0, 9), window(3, 4, 10, 12)], "CUMULATE", (3_000, 1_000, 0))
    """
    length, step, offset = bounds
    windows = sorted(windows, key=lambda window: window.end_ms)
    for window in windows:
        if window.count != window.last - window.first + 1:
            return f"rows are missing in {window}"
        length_ms = window.end_ms - window.start_ms
        match function:
            case "SESSION":
                is_as_long = length_ms >= length and (window.count > 1 or length_ms == length)
            case "CUMULATE":
                is_as_long = length_ms in range(step, length + 1, step) and window.start_ms % length == 0
            case _:
                is_as_long = length_ms == length
        if not is_as_long or (step > 0 and (window.end_ms - offset) % step != 0):
            return f"the bounds of {window}"
    if windows[0].first != 0:
        return f"the first row is not in {windows[0]}"
    # Where the rows of a window end, those of the next one that begins behind its end begin.
    for window in windows:
        behind = [other for other in windows if other.start_ms >= window.end_ms]
        if function == "CUMULATE" and window.end_ms - window.start_ms < length:
            continue
        if behind and min(behind, key=lambda other: (other.start_ms, other.end_ms)).first != window.last + 1:
            return f"no window goes on behind {window}"
    if function == "CUMULATE":
        for before, after in zip(windows, windows[1:]):
            if before.start_ms == after.start_ms and not (before.first == after.first and before.last <= after.last):
                return f"{after} is not {before} and more"
    return None


def statements(case: str) -> list[str]:
    window, _, rate = CASES[case]
    last = (ROWS if rate > 1 else SLOW_ROWS) - 1
    return [TICKS.format(rate=rate, last=last), SELECT.format(keys="", window=window)]


def on_flink(gateway: str, case: str) -> list[Window]:
    session = Session(gateway, PROPERTIES)
    table, query = statements(case)
    session.run(table)
    _, rows = session.run(query)
    return [Window(row) for row in rows]


def here(laxity: str, case: str) -> list[Window]:
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(";\n".join(statements(case)) + ";\n")
        file.flush()
        done = subprocess.run([laxity, "run", file.name, "--plain"], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        sys.exit(done.stderr)
    windows = [Window(row.split(",")) for row in re.findall(r"\+I\[(.*)\]", done.stdout)]
    # What the end of the input finds open is fired here, and has the last row.
    return [window for window in windows if window.last < (ROWS if CASES[case][2] > 1 else SLOW_ROWS) - 1]


def main(gateway: str, laxity: str) -> None:
    failed = []
    with concurrent.futures.ThreadPoolExecutor(2 * len(CASES)) as pool:
        given = {(engine, case): pool.submit(run, at, case)
                 for case in CASES for engine, run, at in (("Flink", on_flink, gateway), ("Laxity", here, laxity))}
        for (engine, case), windows in given.items():
            found = windows.result()
            problem = wrong(found, case.split()[0], CASES[case][1]) if len(found) >= 3 else f"{len(found)} windows alone"
            print(f"PROCTIME(): {engine}, {case}: {len(found)} windows, {problem or 'as they should be'}", flush=True)
            failed += [problem] if problem else []
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
