#!/usr/bin/env python3
"""Tables in Kafka on a real broker: rows that go out come in again, whatever the format, the place to begin and the
columns; what is wrong is said; a broker that is killed, and partitions that are added, lose nothing; exactly once through
kills of the program; certificates and passwords.

Cannot catch: several brokers, and what SASL has besides passwords.
"""

import base64
import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LAXITY = sys.argv[1]
SERVER = f"127.0.0.1:{os.environ['KAFKA_PORT']}"
WORK = Path(tempfile.mkdtemp(prefix="laxity-kafka-"))
STARTED = []
# Of the program, and of the broker, in the tests of exactly-once; as many as take half a minute if it is not said.
KILLS = int(os.environ.get("KILLS") or 0)


def kafka(*words):
    subprocess.run([ROOT / "scripts/kafka.sh", *words], check=True, stdout=subprocess.DEVNULL, timeout=240)


def topic(name, partitions=1):
    kafka("topic", "--create", "--topic", name, "--partitions", str(partitions))
    return name


def table(name, columns, of_topic, *options):
    """A table in a topic; JSON unless the options say otherwise."""
    given = {"connector": "kafka", "topic": of_topic, "properties.bootstrap.servers": SERVER, "format": "json"}
    given |= dict(options)
    given = {key: value for key, value in given.items() if value is not None}
    text = ",\n  ".join(f"'{key}' = '{value}'" for key, value in given.items())
    return f"CREATE TABLE {name} ({columns}) WITH (\n  {text});\n"


def file(name, columns, path):
    options = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv'"
    return f"CREATE TABLE {name} ({columns}) WITH ({options});\n"


EARLIEST = ("scan.startup.mode", "earliest-offset")
BOUNDED = ("scan.bounded.mode", "latest-offset")


def start(sql, *args):
    path = WORK / f"q{len(STARTED)}.sql"
    path.write_text(sql)
    log = open(path.with_suffix(".log"), "wb")
    process = subprocess.Popen([LAXITY, "run", "--plain", path, *args], stdout=log, stderr=subprocess.STDOUT, cwd=WORK)
    process.log = path.with_suffix(".log")
    STARTED.append(process)
    return process


def ended(process, timeout=40, code=0):
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        fail(f"not done after {timeout} s", process)
    if process.returncode != code:
        fail(f"ended with {process.returncode}, not with {code}", process)
    return process.log.read_text(errors="replace")


def run(sql, *args, code=0, timeout=40):
    return ended(start(sql, *args), timeout, code)


def fail(why, process=None):
    if process:
        print(process.log.read_text(errors="replace")[-4000:], file=sys.stderr)
    raise AssertionError(why)


def rows(path):
    path = WORK / path
    return list(csv.reader(path.open())) if path.exists() else []


def wait_for(condition, what, process, timeout=25):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if condition():
            return
        if process.poll() is not None:
            fail(f"ended before {what}", process)
        time.sleep(0.1)
    fail(f"no {what} after {timeout} s", process)


def same(found, expected):
    if found != expected:
        fail(f"\nfound    {found[:8]} … {len(found)}\nexpected {expected[:8]} … {len(expected)}")


def write_csv(path, lines):
    (WORK / path).write_text("".join(",".join(map(str, line)) + "\n" for line in lines))


def put(of_topic, columns, lines, *options):
    """Writes rows to a topic by Laxity."""
    write_csv("in.csv", lines)
    names = [column.split()[0] for column in columns.split(", ")]
    sql = file("rows_in", columns, "in.csv") + table("rows_out", columns, of_topic, *options)
    run(sql + f"INSERT INTO rows_out SELECT {', '.join(names)} FROM rows_in;")


def get(of_topic, columns, *options, select="*", declare=None):
    """Reads what is in a topic now."""
    (WORK / "out.csv").unlink(missing_ok=True)
    sql = table("rows_in", columns, of_topic, EARLIEST, BOUNDED, *options)
    sql += file("rows_out", declare or columns, "out.csv")
    log = run(sql + f"INSERT INTO rows_out SELECT {select} FROM rows_in;")
    return rows("out.csv"), log


def rows_come_back():
    lines = [[n, f"name {n}", n / 4] for n in range(3000)]
    columns = "id BIGINT, name STRING, v DOUBLE"
    t = topic("orders", 3)
    put(t, columns, lines, ("key.fields", "id"), ("key.format", "json"))
    found, _ = get(t, columns)
    same(sorted(found, key=lambda row: int(row[0])), [[str(n), name, f"{v}"] for n, name, v in lines])
    # By the key's hash, to all partitions; a key's place in its partition is its order.
    found, _ = get(
        t,
        "id BIGINT, name STRING, p INT METADATA FROM 'partition', o BIGINT METADATA FROM 'offset', "
        "top STRING METADATA FROM 'topic', ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', "
        "kind STRING METADATA FROM 'timestamp-type', k BYTES METADATA FROM 'key', epoch INT METADATA FROM 'leader-epoch'",
        select="id, p, o, top, kind, CAST(k AS STRING), epoch",
        declare="id BIGINT, p INT, o BIGINT, top STRING, kind STRING, k STRING, epoch INT",
    )
    same(len(found), 3000)
    assert {row[1] for row in found} == {"0", "1", "2"}, "all partitions are written"
    for partition in "012":
        offsets = [int(row[2]) for row in found if row[1] == partition]
        same(offsets, list(range(len(offsets))))
    assert all(row[3:5] == ["orders", "CreateTime"] for row in found)
    same([row[5] for row in found], ['{"id":%s}' % row[0] for row in found])
    assert all(row[6].isdigit() for row in found), "every partition has a leader"


def keys_headers_and_times():
    t = topic("keyed")
    columns = "k STRING, v STRING"
    write_csv("in.csv", [["a", "x"], ["b", "y"]])
    written = columns + ", h MAP<STRING, BYTES> METADATA FROM 'headers', ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'"
    options = [("key.fields", "k"), ("key.format", "raw"), ("value.fields-include", "EXCEPT_KEY")]
    run(
        file("rows_in", columns, "in.csv")
        + table("t", written, t, *options)
        + "INSERT INTO t SELECT k, v, MAP['who', CAST(k AS BYTES)], TO_TIMESTAMP_LTZ(1700000000000, 3) FROM rows_in;"
    )
    found, _ = get(
        t,
        written,
        *options,
        select="k, v, CAST(h['who'] AS STRING), ts",
        declare="k STRING, v STRING, h STRING, ts TIMESTAMP_LTZ(3)",
    )
    same(found, [["a", "x", "a", "2023-11-14 22:13:20Z"], ["b", "y", "b", "2023-11-14 22:13:20Z"]])
    # The key is not in the value.
    found, _ = get(t, "v STRING", ("format", "raw"))
    same(found, [['{"v":"x"}'], ['{"v":"y"}']])


def formats_are_read_as_they_are_written():
    lines = [[n, f"a;b {n}"] for n in range(200)]
    columns = "id BIGINT, name STRING"
    for kind, options in {"csv": [("csv.field-delimiter", ";")], "json": [], "avro": []}.items():
        t = topic(f"format-{kind}")
        put(t, columns, lines, ("format", kind), *options)
        found, _ = get(t, columns, ("format", kind), *options)
        same(found, [[str(n), name] for n, name in lines])
    t = topic("format-raw")
    put(t, "v BIGINT", [[n] for n in range(10)], ("format", "raw"))
    found, _ = get(t, "v BIGINT", ("format", "raw"))
    same(found, [[str(n)] for n in range(10)])


def messages_of_protobuf():
    (WORK / "sale.proto").write_text(
        'syntax = "proto3"; package shop; enum Kind { NONE = 0; SALE = 1; }\n'
        "message Sale { int64 id = 1; string name = 2; Kind kind = 3; repeated sint32 parts = 4; optional double v = 5; }\n"
    )
    t = topic("protobuf")
    protobuf = [("format", "protobuf"), ("protobuf.descriptor", "sale.proto"), ("protobuf.message-class-name", "shop.Sale")]
    written = "id BIGINT, name STRING, kind STRING, parts ARRAY<INT>, v DOUBLE"
    write_csv("in.csv", [[n, f"name {n}", n / 2] for n in range(500)])
    run(
        file("i", "id BIGINT, name STRING, v DOUBLE", "in.csv")
        + table("o", written, t, *protobuf)
        + "INSERT INTO o SELECT id, name, 'SALE', ARRAY[CAST(id AS INT), -1], CASE WHEN id > 1 THEN v END FROM i;"
    )
    found, _ = get(
        t, written, *protobuf, select="id, name, kind, parts[1], parts[2], v",
        declare="id BIGINT, name STRING, kind STRING, p INT, q INT, v DOUBLE",
    )
    same(found, [[str(n), f"name {n}", "SALE", str(n), "-1", "" if n < 2 else str(n / 2)] for n in range(500)])
    # id 1, name "name 1", kind SALE, parts 1 and -1 zigzag, no v.
    found, _ = get(t, "v BYTES", ("format", "raw"), select="v", declare="v BYTES")
    same(base64.b64decode(found[1][0]), b"\x08\x01\x12\x06name 1\x18\x01\x22\x02\x02\x01")
    said = run(table("i", "id STRING", t, EARLIEST, BOUNDED, *protobuf) + "SELECT id FROM i;", code=2)
    assert "column 'id' is Utf8, and the message's field is int64, which BIGINT holds" in said, said


def registry(word):
    subprocess.run([ROOT / "scripts/registry.sh", word], check=True, stdout=subprocess.DEVNULL, timeout=90)


def schemas_lie_with_a_registry():
    url = f"http://127.0.0.1:{os.environ['REGISTRY_PORT']}/apis/ccompat/v7"
    t = topic("registered")
    of_value, of_key = ("avro-confluent.url", url), ("key.avro-confluent.url", url)
    confluent = [("format", "avro-confluent"), of_value]
    keyed = [*confluent, ("key.fields", "id"), ("key.format", "avro-confluent"), of_key]
    columns = "id BIGINT, name STRING"
    write_csv("in.csv", [[n, f"name {n}"] for n in range(300)])
    sql = file("i", columns, "in.csv") + table("o", columns, t, *keyed) + "INSERT INTO o SELECT id, name FROM i;"
    # It is not there yet.
    writer = start(sql)
    said = "waiting for the schema registry at http://127.0.0.1"
    wait_for(lambda: said in writer.log.read_text(errors="replace"), "wait", writer)
    registry("start")
    assert "answers again" in ended(writer)
    expected = [[str(n), f"name {n}"] for n in range(300)]
    found, _ = get(t, columns, *keyed)
    same(found, expected)

    # The next writer has a column more: its schema is another version, and both are read, by either table.
    more = "id BIGINT, name STRING, v DOUBLE"
    put(t, more, [[n, f"name {n}", n / 2] for n in range(300, 310)], *confluent)
    found, _ = get(t, more, *confluent)
    same(found, [row + [""] for row in expected] + [[str(n), f"name {n}", str(n / 2)] for n in range(300, 310)])
    found, _ = get(t, columns, *confluent)
    same(len(found), 310)

    # A schema that the subject does not take, and one that does not fit the table.
    other = "id STRING, name STRING"
    write_csv("in.csv", [["a", "b"]])
    sql = file("i", other, "in.csv") + table("o", other, t, *confluent) + "INSERT INTO o SELECT id, name FROM i;"
    said = run(sql, code=1)
    assert "subject 'registered-value' does not take" in said, said
    sql = table("t", other, t, EARLIEST, BOUNDED, *confluent) + "SELECT id FROM t;"
    said = run(sql, code=1)
    assert re.search(r"topic 'registered', partition 0, offset 0.*schema \d+ does not fit the table: column 'id'", said), said

    # It does not answer for a while.
    pid = int((Path(os.environ["REGISTRY_DATA"]) / "registry.pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    (WORK / "late.csv").unlink(missing_ok=True)
    sql = table("i", columns, t, EARLIEST, BOUNDED, *confluent) + file("o", columns, "late.csv")
    reader = start(sql + "INSERT INTO o SELECT id, name FROM i;")
    try:
        wait_for(lambda: "waiting for the schema registry" in reader.log.read_text(errors="replace"), "wait", reader)
    finally:
        os.kill(pid, signal.SIGCONT)
    ended(reader)
    same(len(rows("late.csv")), 310)
    registry("stop")


def reading_begins_and_ends_where_it_should():
    t = topic("places")
    put(t, "n BIGINT", [[n] for n in range(10)])
    time.sleep(1.1)
    between = int(time.time() * 1000)
    time.sleep(0.1)
    put(t, "n BIGINT", [[n] for n in range(10, 20)])

    def numbers(*options):
        return [int(row[0]) for row in get(t, "n BIGINT", *options)[0]]

    same(numbers(), list(range(20)))
    specific = [("scan.startup.mode", "specific-offsets"), ("scan.startup.specific-offsets", "partition:0,offset:7")]
    same(numbers(*specific), list(range(7, 20)))
    at = [("scan.startup.mode", "timestamp"), ("scan.startup.timestamp-millis", between)]
    same(numbers(*at), list(range(10, 20)))
    until = [("scan.bounded.mode", "timestamp"), ("scan.bounded.timestamp-millis", between)]
    same(numbers(*until), list(range(10)))
    until = [("scan.bounded.mode", "specific-offsets"), ("scan.bounded.specific-offsets", "partition:0,offset:3")]
    same(numbers(*until), list(range(3)))
    same(numbers(("scan.startup.mode", "latest-offset")), [])
    group = [("scan.startup.mode", "group-offsets"), ("properties.group.id", "nobody")]
    same(numbers(*group, ("properties.auto.offset.reset", "earliest")), list(range(20)))
    sql = table("t", "n BIGINT", t, *group) + "SELECT n FROM t;"
    said = run(sql, code=1)
    assert "the group has committed no offset for partition 0" in said, said
    pattern = [("topic", None), ("topic-pattern", "pla.es")]
    same(numbers(*pattern), list(range(20)))


def poison_is_counted_with_its_place():
    t = topic("poison")
    lines = [["{}"], ['{"n":1}'], ["oops"], ['{"n":"x"}'], ['{"n":2}{"n":3}'], ['{"n":4}']]
    (WORK / "in.jsonl").write_text("".join(json.dumps({"v": line[0]}) + "\n" for line in lines))
    source = "CREATE TABLE i (v STRING) WITH ('connector' = 'filesystem', 'path' = 'in.jsonl', 'format' = 'json');\n"
    run(source + table("o", "v STRING", t, ("format", "raw")) + "INSERT INTO o SELECT v FROM i;")
    found, log = get(t, "n BIGINT", ("laxity.dead-letter.path", "dead.jsonl"))
    same(found, [[""], ["1"], ["4"]])
    letters = [json.loads(line) for line in (WORK / "dead.jsonl").read_text().splitlines()]
    same([(x["topic"], x["partition"], x["offset"], x["raw"]) for x in letters],
         [(t, 0, n, lines[n][0]) for n in (2, 3, 4)])
    assert "partition 0, offset 2" in log, log
    sql = table("i", "n BIGINT", t, EARLIEST, BOUNDED, ("json.ignore-parse-errors", "false")) + "SELECT n FROM i;"
    assert "topic 'poison', partition 0, offset 2" in run(sql, code=1)


WINDOWS = """
INSERT INTO counts SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(event_at), INTERVAL '10' SECOND))
GROUP BY window_start, window_end;
"""
TIMED = "ms BIGINT, event_at AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR event_at AS event_at"


def put_in_two_partitions(of_topic, first, second):
    write_csv("first.csv", [[ms] for ms in first])
    write_csv("second.csv", [[ms] for ms in second])
    sql = file("a", "ms BIGINT", "first.csv") + file("b", "ms BIGINT", "second.csv")
    sql += table("t", "ms BIGINT", of_topic, ("sink.partitioner", "fixed"))
    run(sql + "INSERT INTO t SELECT ms FROM a;\nINSERT INTO t SELECT ms FROM b;\n")


def each_partition_has_its_watermark():
    t = topic("ahead", 2)
    # One partition is an hour ahead of the other: with one watermark for both, rows of the other would be late.
    early, later = range(0, 60_000, 10), range(3_600_000, 3_660_000, 10)
    put_in_two_partitions(t, later, early)
    sql = table("t", TIMED, t, EARLIEST, BOUNDED) + file("counts", "start_at TIMESTAMP(3), n BIGINT", "counts.csv")
    run(sql + WINDOWS)
    same([row[1] for row in rows("counts.csv")], ["1000"] * 12)


def an_idle_partition_holds_nothing_up():
    t = topic("idle", 3)
    sql = table("t", TIMED, t, EARLIEST, ("scan.watermark.idle-timeout", "500 ms"))
    sql += file("counts", "start_at TIMESTAMP(3), n BIGINT", "idle.csv")
    process = start(sql + WINDOWS)
    # Two of three partitions get rows, and never at the same time; the windows come while it runs.
    put_in_two_partitions(t, range(0, 30_001, 10), [])
    time.sleep(1)
    put_in_two_partitions(t, range(30_010, 60_001, 10), [])
    wait_for(lambda: len(rows("idle.csv")) >= 5, "windows", process)
    # The one that returns is waited for again, and its rows are on time.
    put_in_two_partitions(t, [], range(60_010, 90_001, 10))
    process.send_signal(signal.SIGINT)
    ended(process)
    same([row[1] for row in rows("idle.csv")][:6], ["1000"] * 6)


def topics_that_come_keep_their_watermarks():
    """Partitions are counted as they are found, which after a restart is in another order."""
    first, second = topic("mix-b"), "mix-a"
    hour = 3_600_000

    def put_times(of_topic, times):
        put(of_topic, "ms BIGINT", [[ms] for ms in times])

    pattern = [("topic", None), ("topic-pattern", "mix-."), ("scan.topic-partition-discovery.interval", "300 ms")]
    sql = (
        "SET 'execution.checkpointing.interval' = '200 ms';\nSET 'pipeline.name' = 'mixed';\n"
        + table("t", TIMED, None, EARLIEST, *pattern)
        + "CREATE TABLE counts (start_at TIMESTAMP(3), n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'mixed', "
        "'format' = 'csv');\n" + WINDOWS
    )

    def counts():
        files = sorted((WORK / "mixed").glob("[!.]*")) if (WORK / "mixed").exists() else []
        return [row[1] for path in files for row in rows(path)]

    process = start(sql, "--state", "state-mixed")
    put_times(first, range(0, 25_000, 10))
    wait_for(lambda: len(counts()) == 2, "windows of the first topic", process)
    topic(second)
    put_times(second, range(20_000, 25_000, 10))
    time.sleep(1.5)
    # From here on the first is ahead, and held back by the second.
    put_times(first, range(hour, hour + 25_000, 10))
    time.sleep(1.5)
    process.kill()
    process.wait()
    process = start(sql, "--state", "state-mixed")
    time.sleep(1)
    put_times(second, range(25_000, 60_001, 10))
    wait_for(lambda: len(counts()) >= 6, "windows of the second topic", process)
    process.send_signal(signal.SIGINT)
    ended(process)
    # The third window has the second's rows beside those of the first.
    same(counts()[:6], ["1000", "1000", "1500", "1000", "1000", "1000"])


def partitions_that_are_added_are_read():
    t = topic("grows")
    sql = table("t", "ms BIGINT", t, EARLIEST, ("scan.topic-partition-discovery.interval", "300 ms"))
    process = start(sql + file("o", "ms BIGINT", "grown.csv") + "INSERT INTO o SELECT ms FROM t;")
    put_in_two_partitions(t, range(100), range(100, 200))
    kafka("topic", "--alter", "--topic", t, "--partitions", "2")
    put_in_two_partitions(t, range(200, 300), range(300, 400))
    wait_for(lambda: len(rows("grown.csv")) >= 400, "rows of the new partition", process)
    process.send_signal(signal.SIGINT)
    ended(process)
    same(sorted(int(row[0]) for row in rows("grown.csv")), list(range(400)))


def several_topics_are_one_table():
    names = [topic(f"several-{n}", 2) for n in range(2)]
    for n, name in enumerate(names):
        put(name, "n BIGINT", [[i] for i in range(100 * n, 100 * n + 100)])
    found, _ = get(";".join(names), "n BIGINT")
    same(sorted(int(row[0]) for row in found), list(range(200)))


def a_topic_that_is_deleted_ends_its_readers():
    t = topic("gone", 2)
    put(t, "n BIGINT", [[n] for n in range(10)])
    sql = table("t", "n BIGINT", t, EARLIEST) + file("o", "n BIGINT", "gone.csv") + "INSERT INTO o SELECT n FROM t;"
    process = start(sql)
    wait_for(lambda: len(rows("gone.csv")) == 10, "rows", process)
    kafka("topic", "--delete", "--topic", t)
    said = ended(process, 60, 1)
    assert "topic 'gone': there is no such topic" in said, said


def a_group_goes_on_where_it_has_committed():
    t = topic("grouped")
    put(t, "n BIGINT", [[n] for n in range(10)])
    group = ("properties.group.id", "readers")
    committing = [("properties.enable.auto.commit", "true"), ("properties.auto.commit.interval.ms", "100")]
    sql = table("t", "n BIGINT", t, EARLIEST, group, *committing) + file("o", "n BIGINT", "grouped.csv")
    process = start(sql + "INSERT INTO o SELECT n FROM t;")
    wait_for(lambda: len(rows("grouped.csv")) == 10, "rows", process)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    ended(process)
    put(t, "n BIGINT", [[n] for n in range(10, 20)])

    def numbers(*options):
        return [int(row[0]) for row in get(t, "n BIGINT", group, *options)[0]]

    same(numbers(("scan.startup.mode", "group-offsets")), list(range(10, 20)))
    same(numbers(("scan.startup.mode", None)), list(range(10, 20)))
    same(numbers(("scan.bounded.mode", "group-offsets")), list(range(10)))


def one_consumer_serves_many_queries():
    t = topic("shared")
    put(t, "n BIGINT", [[n] for n in range(500)])
    sql = table("t", "n BIGINT", t, EARLIEST, BOUNDED)
    for query in range(6):
        sql += file(f"o{query}", "n BIGINT", f"shared{query}.csv")
        sql += f"INSERT INTO o{query} SELECT n FROM t WHERE MOD(n, 6) = {query};\n"
    run(sql)
    for query in range(6):
        same([int(row[0]) for row in rows(f"shared{query}.csv")], [n for n in range(500) if n % 6 == query])


def records_that_are_gone_are_not_passed_over():
    t = topic("retained")
    put(t, "n BIGINT", [[n] for n in range(100)])
    sql = (
        "SET 'execution.checkpointing.interval' = '200 ms';\nSET 'pipeline.name' = 'retained';\n"
        + table("t", "n BIGINT", t, EARLIEST)
        + "CREATE TABLE o (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'retained', 'format' = 'csv');\n"
        "INSERT INTO o SELECT n FROM t;"
    )
    process = start(sql, "--state", "state-retained")
    written = lambda: sum(len(rows(path)) for path in (WORK / "retained").glob("[!.]*"))  # noqa: E731
    wait_for(lambda: written() == 100, "rows", process)
    time.sleep(1)
    process.kill()
    process.wait()
    put(t, "n BIGINT", [[n] for n in range(100, 200)])
    kafka("delete-records", t, "0", "150")
    process = start(sql, "--state", "state-retained")
    said = ended(process, 20, 1)
    assert "the records from which to read are not there any more" in said, said
    # Who says where to go on is taken at his word.
    sql = sql.replace("'scan.startup", "'properties.auto.offset.reset' = 'earliest', 'scan.startup")
    process = start(sql, "--state", "state-retained")
    wait_for(lambda: written() == 150, "rows that are still there", process)
    process.send_signal(signal.SIGINT)
    ended(process)


def a_killed_broker_loses_nothing():
    first, second = topic("before", 2), topic("after", 2)
    columns = "n BIGINT"
    feed = start(
        "CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '500', 'number-of-rows' = '6000', "
        "'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '6000');\n"
        + table("o", columns, first)
        + "INSERT INTO o SELECT n FROM g;"
    )
    through = start(
        table("i", columns, first, EARLIEST) + table("o", columns, second) + "INSERT INTO o SELECT n FROM i;"
    )
    beside = start(
        "CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100');\n"
        + file("o", "n BIGINT", "beside.csv")
        + "INSERT INTO o SELECT n FROM g;"
    )
    time.sleep(4)
    kafka("kill")
    lines = len(rows("beside.csv"))
    time.sleep(3)
    assert len(rows("beside.csv")) >= lines + 200, "a query that does not need Kafka goes on"
    kafka("start")
    ended(feed, 60)

    def arrived():
        found, _ = get(second, columns)
        return Counter(int(row[0]) for row in found)

    deadline = time.monotonic() + 40
    while (found := arrived()).keys() != set(range(1, 6001)):
        if time.monotonic() > deadline:
            fail(f"{6000 - len(found)} rows are missing", through)
        time.sleep(1)
    through.send_signal(signal.SIGINT)
    beside.send_signal(signal.SIGINT)
    said = ended(through)
    ended(beside)
    assert re.search(r"waiting for Kafka at 127.0.0.1:\d+", said) and "answers again" in said, said
    # The query's own line says it too, and the others' do not.
    assert re.search(r"waiting for Kafka at \S+ since \d\d:\d\d:\d\dZ", said), said
    assert "waiting for" not in beside.log.read_text(errors="replace")
    doubled = sum(found.values()) - 6000
    print(f"    6000 rows through a broker that was killed: 0 lost, {doubled} doubled")


def exactly_once_through_kills():
    """Rows, windows and a join from a topic to topics and files, by a program that is killed again and again."""
    source, plain, joined, windows = topic("once-in", 2), topic("once-rows", 2), topic("once-joined"), topic("once-windows")
    wanted = KILLS or 4
    count = 1000 * max(12, 2 * wanted)
    feed = start(
        "CREATE TABLE g (ms BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', "
        f"'number-of-rows' = '{count}', 'fields.ms.kind' = 'sequence', 'fields.ms.start' = '0', 'fields.ms.end' = '{count - 1}');\n"
        + table("o", "ms BIGINT", source)
        + "INSERT INTO o SELECT ms FROM g;"
    )
    once = [("sink.delivery-guarantee", "exactly-once"), ("sink.transactional-id-prefix", "kills")]
    of_windows = "start_at TIMESTAMP(3), n BIGINT"
    in_files = WINDOWS.replace("TABLE t,", "TABLE i,").replace("'10' SECOND", "'1' SECOND")
    sql = (
        "SET 'execution.checkpointing.interval' = '200 ms';\n"
        + table("i", TIMED.replace("AS event_at", "AS event_at - INTERVAL '1' SECOND"), source, EARLIEST)
        + table("o", "ms BIGINT", plain, *once)
        + table("j", "ms BIGINT", joined, *once)
        + table("counts", of_windows, windows, *once)
        + f"CREATE TABLE parts ({of_windows}) WITH ('connector' = 'filesystem', 'path' = 'parts', 'format' = 'csv', "
        "'sink.rolling-policy.file-size' = '1 mb');\n"
        + "SET 'pipeline.name' = 'rows';\nINSERT INTO o SELECT ms FROM i;\n"
        + "SET 'pipeline.name' = 'join';\nINSERT INTO j SELECT a.ms FROM i a, i b WHERE a.ms = b.ms "
        "AND a.event_at BETWEEN b.event_at - INTERVAL '1' SECOND AND b.event_at + INTERVAL '1' SECOND;\n"
        + "SET 'pipeline.name' = 'windows';\n" + in_files
        + "SET 'pipeline.name' = 'files';\n" + in_files.replace("INTO counts", "INTO parts")
    )
    kills = 0
    while feed.poll() is None or kills < wanted:
        process = start(sql, "--state", "state")
        time.sleep(random.uniform(0.5, 2.5))
        process.kill()
        process.wait()
        kills += 1
    ended(feed, 60)
    process = start(sql, "--state", "state")

    def arrived(of_topic):
        found, _ = get(of_topic, "ms BIGINT", ("properties.isolation.level", "read_committed"))
        return Counter(int(row[0]) for row in found)

    for of_topic in (plain, joined):
        deadline = time.monotonic() + 60
        while (found := arrived(of_topic)).keys() != set(range(count)):
            if time.monotonic() > deadline:
                fail(f"{of_topic}: {count - len(found)} rows are missing", process)
            time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    ended(process)
    doubled = sum(sum(arrived(of_topic).values()) - count for of_topic in (plain, joined))
    same(doubled, 0)
    found, _ = get(windows, of_windows, ("properties.isolation.level", "read_committed"))
    # The last two wait for rows that do not come.
    expected = list(range(count // 1000 - 2))
    for lines in (found, [row for path in sorted((WORK / "parts").glob("[!.]*")) for row in rows(path)]):
        same(sorted(seconds_of(row[0]) for row in lines)[: len(expected)], expected)
        assert len(lines) <= len(expected) + 1, lines
        same({row[1] for row in lines}, {"1000"})
    print(f"    {count} rows through {kills} kills: 0 lost, 0 doubled")


def seconds_of(text):
    """Of a time of the first hours of 1970."""
    day, clock = text.rstrip("Z").split(" ")
    hours, minutes, seconds = clock.split(":")
    assert day == "1970-01-01", text
    return int(hours) * 3600 + int(minutes) * 60 + round(float(seconds))


def a_row_waits_for_the_brokers_alone():
    """Not for a fixed time, which was a tenth of a second. What the half of the rows that fared better took, since a gate has
    neighbours."""
    columns = "id INT"
    made = f"CREATE TABLE made ({columns}) WITH ('connector' = 'datagen', 'rows-per-second' = '100', 'number-of-rows' = '300');\n"
    sql = made + table("rows_out", columns, topic("prompt")) + "INSERT INTO rows_out SELECT id FROM made;"
    run(sql, "--report", WORK / "prompt.json")
    [query] = json.loads((WORK / "prompt.json").read_text())["queries"]
    if query["rows_out"] != 300 or query["latency_ms"]["p50"] >= 90:
        fail(f"{query['rows_out']} rows, half of them after {query['latency_ms']['p50']} ms")


def exactly_once_through_kills_of_the_broker():
    """By one program that is never killed: where a transaction does not survive, the query goes on from its last checkpoint."""
    t = topic("once-broker")
    kills = KILLS or 2
    count = 2500 * kills
    once = [("sink.delivery-guarantee", "exactly-once"), ("sink.transactional-id-prefix", "broker")]
    process = start(
        "SET 'execution.checkpointing.interval' = '200 ms';\n"
        f"CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '500', 'number-of-rows' = '{count}', "
        f"'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '{count - 1}');\n"
        + table("o", "n BIGINT", t, *once)
        + "INSERT INTO o SELECT n FROM g;",
        "--state", "state-broker",
    )
    for _ in range(kills):
        time.sleep(random.uniform(1, 3))
        kafka("kill")
        time.sleep(1)
        kafka("start")
    said = ended(process, 90 + 60 * kills)
    found, _ = get(t, "n BIGINT", ("properties.isolation.level", "read_committed"))
    same(sorted(int(row[0]) for row in found), list(range(count)))
    starts = said.count("goes on from its last checkpoint in")
    print(f"    {count} rows through {kills} kills of the broker, {starts} starts: 0 lost, 0 doubled")


def a_transaction_that_was_open_for_too_long_is_made_again():
    """The process stands still, and the brokers abort what it has not committed."""
    t = topic("stopped")
    count = 6000
    once = [("sink.delivery-guarantee", "exactly-once"), ("sink.transactional-id-prefix", "stopped"),
            ("properties.transaction.timeout.ms", "1000")]
    sql = (
        "SET 'execution.checkpointing.interval' = '300 ms';\n"
        f"CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '300', 'number-of-rows' = '{count}', "
        f"'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '{count - 1}');\n"
        + table("o", "n BIGINT", t, *once)
        + "INSERT INTO o SELECT n FROM g;"
    )
    process = start(sql, "--state", "state-stopped")
    open_for_long = "longer than 'properties.transaction.timeout.ms' allows"
    # None may be open just when it is stopped.
    for _ in range(4):
        time.sleep(2)
        process.send_signal(signal.SIGSTOP)
        # The brokers look for such transactions every second.
        time.sleep(4)
        process.send_signal(signal.SIGCONT)
        time.sleep(1)
        if process.poll() is not None or open_for_long in process.log.read_text(errors="replace"):
            break
    said = ended(process, 90)
    found, _ = get(t, "n BIGINT", ("properties.isolation.level", "read_committed"))
    same(sorted(int(row[0]) for row in found), list(range(count)))
    assert open_for_long in said and "another program" not in said, said
    sql = sql.replace("300 ms", "1 s").replace("prefix' = 'stopped'", "prefix' = 'slow'")
    said = run(sql, "--state", "state-slow", code=2)
    assert "'properties.transaction.timeout.ms'" in said and "checkpoints more frequent" in said, said


def certificates_and_passwords_are_checked():
    t = topic("secure")
    secure = {
        "properties.bootstrap.servers": f"127.0.0.1:{int(os.environ['KAFKA_PORT']) + 2}",
        "properties.security.protocol": "SASL_SSL",
        "properties.sasl.mechanism": "PLAIN",
        "properties.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="laxity" password="hunter2";',
        "properties.ssl.truststore.type": "PEM",
        "properties.ssl.truststore.location": os.environ["KAFKA_DATA"] + "/ca.pem",
    }
    put(t, "n BIGINT", [[n] for n in range(50)], *secure.items())
    found, log = get(t, "n BIGINT", *secure.items())
    same([int(row[0]) for row in found], list(range(50)))
    assert "hunter2" not in log, log

    def refused(change):
        options = [(key, value) for key, value in (secure | change).items() if value is not None]
        return run(table("t", "n BIGINT", t, EARLIEST, BOUNDED, *options) + "SELECT n FROM t;", code=1)

    wrong = secure["properties.sasl.jaas.config"].replace("hunter2", "swordfish")
    said = refused({"properties.sasl.jaas.config": wrong})
    assert "uthentication fail" in said and "swordfish" not in said, said
    said = refused({"properties.ssl.truststore.type": None, "properties.ssl.truststore.location": None})
    assert "ssl" in said.lower() and "certificate" in said.lower(), said


def what_is_not_there_is_said():
    said = run(table("t", "n BIGINT", "nowhere", EARLIEST) + "SELECT n FROM t;", code=1)
    assert "cannot read topic 'nowhere': there is no such topic" in said, said
    write_csv("in.csv", [[1]])
    sql = file("i", "n BIGINT", "in.csv") + table("t", "n BIGINT", "nowhere") + "INSERT INTO t SELECT n FROM i;"
    said = run(sql, code=1)
    assert "cannot write topic 'nowhere': there is no such topic" in said, said
    # Before there is a row.
    sql = table("i", "n BIGINT", topic("silent"), EARLIEST) + table("t", "n BIGINT", "nowhere")
    said = run(sql + "INSERT INTO t SELECT n FROM i;", code=1)
    assert "cannot write topic 'nowhere': there is no such topic" in said, said
    wrong = table("t", "n BIGINT", "x", EARLIEST, ("properties.sasl.pasword", "hunter2")) + "SELECT n FROM t;"
    said = run(wrong, code=2)
    assert "properties.sasl.pasword" in said and "hunter2" not in said, said


TESTS = [
    rows_come_back,
    keys_headers_and_times,
    formats_are_read_as_they_are_written,
    messages_of_protobuf,
    schemas_lie_with_a_registry,
    reading_begins_and_ends_where_it_should,
    poison_is_counted_with_its_place,
    each_partition_has_its_watermark,
    an_idle_partition_holds_nothing_up,
    topics_that_come_keep_their_watermarks,
    partitions_that_are_added_are_read,
    several_topics_are_one_table,
    a_topic_that_is_deleted_ends_its_readers,
    a_group_goes_on_where_it_has_committed,
    one_consumer_serves_many_queries,
    records_that_are_gone_are_not_passed_over,
    a_killed_broker_loses_nothing,
    exactly_once_through_kills,
    a_row_waits_for_the_brokers_alone,
    exactly_once_through_kills_of_the_broker,
    a_transaction_that_was_open_for_too_long_is_made_again,
    certificates_and_passwords_are_checked,
    what_is_not_there_is_said,
]


def main():
    wanted = sys.argv[2:]
    failed = 0
    try:
        for test in TESTS:
            if wanted and test.__name__ not in wanted:
                continue
            began = time.monotonic()
            try:
                test()
                print(f"ok      {test.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
            except Exception as error:  # noqa: BLE001, all are told
                failed += 1
                print(f"FAILED  {test.__name__}: {error}", flush=True)
    finally:
        for process in STARTED:
            if process.poll() is None:
                process.kill()
                process.wait()
    sys.exit(1 if failed else 0)


main()
