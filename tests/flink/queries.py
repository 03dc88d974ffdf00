"""Generates streams, and queries over them that window, rank and join.

What is generated depends on the seed alone. `ask_queries.py` asks Flink for their rows. Every query names its columns c0, c1, …
"""

import json
import pathlib
import random
import re

ROWS = 36
BASE_S = 1_704_067_200  # 2024-01-01 00:00:00

# Name: seconds that the watermark is behind, and how many seconds a row may come out of order. Of `late` and `gaps` rows
# come too late; those of the others never do, so that what a join of them gives does not depend on which input is read first.
STREAMS = {"calm": (0, 0), "ties": (0, 0), "mixed": (12, 12), "late": (3, 25), "gaps": (4, 9), "before": (5, 5)}
PUNCTUAL = ["calm", "ties", "mixed"]

COLUMNS = "id INT, t TIMESTAMP(3), k STRING, g INT, n INT, l BIGINT, x DOUBLE, d DECIMAL(10, 2), s STRING, b BOOLEAN"

# Floating point numbers are quarters, so that a sum is the same in any order.
AGGREGATES = [
    "COUNT(*)", "COUNT(n)", "COUNT(k)", "SUM(n)", "SUM(l)", "SUM(x)", "SUM(d)", "AVG(n)", "AVG(l)", "AVG(x)", "AVG(d)",
    "MIN(n)", "MAX(l)", "MIN(x)", "MAX(d)", "MIN(s)", "MAX(s)", "MIN(t)", "MAX(t)", "MAX(b)", "MAX(CHAR_LENGTH(s))",
    "STDDEV_POP(x)", "VAR_SAMP(x)", "VAR_POP(d)", "STDDEV_SAMP(n)", "SUM(n) * 2 + COUNT(*)", "SUM(n + g)", "SUM(d) / COUNT(*)",
    "AVG(CAST(n AS DOUBLE))", "SUM(CASE WHEN b THEN n ELSE 0 END)", "COALESCE(SUM(n), -1)", "MAX(n) - MIN(n)",
    "COUNT(DISTINCT n)", "COUNT(DISTINCT k)", "COUNT(DISTINCT s)", "SUM(DISTINCT n)", "AVG(DISTINCT l)", "COUNT(DISTINCT d)",
]  # fmt: skip
CONDITIONS = ["n > 3", "b", "k = 'a'", "x < 2.5", "s IS NOT NULL", "d >= 1.5", "MOD(id, 3) = 0", "NOT b OR n IS NULL", "FALSE"]
FILTERED = [
    "COUNT(*)", "SUM(n)", "AVG(x)", "MIN(d)", "MAX(s)", "COUNT(DISTINCT n)", "COUNT(DISTINCT s)", "SUM(DISTINCT n)", "SUM(d)", "MAX(t)",
]  # fmt: skip
# Of each the order of the rows matters, or their whole number.
ORDERED = [
    "FIRST_VALUE(n)", "FIRST_VALUE(s)", "LAST_VALUE(l)", "LAST_VALUE(s)", "LISTAGG(s)", "LISTAGG(k, '-')", "ARRAY_AGG(n)", "ARRAY_AGG(s)",
    "PERCENTILE(x, 0.5)", "PERCENTILE(n, 0.9)", "PERCENTILE(l, ARRAY[0.1, 0.5])", "PERCENTILE(x, 0.25, g)",
]  # fmt: skip
# Calls that stand alone before OVER.
OVERS = [
    "COUNT(*)", "COUNT(n)", "SUM(n)", "SUM(l)", "SUM(x)", "SUM(d)", "AVG(n)", "AVG(x)", "AVG(d)", "MIN(n)", "MAX(l)", "MIN(x)", "MAX(d)",
    "MIN(s)", "MAX(s)", "MAX(b)", "MAX(t)", "STDDEV_POP(x)", "COUNT(DISTINCT n)", "COUNT(DISTINCT s)", "SUM(DISTINCT n)", "SUM(n + g)",
]  # fmt: skip
WHERES = ["n IS NOT NULL", "k <> 'b'", "x > 0.5", "id > 5 AND id < 30", "b IS TRUE", "FALSE", "k IS NULL OR k IN ('a', 'c')"]
KEYS = [[], ["k"], ["k"], ["k"], ["g"], ["k", "g"], ["b"], ["s"]]


def streams(seed: int) -> dict[str, list[dict]]:
    return {name: rows(name, random.Random(f"{seed} {name}")) for name in STREAMS}


def rows(name: str, rng: random.Random) -> list[dict]:
    disorder_s = STREAMS[name][1]
    now_ms = -20_000 if name == "before" else BASE_S * 1000
    made = []
    for number in range(ROWS):
        match name:
            case "ties":
                now_ms += rng.choice([0, 0, 0, 5_000])
            case "gaps":
                now_ms += rng.choice([0, 250, 1_000, 1_500, 3_000]) + (40_000 if rng.random() < 0.1 else 0)
            case _:
                now_ms += rng.choice([0, 1, 999, 1_000, 1_500, 2_000, 4_000])
        # A row may lie far behind; the newest so far it never is by more than `disorder_s`.
        back_ms = rng.randint(0, disorder_s * 1000) if rng.random() < 0.45 else 0
        made.append(
            {
                "id": number,
                "t": shown(now_ms - back_ms),
                "k": rng.choice(["a", "a", "b", "c", None]),
                "g": rng.randint(1, 3),
                "n": rng.choice([None, *range(-2, 9)]),
                "l": rng.choice([None, 0, 7, -5_000_000_000, 2_147_483_648, 12]),
                "x": rng.choice([None, *(quarter / 4 for quarter in range(-6, 20))]),
                "d": rng.choice([None, 0.0, 1.25, 1.5, -3.75, 99999999.99, 0.01]),
                "s": rng.choice([None, "", "x", "yy", "Zz", "äö"]),
                "b": rng.choice([None, True, False]),
            }
        )
    return made


def shown(ms: int) -> str:
    import datetime

    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=ms)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03}"


def write(folder: pathlib.Path, seed: int) -> None:
    (folder / "streams.sql").write_text(tables() + "\n")
    write_lines(folder / "data/names.jsonl", names(random.Random(f"{seed} names")))
    for name, made in streams(seed).items():
        write_lines(folder / "data" / f"{name}.jsonl", made)


def write_lines(path: pathlib.Path, made: list[dict]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made))


def tables() -> str:
    return "\n".join([*streamed(), others()])


def streamed() -> list[str]:
    return [
        f"CREATE TABLE {name} ({COLUMNS}, WATERMARK FOR t AS t - INTERVAL '{delay_s}' SECOND) "
        f"WITH ('connector' = 'filesystem', 'path' = 'DATA/{name}.jsonl', 'format' = 'json');"
        for name, (delay_s, _) in STREAMS.items()
    ]


def others() -> str:
    """What is looked up in, and what says of each row where it came from."""
    return "\n".join(
        [
            "CREATE TABLE names (k STRING, g INT, name STRING, worth DECIMAL(6, 2)) WITH ('connector' = 'filesystem', 'path' = 'DATA/names.jsonl', 'format' = 'json');",
            "CREATE TABLE filed (id INT, name STRING METADATA FROM 'file.name', size BIGINT METADATA FROM 'file.size') WITH ('connector' = 'filesystem', 'path' = 'DATA/calm.jsonl', 'format' = 'json');",
        ]
    )


def names(rng: random.Random) -> list[dict]:
    """A key may come twice, not at all, or be NULL."""
    made = [{"k": k, "g": g, "name": f"{k}{g}", "worth": rng.choice([None, 1.5, -3.25, 100.0])} for k in ["a", "b"] for g in (1, 2)]
    return [*made, {"k": "a", "g": 1, "name": "again", "worth": 2.0}, {"k": None, "g": 3, "name": None, "worth": 0.0}]


def seconds(count: int) -> str:
    return f"INTERVAL '{count}' SECOND"


def window(rng: random.Random, table: str, time: str = "t", kinds: str = "THC", offsets: bool = True) -> str:
    """A windowed table; its sizes are so that two of one kind have windows in common."""
    offset = f", {seconds(rng.choice([3, -2, 7]))}" if offsets and rng.random() < 0.2 else ""
    args = f"TABLE {table}, DESCRIPTOR({time})"
    match rng.choice(kinds):
        case "T":
            return f"TUMBLE({args}, {seconds(rng.choice([5, 10, 20]))}{offset})"
        case "H":
            slide, size = rng.choice([(5, 10), (5, 20), (2, 10), (10, 10), (4, 12)])
            return f"HOP({args}, {seconds(slide)}, {seconds(size)}{offset})"
        case _:
            step, size = rng.choice([(5, 15), (2, 10), (10, 30), (10, 10)])
            return f"CUMULATE({args}, {seconds(step)}, {seconds(size)}{offset})"


def session(rng: random.Random, table: str, keys: list[str]) -> str:
    by = {0: "", 1: f" PARTITION BY {', '.join(keys)}"}.get(len(keys), f" PARTITION BY ({', '.join(keys)})")
    return f"SESSION(TABLE {table}{by}, DESCRIPTOR(t), {seconds(rng.choice([1, 2, 5, 15]))})"


def aggregates(rng: random.Random, filtered: bool = False) -> list[str]:
    chosen = rng.sample(AGGREGATES, rng.randint(1, 3))
    if filtered:
        chosen = [f"{rng.choice(FILTERED)} FILTER (WHERE {rng.choice(CONDITIONS)})" for _ in range(rng.randint(1, 2))] + chosen[:1]
    return chosen


def without_distinct_sums(items: list[str]) -> list[str]:
    """In HOP they end Flink's job, and a job that ends as it starts ends its TaskManager."""
    return [item.replace("SUM(DISTINCT", "COUNT(DISTINCT").replace("AVG(DISTINCT", "COUNT(DISTINCT") for item in items]


def select(items: list[str]) -> str:
    return "SELECT " + ", ".join(f"{item} AS c{at}" for at, item in enumerate(items))


def grouped(rng: random.Random, windowed: str, keys: list[str], filtered: bool = False) -> str:
    bounds = rng.choice([["window_start", "window_end"], ["window_end"], ["window_start"], ["window_start", "window_end", "window_time"]])
    by = ["window_start", "window_end", *(["window_time"] if "window_time" in bounds else []), *keys]
    where = f" WHERE {rng.choice(WHERES)}" if rng.random() < 0.15 else ""
    having = f" HAVING {rng.choice(['COUNT(*) > 1', 'SUM(n) > 5', 'MAX(x) IS NOT NULL'])}" if rng.random() < 0.15 else ""
    items = [*bounds, *keys, *aggregates(rng, filtered)]
    if windowed.startswith("HOP"):
        items = without_distinct_sums(items)
    return f"{select(items)} FROM TABLE({windowed}){where} GROUP BY {', '.join(by)}{having}"


def any_stream(rng: random.Random) -> str:
    return rng.choice([*STREAMS, "late", "mixed"])


def windowed_aggregate(rng: random.Random) -> str:
    return grouped(rng, window(rng, any_stream(rng)), rng.choice(KEYS))


def filtered_aggregate(rng: random.Random) -> str:
    return grouped(rng, window(rng, any_stream(rng), offsets=False), rng.choice(KEYS), filtered=True)


def session_aggregate(rng: random.Random) -> str:
    keys = rng.choice(KEYS)
    return grouped(rng, session(rng, any_stream(rng), keys), keys, filtered=rng.random() < 0.3)


def legacy_window(rng: random.Random) -> str:
    kind, args = rng.choice(
        [("TUMBLE", [seconds(10)]), ("TUMBLE", [seconds(5)]), ("HOP", [seconds(5), seconds(15)]), ("HOP", [seconds(2), seconds(4)]), ("SESSION", [seconds(3)])]
    )
    call = lambda suffix="": f"{kind}{suffix}(t, {', '.join(args)})"
    keys = rng.choice(KEYS)
    bounds = rng.choice([[call("_START")], [call("_END")], [call("_START"), call("_END")], [call("_START"), call("_ROWTIME")]])
    items = without_distinct_sums([*bounds, *keys, *aggregates(rng)])
    where = f" WHERE {rng.choice(WHERES)}" if rng.random() < 0.2 else ""
    return f"{select(items)} FROM {any_stream(rng)}{where} GROUP BY {', '.join([*keys, call()])}"


def cascade(rng: random.Random) -> str:
    keys = rng.choice([[], ["k"], ["k", "g"]])
    size = rng.choice([2, 5])
    inner = f"SELECT {', '.join(['window_time AS wt', *keys, 'COUNT(*) AS n', 'SUM(x) AS x'])} FROM TABLE(TUMBLE(TABLE {any_stream(rng)}, DESCRIPTOR(t), {seconds(size)})) GROUP BY {', '.join(['window_start', 'window_end', 'window_time', *keys])}"
    kept = rng.sample(keys, rng.randint(0, len(keys)))
    outer = rng.choice([f"TUMBLE(TABLE inside, DESCRIPTOR(wt), {seconds(size * 4)})", f"HOP(TABLE inside, DESCRIPTOR(wt), {seconds(size)}, {seconds(size * 2)})", f"CUMULATE(TABLE inside, DESCRIPTOR(wt), {seconds(size)}, {seconds(size * 3)})"])
    items = ["window_start", "window_end", *kept, *rng.sample(["SUM(n)", "MAX(n)", "COUNT(*)", "MIN(x)", "AVG(n)"], 2)]
    return f"{select(items)} FROM (WITH inside AS ({inner}) SELECT * FROM TABLE({outer})) GROUP BY {', '.join(['window_start', 'window_end', *kept])}"


def regrouped(rng: random.Random) -> str:
    """A windowed result grouped by its window again."""
    keys = ["k", "g"]
    inner = f"SELECT window_start AS ws, window_end AS we, k, g, COUNT(*) AS n, SUM(l) AS l FROM TABLE({window(rng, any_stream(rng), offsets=False)}) GROUP BY window_start, window_end, k, g"
    kept = rng.sample(keys, rng.randint(0, 1))
    items = ["ws", "we", *kept, *rng.sample(["SUM(n)", "MAX(n)", "COUNT(*)", "COUNT(DISTINCT g)", "MIN(l)"], 2)]
    return f"{select(items)} FROM ({inner}) GROUP BY {', '.join(['ws', 'we', *kept])}"


def top_n(rng: random.Random) -> str:
    keys = rng.choice([[], ["k"], ["g"]])
    order = rng.choice(["n DESC", "n", "x DESC, id", "d", "s, id DESC", "t DESC", "b, n", "l DESC"])
    limit = rng.choice([1, 2, 3])
    number = ["place"] if rng.random() < 0.5 else []
    partition = ", ".join(["window_start", "window_end", *keys])
    where = f" WHERE {rng.choice(WHERES)}" if rng.random() < 0.15 else ""
    items = ["window_end", *keys, "id", order.split(" ")[0].rstrip(","), *number]
    return (
        f"{select(items)} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {partition} ORDER BY {order}) AS place "
        f"FROM TABLE({window(rng, any_stream(rng))}){where}) WHERE place <= {limit}"
    )


def top_n_of_groups(rng: random.Random) -> str:
    measure = rng.choice(["COUNT(*)", "SUM(n)", "MAX(d)"])
    inner = f"SELECT window_start, window_end, k, g, {measure} AS m FROM TABLE({window(rng, any_stream(rng), offsets=False)}) GROUP BY window_start, window_end, k, g"
    # What ties is told apart by the keys: the order of arrival behind an aggregation is chance.
    return (
        f"{select(['window_start', 'window_end', 'k', 'g', 'm', 'place'])} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
        f"ORDER BY m {rng.choice(['DESC', 'ASC'])}, g, k) AS place FROM ({inner})) WHERE place <= {rng.choice([1, 2, 4])}"
    )


def deduplication(rng: random.Random) -> str:
    keys = rng.choice([["k"], ["g"], ["k", "b"], ["s"]])
    return (
        f"{select(['window_end', *keys, 'id', 't'])} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {', '.join(['window_start', 'window_end', *keys])} "
        f"ORDER BY t {rng.choice(['ASC', 'DESC'])}) AS place FROM TABLE({window(rng, any_stream(rng), offsets=False)})) WHERE place = 1"
    )


def window_join(rng: random.Random) -> str:
    left, right = rng.sample(PUNCTUAL, 2)
    kind = rng.choice("THC")
    # The same window on both sides.
    same = rng.getrandbits(30)
    windowed = [window(random.Random(same), table, kinds=kind, offsets=False) for table in (left, right)]
    join = rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    keys = rng.choice([["k"], ["k"], ["g"], ["k", "g"], ["k", "b"]])
    on = " AND ".join(["a.window_start = z.window_start", "a.window_end = z.window_end", *(f"a.{key} = z.{key}" for key in keys)])
    if rng.random() < 0.35:
        on += f" AND {rng.choice(['a.n > z.n', 'a.id <> z.id', 'a.x IS NOT NULL', 'a.d <= z.d'])}"
    items = ["COALESCE(a.window_start, z.window_start)", "a.window_end", "a.k", "a.id", "z.id", "z.k"]
    return f"{select(items)} FROM (SELECT * FROM TABLE({windowed[0]})) a {join} (SELECT * FROM TABLE({windowed[1]})) z ON {on}"


def join_of_aggregates(rng: random.Random) -> str:
    """What is late is so for the aggregates, on either side for itself."""
    same = rng.getrandbits(30)
    sides = []
    for table in rng.sample(list(STREAMS), 2):
        windowed = window(random.Random(same), table, offsets=False)
        sides.append(f"(SELECT window_start, window_end, k, COUNT(*) AS n, SUM(x) AS x FROM TABLE({windowed}) GROUP BY window_start, window_end, k)")
    join = rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    items = ["COALESCE(a.window_end, z.window_end)", "a.k", "z.k", "a.n", "z.n", "a.x + z.x"]
    return f"{select(items)} FROM {sides[0]} a {join} {sides[1]} z ON a.window_start = z.window_start AND a.window_end = z.window_end AND a.k = z.k"


def interval_join(rng: random.Random) -> str:
    left, right = rng.sample(PUNCTUAL, 2)
    join = rng.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    key = rng.choice(["a.k = z.k", "a.k = z.k", "a.g = z.g", "a.k = z.k AND a.g = z.g"])
    low, high = rng.choice([(3, 0), (0, 4), (2, 2), (10, -4), (-1, 5), (0, 0), (-5, 2)])
    time = f"a.t BETWEEN z.t - {seconds(low)} AND z.t + {seconds(high)}"
    if rng.random() < 0.3:
        time = f"a.t >= z.t - {seconds(low)} AND a.t < z.t + {seconds(high)}"
    more = f" AND {rng.choice(['a.n > z.n', 'a.id <> z.id', 'a.x + z.x > 1', 'a.b'])}" if rng.random() < 0.3 else ""
    return f"{select(['a.id', 'a.t', 'a.k', 'z.id', 'z.t', 'z.n'])} FROM {left} a {join} {right} z ON {key} AND {time}{more}"


def union(rng: random.Random) -> str:
    left, right = rng.sample(PUNCTUAL, 2)
    both = f"SELECT id, t, k, g, n, l, x, d, s, b FROM {left} WHERE {rng.choice(WHERES)} UNION ALL SELECT id, t, k, g, n, l, x, d, s, b FROM {right}"
    keys = rng.choice(KEYS)
    items = without_distinct_sums(["window_start", "window_end", *keys, *aggregates(rng)])
    windowed = window(rng, "both_streams")
    return f"{select(items)} FROM (WITH both_streams AS ({both}) SELECT * FROM TABLE({windowed})) GROUP BY {', '.join(['window_start', 'window_end', *keys])}"


def distinct(rng: random.Random) -> str:
    columns = ["window_start", "window_end", *rng.choice([["k"], ["k", "g"], ["b"]])]
    return f"SELECT DISTINCT {', '.join(f'{column} AS c{at}' for at, column in enumerate(columns))} FROM TABLE({window(rng, any_stream(rng), offsets=False)})"


def windowed_rows(rng: random.Random) -> str:
    """Each row with its windows, nothing put together."""
    where = f" WHERE {rng.choice(WHERES)}" if rng.random() < 0.4 else ""
    return f"{select(['window_start', 'window_end', 'window_time', 'id', 'k', 'x'])} FROM TABLE({window(rng, any_stream(rng))}){where}"


def over(rng: random.Random, calls: list[str] = OVERS) -> str:
    keys = rng.choice(KEYS)
    partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
    frame = rng.choice(
        [
            "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", "ROWS BETWEEN 4 PRECEDING AND CURRENT ROW", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            f"RANGE BETWEEN {seconds(3)} PRECEDING AND CURRENT ROW", f"RANGE BETWEEN {seconds(15)} PRECEDING AND CURRENT ROW",
            "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "",
        ]
    )  # fmt: skip
    window = f"({partition}ORDER BY t {frame}".rstrip() + ")"
    calls = rng.sample(calls, rng.randint(1, 3))
    where = f" WHERE {rng.choice(WHERES)}" if rng.random() < 0.2 else ""
    if rng.random() < 0.5:
        return f"{select(['id', *keys, *(f'{call} OVER w' for call in calls)])} FROM {any_stream(rng)}{where} WINDOW w AS {window}"
    return f"{select(['id', *keys, *(f'{call} OVER {window}' for call in calls)])} FROM {any_stream(rng)}{where}"


def over_ends(rng: random.Random) -> str:
    return over(rng, ["FIRST_VALUE(n)", "LAST_VALUE(n)", "FIRST_VALUE(s)", "LAST_VALUE(s)", "FIRST_VALUE(l)", "LAST_VALUE(d)", "LAST_VALUE(b)", "FIRST_VALUE(t)", "COUNT(n)"])


def numbered(rng: random.Random) -> str:
    """Rows of a key counted as they come, and a window over what OVER gives."""
    keys = rng.choice([["k"], ["g"], ["k", "g"]])
    inner = f"SELECT id, t, k, g, SUM(n) OVER (PARTITION BY {', '.join(keys)} ORDER BY t ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS m FROM {rng.choice(PUNCTUAL)}"
    items = ["window_start", "window_end", *keys, *rng.sample(["MAX(m)", "MIN(m)", "SUM(m)", "COUNT(*)"], 2)]
    return f"{select(items)} FROM (WITH inside AS ({inner}) SELECT * FROM TABLE(TUMBLE(TABLE inside, DESCRIPTOR(t), {seconds(10)}))) GROUP BY {', '.join(['window_start', 'window_end', *keys])}"


def ordered_aggregate(rng: random.Random) -> str:
    keys = rng.choice(KEYS)
    items = ["window_start", "window_end", *keys, *rng.sample(ORDERED, rng.randint(1, 3))]
    windowed = window(rng, any_stream(rng), kinds="T", offsets=False)
    return f"{select(items)} FROM TABLE({windowed}) GROUP BY {', '.join(['window_start', 'window_end', *keys])}"


def unnested(rng: random.Random) -> str:
    table = rng.choice(PUNCTUAL)
    value, columns, items = rng.choice(
        [
            ("ARRAY[n, g, CAST(NULL AS INT)]", "u (x)", ["u.x"]), ("ARRAY[s, k]", "u (x)", ["u.x"]), ("ARRAY[ROW(n, s), ROW(g, k)]", "u (x, y)", ["u.x", "u.y"]),
            ("MAP['n', n, 'g', g]", "u (x, y)", ["u.x", "u.y"]), ("CASE WHEN b THEN ARRAY[n] END", "u (x)", ["u.x"]),
            ("ARRAY_REMOVE(ARRAY[g, 1, 2], g)", "u (x)", ["u.x"]),
        ]
    )  # fmt: skip
    join = rng.choice(["CROSS JOIN UNNEST(r.v) AS {}", "LEFT JOIN UNNEST(r.v) AS {} ON TRUE"]).format(columns)
    where = rng.choice(["", "", f" WHERE {items[0]} IS NOT NULL", f" WHERE {items[-1]} IS NULL"])
    inner = f"SELECT id, t, k, {value} AS v FROM {table}"
    return f"{select(['r.id', 'r.k', *items])} FROM ({inner}) r {join}{where}"


def nested(rng: random.Random) -> str:
    """Rows, arrays and maps, NULL among them, filtered by, as keys, counted, ranked, joined by and carried along."""
    table = rng.choice(PUNCTUAL)
    inside = (
        "SELECT id, t, k, g, n, CASE WHEN b IS NOT NULL THEN CAST(ROW(k, g) AS ROW<y STRING, x INT>) END AS r, "
        f"CASE WHEN n > 0 THEN ARRAY[g, n] END AS a, MAP['g', g, 'n', n] AS m FROM {table}"
    )
    keys = rng.choice([["r"], ["r"], ["a"], ["k", "r"], ["r.y"], ["a[1]"], ["m['n']"], []])
    where = rng.choice(["", "", " WHERE r IS NOT NULL", " WHERE r.x > 1", " WHERE a[2] > 2 OR r.y = 'a'", " WHERE CARDINALITY(a) = 2", " WHERE m['n'] IS NULL"])
    windowed = f"TUMBLE(TABLE inside, DESCRIPTOR(t), {seconds(rng.choice([5, 10]))})"
    match rng.choice(["rows", "group", "group", "group", "rank", "over", "join", "distinct"]):
        case "rows":
            items = rng.sample(["r", "a", "m", "r.x", "r.y", "a[1]", "m['g']", "r.x + a[2]", "r IS NULL", "ROW(r, a)", "ARRAY[r]", "COALESCE(r.y, 'none')"], 3)
            return f"{select(['id', *items])} FROM ({inside}) AS i{where}"
        case "group":
            of = ["COUNT(*)", "COUNT(r)", "COUNT(a)", "COUNT(DISTINCT r.y)", "COUNT(DISTINCT a[2])", "SUM(r.x)", "MAX(r.y)", "MIN(a[2])", "FIRST_VALUE(r)", "LAST_VALUE(a)", "LAST_VALUE(r.x)", "FIRST_VALUE(m)", "ARRAY_AGG(r)", "COUNT(DISTINCT r.x) FILTER (WHERE a IS NOT NULL)"]  # fmt: skip
            items = ["window_end", *keys, *rng.sample(of, rng.randint(1, 3))]
            return f"{select(items)} FROM (WITH inside AS ({inside}) SELECT * FROM TABLE({windowed})){where} GROUP BY {', '.join(['window_start', 'window_end', *keys])}"
        case "rank":
            order = rng.choice(["r.x DESC, id", "a[2], id", "t", "t DESC"])
            partition = ", ".join(["window_start", "window_end", *keys])
            return (
                f"{select(['window_end', 'id', 'r', 'a', 'm', 'place'])} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {partition} ORDER BY {order}) AS place "
                f"FROM (WITH inside AS ({inside}) SELECT * FROM TABLE({windowed}))) WHERE place <= {1 if order.startswith('t') else 2}"
            )
        case "over":
            by = f"PARTITION BY {', '.join(keys)} " if keys else ""
            frame = rng.choice(["ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", f"RANGE BETWEEN {seconds(5)} PRECEDING AND CURRENT ROW", ""])
            calls = rng.sample(["COUNT(r)", "COUNT(DISTINCT r.y)", "SUM(r.x)", "MAX(r.y)", "COUNT(a)", "LAST_VALUE(r)", "FIRST_VALUE(a)"], 2)
            over = f"OVER ({by}ORDER BY t {frame}".rstrip() + ")"
            return f"{select(['id', 'r', *(f'{call} {over}' for call in calls)])} FROM ({inside}) AS i{where}"
        case "join":
            on = rng.choice(["p.r = z.r", "p.r.x = z.r.x AND p.r.y = z.r.y", "p.a = z.a", "p.k = z.k"])
            join = rng.choice(["JOIN", "LEFT JOIN", "FULL JOIN"])
            other = inside.replace(f"FROM {table}", f"FROM {rng.choice([name for name in PUNCTUAL if name != table])}")
            time = f"p.t BETWEEN z.t - {seconds(2)} AND z.t + {seconds(2)}"
            return f"{select(['p.id', 'p.r', 'z.id', 'z.a', 'z.m', 'z.r.y'])} FROM ({inside}) AS p {join} ({other}) AS z ON {on} AND {time}"
        case _:
            return f"SELECT DISTINCT window_start AS c0, window_end AS c1, {rng.choice(['r', 'a', 'r.y'])} AS c2 FROM (WITH inside AS ({inside}) SELECT * FROM TABLE({windowed})){where}"


def lookup(rng: random.Random) -> str:
    join = rng.choice(["JOIN", "LEFT JOIN"])
    on = rng.choice(["a.k = z.k", "a.k = z.k AND a.g = z.g", "a.g = z.g", "a.k = z.k AND z.g = 1", "a.k = z.k AND a.n > z.g", "a.k = z.k AND z.worth > 1"])
    where = rng.choice(["", "", " WHERE z.name IS NOT NULL", " WHERE a.n > 2", " WHERE z.worth IS NULL"])
    return (
        f"{select(['a.id', 'a.k', 'z.name', 'z.worth', rng.choice(['z.g', 'a.n + z.g', 'UPPER(z.name)'])])} "
        f"FROM (SELECT id, k, g, n, PROCTIME() AS p FROM {any_stream(rng)}) a {join} names FOR SYSTEM_TIME AS OF a.p AS z ON {on}{where}"
    )


def watermark(rng: random.Random) -> str:
    return f"{select(['id', 't', 'CURRENT_WATERMARK(t)'])} FROM {any_stream(rng)}{rng.choice(['', ' WHERE n > 3'])}"


def where_from(rng: random.Random) -> str:
    return f"{select(rng.sample(['id', 'name', 'size', 'id + size'], 3))} FROM filed WHERE {rng.choice(['id > 30', 'MOD(id, 7) = 0', 'CHAR_LENGTH(name) = id'])}"


def bounded(rng: random.Random) -> str:
    """Columns as texts, as nothing can be put around it."""
    items = [f"CAST({column} AS STRING)" for column in rng.sample(["id", "k", "n", "x", "d", "s", "b", "t"], 3)]
    order = rng.choice(["n, id", "x DESC, id", "k DESC, id DESC", "s NULLS LAST, id", "d NULLS FIRST, id", "t DESC, id", "b, l DESC, id"])
    offset = rng.choice(["", "", f" OFFSET {rng.choice([1, 5])} ROWS"])
    where = f" WHERE {rng.choice(WHERES)}" if rng.random() < 0.3 else ""
    return f"{select(items)} FROM {any_stream(rng)}{where} ORDER BY {order}{offset} FETCH NEXT {rng.choice([1, 4, 9])} ROWS ONLY"


def is_bounded(query: str) -> bool:
    """Whether Flink is asked in its batch mode: in the other one an outer join and a limit take back what they said."""
    return "FOR SYSTEM_TIME" in query or "ROWS ONLY" in query


def in_flink(query: str) -> str:
    """Its files cannot be looked up in; a table that does not change can as well be joined."""
    return re.sub(r" FOR SYSTEM_TIME AS OF \w+\.\w+", "", query)


TEMPLATES = [
    (windowed_aggregate, 140), (filtered_aggregate, 50), (session_aggregate, 45), (legacy_window, 40), (cascade, 25), (regrouped, 20),
    (top_n, 35), (top_n_of_groups, 12), (deduplication, 20), (window_join, 45), (join_of_aggregates, 20), (interval_join, 50),
    (union, 12), (distinct, 6), (windowed_rows, 10), (over, 80), (numbered, 10), (ordered_aggregate, 30), (unnested, 30), (lookup, 30),
    (watermark, 10), (where_from, 4), (bounded, 20), (nested, 90), (over_ends, 30),
]  # fmt: skip


def queries(seed: int) -> list[str]:
    found: dict[str, None] = {}
    for template, count in TEMPLATES:
        # A generator for each, so that a new template leaves the cases of all others as they are.
        rng = random.Random(f"{seed} {template.__name__}")
        made: dict[str, None] = {}
        for _ in range(count * 4):
            made[template(rng)] = None
            if len(made) == count:
                break
        found.update(made)
    return list(found)
