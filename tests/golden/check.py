#!/usr/bin/env python3
"""Computes the golden results a second time, from the data files alone, and compares.

    check.py            compare every TOPIC.expected with what is computed here
    check.py --print T  print what is computed for topic T

Nothing here is shared with Laxity: no SQL is read, and windows, joins and lateness are written out in the plainest way.
json and dead_letters are not computed; their results are short enough to be read.
"""

import csv
import itertools
import json
import math
import sys
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

HERE = Path(__file__).parent
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1)
NEVER = datetime(1, 1, 1)


def rows(name):
    with open(HERE / "data" / name, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield {key: value_of(key, value) for key, value in row.items()}


def value_of(column, text):
    if text == "NA":
        return None
    if column in ("temp_f", "wind_mph", "gust_mph"):
        return float(text)
    for parse in (int, datetime.fromisoformat):
        try:
            return parse(text)
        except ValueError:
            pass
    return text


FLIGHTS = list(rows("flights.csv"))
WEATHER = list(rows("weather.csv"))
AIRLINES = list(rows("airlines.csv"))
CLICKS = list(rows("clicks.csv"))
EDITS = [json.loads(text) for text in (HERE / "data/edits.jsonl").read_text(encoding="utf-8").splitlines()]


def cell(value):
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds" if value.microsecond else "seconds")
    return str(value)


def line(values):
    return ",".join(cell(value) for value in values)


def floor(at, step):
    return EPOCH + (at - EPOCH) // step * step


def tumble(at, size):
    return [(floor(at, size), floor(at, size) + size)]


def hop(at, slide, size):
    last = floor(at, slide)
    starts = (last - slide * n for n in range(math.ceil(size / slide)))
    return [(start, start + size) for start in starts if at < start + size]


def cumulate(at, step, longest):
    start = floor(at, longest)
    ends = (start + step * n for n in range(1, longest // step + 1))
    return [(start, end) for end in ends if at < end]


def with_watermark_before(stream, time, delay):
    """Each row with the watermark that stood before it: the newest time so far less the delay."""
    newest = None
    for row in stream:
        yield row, NEVER if newest is None else newest - delay
        newest = row[time] if newest is None else max(newest, row[time])


def is_late(window_end, watermark):
    return watermark >= window_end - timedelta(milliseconds=1)


def grouped(items):
    groups = defaultdict(list)
    for key, value in items:
        groups[key].append(value)
    return sorted(groups.items(), key=str)


def windowed(stream, time, assign, *keys):
    """((start, end, keys…), rows of that group), lateness aside."""
    return grouped(((*window, *(row[key] for key in keys)), row) for row in stream for window in assign(row[time]))


def column(group, name):
    return [row[name] for row in group]


def truncated_mean(values):
    return int(sum(values) / len(values))


def filter_project():
    return {
        "delayed.csv": [
            (f["carrier"], f["flight"], f"{f['origin']}-{f['dest']}", f["dep_delay_min"] / 60)
            for f in FLIGHTS
            if f["dep_delay_min"] > 30 and f["origin"] != "LGA"
        ]
    }


def by_hour(at):
    return tumble(at, HOUR)


def tumble_topic():
    return {
        "hourly.csv": [
            (start, end, end - timedelta(milliseconds=1), origin, len(group), sum(column(group, "distance_mi")),
             truncated_mean(delays), min(delays), max(delays))
            for (start, end, origin), group in windowed(FLIGHTS, "event_ts", by_hour, "origin")
            for delays in [column(group, "dep_delay_min")]
        ]
    }


def hop_topic():
    groups = windowed(FLIGHTS, "event_ts", lambda at: hop(at, HOUR, 3 * HOUR), "carrier")
    return {"sliding.csv": [(*key, len(group), max(column(group, "dep_delay_min"))) for key, group in groups]}


def cumulate_topic():
    groups = windowed(FLIGHTS, "event_ts", lambda at: cumulate(at, HOUR, 6 * HOUR))
    return {"so_far.csv": [(*key, len(group), sum(column(group, "distance_mi"))) for key, group in groups]}


def session():
    """Open sessions of a person merge when they touch; a click whose merged session has ended is late."""
    gap, delay = MINUTE, MINUTE
    sessions, late = [], 0
    for click, watermark in with_watermark_before(CLICKS, "clicked_at", delay):
        who, start, end, count = click["who"], click["clicked_at"], click["clicked_at"] + gap, 1
        still_open = [s for s in sessions if s[0] == who and not is_late(s[2], watermark)]
        touching = [s for s in still_open if start <= s[2] and s[1] <= end]
        start = min([start, *(s[1] for s in touching)])
        end = max([end, *(s[2] for s in touching)])
        if is_late(end, watermark):
            late += 1
            continue
        sessions = [s for s in sessions if s not in touching]
        sessions.append((who, start, end, count + sum(s[3] for s in touching)))
    return {"visits.csv": sessions, "counts": {"visits": late}}


def late_rows():
    kept, late = [], []
    for row, watermark in with_watermark_before(FLIGHTS, "event_ts", 30 * MINUTE):
        [(start, end)] = by_hour(row["event_ts"])
        (late if is_late(end, watermark) else kept).append(row)
    return {
        "hourly.csv": [(end, origin, len(g)) for (_, end, origin), g in windowed(kept, "event_ts", by_hour, "origin")],
        "too_late.csv": [(row["event_ts"], row["carrier"], row["flight"]) for row in late],
        "counts": {"hourly": len(late)},
    }


def late_rows_hop():
    counts, late = defaultdict(int), 0
    for row, watermark in with_watermark_before(FLIGHTS, "event_ts", 30 * MINUTE):
        still_open = [end for _, end in hop(row["event_ts"], HOUR, 3 * HOUR) if not is_late(end, watermark)]
        late += not still_open
        for end in still_open:
            counts[end] += 1
    return {"sliding.csv": list(counts.items()), "counts": {"sliding": late}}


def count_distinct():
    groups = windowed(FLIGHTS, "event_ts", lambda at: tumble(at, 2 * HOUR), "origin")
    return {
        "variety.csv": [
            (end, origin, *(len(set(column(group, name))) for name in ("dest", "tailnum", "carrier")), len(group),
             *[len(set(column(group, "distance_mi")))] * 2)
            for (_, end, origin), group in groups
        ]
    }


def filter_clause():
    result = []
    for (_, end), group in windowed(FLIGHTS, "event_ts", by_hour):
        late = [f for f in group if f["dep_delay_min"] > 15]
        far = [f["distance_mi"] for f in group if f["distance_mi"] > 2000]
        if len(group) >= 10:
            early = [f for f in group if f["dep_delay_min"] < 0]
            result.append((end, len(late), len(early), sum(far) if far else None, len(set(column(late, "carrier")))))
    return {"punctuality.csv": result}


def window_join():
    departures = dict(windowed(FLIGHTS, "event_ts", by_hour, "origin"))
    weather = dict(windowed(WEATHER, "observed_at", by_hour, "origin"))
    result = []
    for key in sorted(departures.keys() | weather.keys()):
        flights = departures.get(key)
        for observation in weather.get(key, [{"temp_f": None, "gust_mph": None}]):
            count = len(flights) if flights else None
            result.append((*key[1:], count, observation["temp_f"], observation["gust_mph"]))
    return {"beside.csv": result}


def interval_join():
    return {
        "turnarounds.csv": [
            (a["tailnum"], a["flight"], b["flight"], (b["event_ts"] - a["event_ts"]) // MINUTE)
            for a, b in itertools.product(FLIGHTS, FLIGHTS)
            if a["tailnum"] == b["tailnum"] and 2 * HOUR <= b["event_ts"] - a["event_ts"] <= 8 * HOUR
        ]
    }


def lookup_join():
    delayed = []
    for f in FLIGHTS:
        if f["dep_delay_min"] > 30:
            known = [
                a
                for a in AIRLINES
                if a["carrier"] == f["carrier"] and a["since"] < 2000 and f["distance_mi"] > a["since"] - 1200
            ]
            for a in known or [{"name": None, "since": None}]:
                delayed.append((f["flight"], f["carrier"], a["name"], a["since"]))
    labelled = [
        {**f, "label": f"{a['carrier']}: {a['name']}"}
        for f in FLIGHTS
        for a in AIRLINES
        if a["carrier"] == f["carrier"]
    ]
    hours = windowed(labelled, "event_ts", by_hour, "label")
    return {
        "delayed.csv": delayed,
        "hours.csv": [(end, label, len(group)) for (_, end, label), group in hours],
    }


def over_rows(stream, time, delay, key, frame):
    """Rows that are not late with those of their key before them, in order, and how many are late.

    A row is taken when the watermark reaches it, or rises once more. Behind it, where all rows before count (`frame` is None),
    it is late; else if a row of its key is out that is as new. Where `frame` is a length of time, Flink has a timer for each
    key, half as long again after a row, which it forgets the key by; one that a newer row has put off counts as a row."""
    accepted, late = [], 0
    forgets_at, put_off = {}, defaultdict(list)
    for row, before in with_watermark_before(stream, time, delay):
        k = key(row)
        if k in forgets_at and before >= forgets_at[k]:
            assert row[time] > before, "no case of this here"
            del forgets_at[k]
        if row[time] <= before:
            taken = [r[time] for r, due, other in accepted if other == k and due <= before]
            taken += [at for at in put_off[k] if at <= before]
            if frame is None or (taken and row[time] <= max(taken)):
                late += 1
                continue
        if isinstance(frame, timedelta) and (k not in forgets_at or forgets_at[k] <= row[time] + frame):
            if k in forgets_at:
                put_off[k].append(forgets_at[k])
            forgets_at[k] = row[time] + 1.5 * frame + timedelta(milliseconds=1)
        accepted.append((row, row[time] if row[time] > before else before + timedelta(milliseconds=1), k))
    accepted.sort(key=lambda a: (a[1], a[0][time]))
    rows = [row for row, _, _ in accepted]
    return [(row, [r for r in rows[: at + 1] if key(r) == key(row)], rows) for at, row in enumerate(rows)], late


def over():
    half = 30 * MINUTE
    hour, late_hour = over_rows(FLIGHTS, "event_ts", half, lambda f: f["origin"], HOUR)
    by_hour = []
    for f, _, every in hour:
        group = [g for g in every if g["origin"] == f["origin"] and f["event_ts"] - HOUR <= g["event_ts"] <= f["event_ts"]]
        delays = column(group, "dep_delay_min")
        values = (len(group), sum(delays), truncated_mean(delays), max(delays), len(set(column(group, "carrier"))))
        by_hour.append((f["flight"], f["origin"], *values))
    rows, late_all = over_rows(FLIGHTS, "event_ts", half, lambda f: None, "rows")
    by_rows = []
    for f, before, _ in rows:
        group = before[-4:]
        tails = [t for t in column(group, "tailnum") if t is not None]
        by_rows.append((f["flight"], f["tailnum"], len(tails), sum(column(group, "distance_mi"))))
    carriers, late_carriers = over_rows(FLIGHTS, "event_ts", half, lambda f: f["carrier"], None)
    so_far = []
    for f, _, every in carriers:
        group = [g for g in every if g["carrier"] == f["carrier"] and g["event_ts"] <= f["event_ts"]]
        best, furthest = min(column(group, "dep_delay_min")), max(column(group, "distance_mi"))
        so_far.append((f["flight"], f["carrier"], len(group), best, furthest))
    late = {"over/by_hour": late_hour, "over/by_rows": late_all, "over/so_far": late_carriers}
    return {"by_hour.csv": by_hour, "by_rows.csv": by_rows, "so_far.csv": so_far, "counts": late}


def top_n():
    result = []
    for (_, end), group in windowed(FLIGHTS, "event_ts", by_hour):
        group.sort(key=lambda f: (-f["dep_delay_min"], f["flight"], f["carrier"]))
        result += [(end, n, f["carrier"], f["flight"], f["dep_delay_min"]) for n, f in enumerate(group[:3], 1)]
    return {"worst.csv": result}


def top_n_ties():
    result = []
    for (_, end), group in windowed(FLIGHTS, "event_ts", by_hour):
        # A stable sort: of equal delays, what came first.
        group.sort(key=lambda f: -f["dep_delay_min"])
        result += [(end, n, f["dest"]) for n, f in enumerate(group[:3], 1)]
    return {"worst.csv": result}


def group_windows():
    rows = []
    flights = (flight for flight in FLIGHTS if flight["carrier"] != "AA")
    for (start, end, origin), group in windowed(flights, "event_ts", by_hour, "origin"):
        if end < datetime(2013, 1, 1, 18):
            mean = Decimal(sum(column(group, "dep_delay_min"))) / len(group)
            cents = mean.quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
            rows.append((start, origin, len(group), cents, "dela" if mean > Decimal("0.25") else "on t"))
    return {"hourly.csv": rows}


def deduplicate():
    groups = windowed(CLICKS, "clicked_at", lambda at: tumble(at, 2 * MINUTE), "who")
    firsts = ((end, who, min(group, key=lambda c: c["clicked_at"])) for (_, end, who), group in groups)
    return {"first_clicks.csv": [(end, who, first["clicked_at"], first["page"]) for end, who, first in firsts]}


def union_all():
    events = [(f["event_ts"], "departure") for f in FLIGHTS if f["origin"] == "JFK"]
    events += [(w["observed_at"], "observation") for w in WEATHER if w["origin"] == "JFK"]
    groups = grouped(((tumble(at, 2 * HOUR)[0][1], kind), at) for at, kind in events)
    return {"activity.csv": [(*key, len(group)) for key, group in groups]}


def cascade():
    halves = windowed(FLIGHTS, "event_ts", lambda at: tumble(at, 30 * MINUTE), "origin")
    counts = [{"at": end - timedelta(milliseconds=1), "origin": origin, "n": len(g)} for (_, end, origin), g in halves]
    groups = windowed(counts, "at", lambda at: tumble(at, 3 * HOUR), "origin")
    return {"cascades.csv": [(end, o, sum(column(g, "n")), max(column(g, "n"))) for (_, end, o), g in groups]}


def functions():
    with open(HERE / "data" / "people.csv", newline="", encoding="utf-8") as file:
        people = list(csv.DictReader(file))
    result = []
    for p in people:
        name, number = p["name"].strip(" "), int(p["id"])
        born = datetime.fromisoformat(p["born"]) if p["born"] else None
        height = float(p["height_cm"]) if p["height_cm"] else None
        parts = p["email"].split("@")
        result.append((
            number,
            name,
            name[:3].upper(),
            parts[1] if len(parts) > 1 else None,
            born and born.year,
            born and f"{born:%Y-%m}/{number}",
            "unknown" if height is None else "tall" if height > 170 else "not tall",
            round((height or 0.0) / 100, 2),
            int(float(p["balance"]) * 100),
            number // 2,
            number % 2,
            len(p["note"]),
        ))
    return {"people_out.csv": result}


def statement_set():
    groups = windowed(FLIGHTS, "event_ts", lambda at: tumble(at, 3 * HOUR), "origin")
    far = [(f["flight"], f["dest"], f["distance_mi"]) for f in FLIGHTS if f["distance_mi"] > 2500]
    return {"by_origin.csv": [(end, o, len(g)) for (_, end, o), g in groups], "far.csv": far}


def views():
    west = [f for f in FLIGHTS if f["distance_mi"] > 2000 and f["dest"] in ("LAX", "SFO", "SAN", "SJC", "OAK")]
    groups = windowed(west, "event_ts", lambda at: tumble(at, 2 * HOUR), "dest")
    return {"west.csv": [(end, dest, len(group)) for (_, end, dest), group in groups]}


def row_errors():
    delayed = [f for f in FLIGHTS if f["dep_delay_min"] != 0]
    ratio = lambda number, by: int(number / by)
    return {
        "paces.csv": [
            (f["flight"], f["carrier"], ratio(f["distance_mi"], f["dep_delay_min"])) for f in delayed if f["origin"] == "JFK"
        ],
        "hourly.csv": [
            (end, origin, len(group), sum(ratio(600, delay) for delay in column(group, "dep_delay_min")))
            for (_, end, origin), group in windowed(delayed, "event_ts", by_hour, "origin")
        ],
    }


def partitions():
    folders = defaultdict(list)
    for f in FLIGHTS:
        if f["carrier"] in ("AA", "B6"):
            origin = "__DEFAULT_PARTITION__" if f["origin"] == "LGA" else f["origin"]
            late = "true" if f["dep_delay_min"] > 15 else "false"
            folders[f"by_airport/late={late}/origin={origin}"].append((f["flight"], f["dep_delay_min"]))
    return folders


def unnest():
    words = Counter()
    for e in EDITS:
        end = floor(datetime.fromisoformat(e["edited_at"]), timedelta(seconds=5)) + timedelta(seconds=5)
        for word in (e["channel"] + " " + e["page"]).lower().split(" "):
            if word != "norm":
                words[end, word] += 1
    quoted = {e["page"]: '"' + e["page"].replace('"', '""') + '"' if '"' in e["page"] else e["page"] for e in EDITS}
    return {
        "tagged.csv": [(quoted[e["page"]], tag) for e in EDITS for tag in e.get("tags") or []],
        "tagged_or_not.csv": [
            (quoted[e["page"]], tag) for e in EDITS if e["channel"] != "#ca" for tag in e.get("tags") or [None]
        ],
        "words.csv": [
            (end, '"' + word.replace('"', '""') + '"' if '"' in word else word, n) for (end, word), n in words.items()
        ],
    }


def nested():
    def route(f):
        return (f["origin"], f["distance_mi"]) if f["distance_mi"] < 1000 else (None, None)

    groups, late_hop = defaultdict(list), 0
    for f, watermark in with_watermark_before(FLIGHTS, "event_ts", 30 * MINUTE):
        open_windows = [w for w in hop(f["event_ts"], HOUR, 3 * HOUR) if not is_late(w[1], watermark)]
        late_hop += not open_windows
        for _, end in open_windows:
            groups[end, *route(f)].append(f)
    by_route = [
        (*key, len(group), max(column(group, "dep_delay_min")), len(set(column(group, "carrier"))))
        for key, group in groups.items()
    ]
    rows, late_over = over_rows(FLIGHTS, "event_ts", 30 * MINUTE, lambda f: f["carrier"], "rows")
    ends = []
    for f, before, _ in rows:
        routes = [route(g) for g in before[-4:] if route(g)[0]] or [(None, None)]
        known = "true" if routes[-1][0] else "false"
        ends.append((f["flight"], routes[0][0], routes[-1][1], known, f["arr_delay_min"]))
    return {"by_route.csv": by_route, "ends.csv": ends, "counts": {"nested/by_route": late_hop, "nested/ends": late_over}}


TOPICS = {
    "filter_project": filter_project,
    "tumble": tumble_topic,
    "hop": hop_topic,
    "cumulate": cumulate_topic,
    "session": session,
    "late_rows": late_rows,
    "late_rows_hop": late_rows_hop,
    "count_distinct": count_distinct,
    "filter_clause": filter_clause,
    "window_join": window_join,
    "interval_join": interval_join,
    "lookup_join": lookup_join,
    "over": over,
    "top_n": top_n,
    "top_n_ties": top_n_ties,
    "group_windows": group_windows,
    "deduplicate": deduplicate,
    "union_all": union_all,
    "cascade": cascade,
    "functions": functions,
    "statement_set": statement_set,
    "views": views,
    "partitions": partitions,
    "unnest": unnest,
    "nested": nested,
    "row_errors": row_errors,
}


def computed(topic):
    """The sections of TOPIC.expected, but that of the counts only the late rows."""
    result = TOPICS[topic]()
    late = result.pop("counts", None)
    sections = {name: sorted(map(line, values)) for name, values in result.items()}
    return sections, late


def expected(topic):
    sections, late, name = {}, {}, None
    for text in (HERE / f"{topic}.expected").read_text(encoding="utf-8").splitlines():
        if text.startswith("== "):
            name = text[3:]
            sections[name] = []
        elif name == "counts":
            query, _, counts = text.partition(": ")
            late[query] = int(dict(pair.split(" ")[::-1] for pair in counts.split(", "))["late"])
        else:
            sections[name].append(text)
    sections.pop("counts", None)
    return sections, late


def show(sections):
    for name, lines in sections.items():
        print(f"== {name}", *lines, sep="\n")


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--print":
        sections, late = computed(sys.argv[2])
        show(sections)
        print(f"late: {late}")
        return 0
    differing = []
    for topic in TOPICS:
        sections, late = computed(topic)
        there, late_there = expected(topic) if (HERE / f"{topic}.expected").exists() else ({}, {})
        if sections != there or (late is not None and late != late_there):
            differing.append(topic)
            print(f"{topic}: computed here", file=sys.stderr)
            for name in sections.keys() | there.keys():
                here, other = set(sections.get(name, [])), set(there.get(name, []))
                for text in sorted(here - other):
                    print(f"  {name}: only here:     {text}", file=sys.stderr)
                for text in sorted(other - here):
                    print(f"  {name}: only expected: {text}", file=sys.stderr)
            if late is not None and late != late_there:
                print(f"  late here {late}, expected {late_there}", file=sys.stderr)
    print(f"{len(TOPICS) - len(differing)} of {len(TOPICS)} topics agree")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
