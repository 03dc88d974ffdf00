"""The SQL of the race: Nexmark's events in a topic, its queries, and many small ones beside heavy ones. One file for both engines."""

import os
import re
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/nexmark"
SERVER = f"127.0.0.1:{os.environ.get('KAFKA_PORT', '19292')}"
# Of the watermark behind the newest event, as in Nexmark.
DELAY_MS = 4_000
# What Flink's documentation advises for latency.
TUNED = ("SET 'execution.buffer-timeout.interval' = '5 ms';\nSET 'pipeline.auto-watermark-interval' = '10 ms';\n")
ALWAYS = "SET 'pipeline.object-reuse' = 'true';\nSET 'table.local-time-zone' = 'UTC';\n"

# Each query with the time at which its results are due as the first column; whether the watermark has to pass it.
LATENCY = {
    "q0": ("SELECT `dateTime`, auction, bidder, price, extra FROM bid", False),
    "q1": ("SELECT `dateTime`, auction, bidder, 0.908 * price, extra FROM bid", False),
    "q2": ("SELECT `dateTime`, auction, price FROM bid WHERE MOD(auction, 123) = 0", False),
    "q5": ("""
SELECT counted.endtime, counted.auction, counted.num
FROM (
  SELECT auction, COUNT(*) AS num, window_start AS starttime, window_end AS endtime
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
  GROUP BY auction, window_start, window_end
) counted
JOIN (
  SELECT MAX(each_one.num) AS maxn, each_one.starttime, each_one.endtime
  FROM (
    SELECT COUNT(*) AS num, window_start AS starttime, window_end AS endtime
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end
  ) each_one
  GROUP BY each_one.starttime, each_one.endtime
) most
ON counted.starttime = most.starttime AND counted.endtime = most.endtime AND counted.num >= most.maxn""", True),
    "q7": ("""
SELECT highest.ends, b.auction, b.bidder, b.price
FROM bid b
JOIN (
  SELECT MAX(price) AS maxprice, window_time AS closed, window_end AS ends
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND))
  GROUP BY window_start, window_end, window_time
) highest
ON b.price = highest.maxprice AND b.`dateTime` BETWEEN highest.closed - INTERVAL '1.999' SECOND AND highest.closed""", True),
    "q8": ("""
SELECT came.endtime, came.id, came.name
FROM (
  SELECT id, name, window_start AS starttime, window_end AS endtime
  FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND))
  GROUP BY id, name, window_start, window_end
) came
JOIN (
  SELECT seller, window_start AS starttime, window_end AS endtime
  FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND))
  GROUP BY seller, window_start, window_end
) sold
ON came.id = sold.seller AND came.starttime = sold.starttime AND came.endtime = sold.endtime""", True),
    "q11": ("""
SELECT window_end, bidder, COUNT(*)
FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND))
GROUP BY bidder, window_start, window_end""", True),
    "join": ("""
SELECT GREATEST(a.`dateTime`, b.`dateTime`), a.id, b.bidder, b.price
FROM auction a JOIN bid b
ON a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.`dateTime` + INTERVAL '5' SECOND""", False),
}
# The same as the official text or, for the join, as above; what comes out is thrown away.
COST = {name: (EXAMPLES / f"{name}.sql").read_text() if name != "join" else
        f"CREATE TABLE joined (due TIMESTAMP(3), id BIGINT, bidder BIGINT, price BIGINT) WITH ('connector' = 'blackhole');\n"
        f"INSERT INTO joined{LATENCY['join'][0]};\n" for name in LATENCY}


def events(topic: str, format: str, bounded: bool) -> str:
    """Nexmark's tables, read from a topic."""
    options = {"connector": "kafka", "topic": topic, "properties.bootstrap.servers": SERVER,
               "scan.startup.mode": "earliest-offset", "format": format}
    if bounded:
        options["scan.bounded.mode"] = "latest-offset"
    return re.sub(r"WITH \('connector' = 'nexmark'.*?\)", f"WITH ({listed(options)})", (EXAMPLES / "tables.sql").read_text())


def load(topic: str, format: str, rate: int, count: int, live: bool) -> str:
    """Makes the events: `rate` a second of event time, and if `live` of the clock. Nobody waits for the broker's word, and
    records of 2 ms share a batch of both partitions: it costs a third of the CPU, and leaves the machine to the engines.

    >>> "'rate.limited' = 'true'" in load("t", "json", 1000, 0, True)
    True
    """
    made = {"connector": "nexmark", "first-event.rate": rate, "events.num": count, "rate.limited": str(live).lower()}
    if not live:
        made["laxity.nexmark.base-time"] = "2024-01-01 00:00:00"
    tables = (EXAMPLES / "tables.sql").read_text()
    columns = re.search(r"CREATE TABLE datagen \((.*?),\s+`dateTime` AS", tables, re.S)[1]
    sending = {"sink.delivery-guarantee": "none", "properties.linger.ms": 2, "properties.sticky.partitioning.linger.ms": 0} if live else {}
    source = re.sub(r"WITH \('connector' = 'nexmark'.*?\)", f"WITH ({listed(made)})", tables.split("CREATE VIEW")[0])
    sink = {"connector": "kafka", "topic": topic, "properties.bootstrap.servers": SERVER, "format": format, **sending}
    return (f"{source}SET 'laxity.latency.target' = '5 ms';\n"
            f"CREATE TABLE sent ({columns}) WITH ({listed(sink)});\n"
            "INSERT INTO sent SELECT event_type, person, auction, bid FROM datagen;\n")


def listed(options: dict) -> str:
    """
    >>> listed({"a": 1, "b": "x"})
    "'a' = '1', 'b' = 'x'"
    """
    return ", ".join(f"'{key}' = '{value}'" for key, value in options.items())


def results(topic: str, columns: str, name: str = "results") -> str:
    """A result is sent when it is there: Kafka's own client, which Flink has, would wait for others for 5 ms."""
    options = {"connector": "kafka", "topic": topic, "properties.bootstrap.servers": SERVER, "format": "json", "properties.linger.ms": 0}
    return f"CREATE TABLE {name} ({columns}) WITH ({listed(options)});\n"


COLUMNS = {
    "q0": "auction BIGINT, bidder BIGINT, price BIGINT, extra STRING",
    "q1": "auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), extra STRING",
    "q2": "auction BIGINT, price BIGINT",
    "q5": "auction BIGINT, num BIGINT",
    "q7": "auction BIGINT, bidder BIGINT, price BIGINT",
    "q8": "id BIGINT, name STRING",
    "q11": "bidder BIGINT, bid_count BIGINT",
    "join": "id BIGINT, bidder BIGINT, price BIGINT",
}


def one(query: str, topic_in: str, topic_out: str, format: str) -> str:
    """A query alone, its results in a topic."""
    select, _ = LATENCY[query]
    return (events(topic_in, format, bounded=False) + results(topic_out, f"due TIMESTAMP(3), {COLUMNS[query]}")
            + f"SET 'pipeline.name' = '{query}';\nSET 'laxity.latency.target' = '50 ms';\nINSERT INTO results{' ' if select[0] != chr(10) else ''}{select};\n")


def urgent(number: int, of: int) -> str:
    return ("INSERT INTO results SELECT window_end, "
            f"{number}, COUNT(*), SUM(price) FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '1' SECOND)) "
            f"WHERE MOD(auction, {of}) = {number} GROUP BY window_start, window_end;\n")


HEAVY = [("auction", "bidder", 500), ("bidder", "auction", 2_000), ("auction, channel", "bidder", 50), ("bidder, channel", "auction", 200)]


def heavy(number: int) -> str:
    """How many bidders each auction had of late, or auctions each bidder, of all; only the large ones come out."""
    key, of, least = HEAVY[number % len(HEAVY)]
    return (f"INSERT INTO heavy SELECT window_end, {number}, COUNT(*), COUNT(DISTINCT {of}) "
            "FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '0.2' SECOND, INTERVAL '10' SECOND)) "
            f"GROUP BY {key}, window_start, window_end HAVING COUNT(*) > {least + number};\n")


def many(urgents: int, heavies: int, topic_in: str, topic_out: str, topic_heavy: str, one_job: bool) -> str:
    """Urgent queries of a second each beside heavy ones over the same events. `one_job`: a STATEMENT SET, which Flink runs as
    one job that reads once, its best form; a job has one name and no targets.

    >>> many(2, 1, "i", "o", "h", False).count("pipeline.name")
    3
    >>> many(2, 1, "i", "o", "h", True).count("pipeline.name")
    0
    """
    tables = events(topic_in, "json", bounded=False) + results(topic_out, "due TIMESTAMP(3), q INT, number BIGINT, price BIGINT")
    if heavies:
        tables += results(topic_heavy, "due TIMESTAMP(3), q INT, bids BIGINT, others BIGINT", "heavy")
    inserts = [(f"urgent {number}", "50 ms", urgent(number, urgents)) for number in range(urgents)]
    inserts += [(f"heavy {number}", "10 s", heavy(number)) for number in range(heavies)]
    if one_job:
        return tables + "EXECUTE STATEMENT SET BEGIN\n" + "".join(text for _, _, text in inserts) + "END;\n"
    return tables + "".join(f"SET 'pipeline.name' = '{name}';\nSET 'laxity.latency.target' = '{target}';\n{text}" for name, target, text in inserts)


def read(topic: str, file: Path) -> str:
    """When each result was due, of which query it is, and when the broker had it, as CSV."""
    return listing(topic, "json", file, "due TIMESTAMP(3), q INT", "due", "q")


def read_load(topic: str, format: str, file: Path) -> str:
    """The same of each event, of its partition."""
    tables = (EXAMPLES / "tables.sql").read_text()
    columns = re.search(r"CREATE TABLE datagen \((.*?),\s+`dateTime` AS", tables, re.S)[1]
    due = "CASE event_type WHEN 0 THEN person.`dateTime` WHEN 1 THEN auction.`dateTime` ELSE bid.`dateTime` END"
    return listing(topic, format, file, f"{columns}, number INT METADATA FROM 'partition'", due, "number")


def listing(topic: str, format: str, file: Path, columns: str, due: str, of: str) -> str:
    options = {"connector": "kafka", "topic": topic, "properties.bootstrap.servers": SERVER, "format": format,
               "scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset"}
    ms = "CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', {0}) AS BIGINT) * 1000 + EXTRACT(MILLISECOND FROM {0})"
    return (f"CREATE TABLE records ({columns}, appended TIMESTAMP_LTZ(3) METADATA FROM 'timestamp') WITH ({listed(options)});\n"
            f"CREATE TABLE out_file (due BIGINT, q INT, appended BIGINT) WITH ('connector' = 'filesystem', 'path' = '{file}', 'format' = 'csv');\n"
            f"INSERT INTO out_file SELECT {ms.format('due')}, q, {ms.format('appended')} FROM (SELECT {due} AS due, {of} AS q, "
            "CAST(appended AS TIMESTAMP(3)) AS appended FROM records);\n")
