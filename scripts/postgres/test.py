#!/usr/bin/env python3
"""Tables in PostgreSQL on a real server: rows that go out come in again; a key is written over; rows are looked up; a
server that is killed loses nothing; exactly once through kills of the program; what is wrong is said.

Cannot catch: a server behind a proxy, certificates that are checked.
"""

import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LAXITY = sys.argv[1]
BIN = Path(os.environ["POSTGRES_BIN"])
PORT = os.environ["POSTGRES_PORT"]
WORK = Path(tempfile.mkdtemp(prefix="laxity-postgres-"))
DATA = WORK / "server"
STARTED = []
# Of the program, where rows are to be there exactly once; as many as take some seconds if it is not said.
KILLS = int(os.environ.get("KILLS") or 0)
# The server refuses to run as root.
AS_USER = ["setpriv", "--reuid=nobody", "--clear-groups", "--"] if os.geteuid() == 0 else []
SERVER = None


def start_server():
    global SERVER
    if not DATA.exists():
        WORK.chmod(0o755)
        DATA.mkdir()
        if AS_USER:
            shutil.chown(DATA, "nobody")
        made = [BIN / "initdb", "-D", DATA, "-U", "me", "--auth=trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(AS_USER + made, check=True, stdout=subprocess.DEVNULL, timeout=60, cwd=DATA)
    command = [BIN / "postgres", "-D", DATA, "-p", PORT, "-c", "listen_addresses=127.0.0.1",
               "-c", f"unix_socket_directories={DATA}", "-c", "logging_collector=off"]
    log = open(WORK / "server.log", "ab")
    SERVER = subprocess.Popen(AS_USER + command, stdout=log, stderr=log, cwd=DATA)
    deadline = time.monotonic() + 30
    while subprocess.run([BIN / "pg_isready", "-q", "-h", "127.0.0.1", "-p", PORT]).returncode:
        if time.monotonic() > deadline or SERVER.poll() is not None:
            raise SystemExit("the server does not come up:\n" + (WORK / "server.log").read_text()[-2000:])
        time.sleep(0.1)


def stop_server(how=signal.SIGINT):
    # Immediate shutdown leaves as much undone as a kill, and no process behind.
    SERVER.send_signal(how)
    SERVER.wait(30)


def psql(sql):
    command = [BIN / "psql", "-h", "127.0.0.1", "-p", PORT, "-U", "me", "-d", "postgres", "-v", "ON_ERROR_STOP=1",
               "-AtqF", "|", "-c", sql]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)
    return [line.split("|") for line in done.stdout.splitlines()]


def table(name, columns, *options):
    given = {"connector": "jdbc", "url": f"jdbc:postgresql://127.0.0.1:{PORT}/postgres", "table-name": name,
             "username": "me"} | dict(options)
    text = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    return f"CREATE TABLE {name} ({columns}) WITH ({text});\n"


def file(name, columns, path):
    options = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv'"
    return f"CREATE TABLE {name} ({columns}) WITH ({options});\n"


def start(sql, *args):
    path = WORK / f"q{len(STARTED)}.sql"
    path.write_text(sql)
    log = open(path.with_suffix(".log"), "wb")
    process = subprocess.Popen([LAXITY, "run", "--plain", path, *args], stdout=log, stderr=subprocess.STDOUT, cwd=WORK)
    process.log = path.with_suffix(".log")
    STARTED.append(process)
    return process


def ended(process, code=0, timeout=60):
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        fail(f"not done after {timeout} s", process)
    if process.returncode != code:
        fail(f"ended with {process.returncode}, not with {code}", process)
    return process.log.read_text(errors="replace")


def run(sql, *args, code=0):
    return ended(start(sql, *args), code)


def fail(why, process=None):
    if process:
        print(process.log.read_text(errors="replace")[-4000:], file=sys.stderr)
    raise AssertionError(why)


def same(found, expected):
    if found != expected:
        fail(f"\nfound    {found[:8]} … {len(found)}\nexpected {expected[:8]} … {len(expected)}")


def write_csv(path, lines):
    (WORK / path).write_text("".join(",".join(map(str, line)) + "\n" for line in lines))


def rows(path):
    return list(csv.reader((WORK / path).open()))


ALL = ("id BIGINT, s STRING, d DOUBLE, b BOOLEAN, p DECIMAL(10, 2), day_of DATE, at_time TIMESTAMP(3), zoned TIMESTAMP_LTZ(3), "
       "small SMALLINT, f FLOAT, t TIME(3)")


def rows_come_back():
    psql('CREATE TABLE a (id BIGINT, s TEXT, d DOUBLE PRECISION, b BOOLEAN, p NUMERIC(10, 2), day_of DATE, at_time TIMESTAMP, '
         'zoned TIMESTAMPTZ, small SMALLINT, f REAL, "t" TIME)')
    lines = [
        [1, '"a\tb, \\N"', 0.1, "true", "-12.34", "1969-12-31", "2024-02-29 23:59:59.999", "2024-01-01 00:00:00Z", 7, 1.5,
         "23:59:59"],
        [2, "", "Infinity", "false", "0.05", "2024-05-06", "1970-01-01 00:00:00", "1999-12-31 23:59:59Z", -3, 0.25, "00:00:00"],
    ]
    write_csv("in.csv", lines)
    run(file("i", ALL, "in.csv") + table("a", ALL) + "INSERT INTO a SELECT * FROM i;")
    same(psql("SELECT id, s, d, p, day_of, at_time, zoned AT TIME ZONE 'UTC', small, f FROM a ORDER BY id"), [
        ["1", "a\tb, \\N", "0.1", "-12.34", "1969-12-31", "2024-02-29 23:59:59.999", "2024-01-01 00:00:00", "7", "1.5"],
        ["2", "", "Infinity", "0.05", "2024-05-06", "1970-01-01 00:00:00", "1999-12-31 23:59:59", "-3", "0.25"],
    ])
    psql("INSERT INTO a (id) VALUES (3)")
    run(table("a", ALL) + file("o", ALL, "out.csv") + "INSERT INTO o SELECT * FROM a;")
    run(file("i", ALL, "in.csv") + file("o", ALL, "expected.csv") + "INSERT INTO o SELECT * FROM i;")
    found = sorted(rows("out.csv"))
    same(found[:2], sorted(rows("expected.csv")))
    same(found[2], ["3"] + [""] * 10)


def many_rows_are_one_table():
    psql("CREATE TABLE many (n BIGINT)")
    sql = ("CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000', 'number-of-rows' = '200000', "
           "'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '200000');\n")
    run(sql + table("many", "n BIGINT") + "INSERT INTO many SELECT n FROM g;")
    same(psql("SELECT COUNT(*), SUM(n) FROM many"), [["200000", "20000100000"]])
    run(table("many", "n BIGINT") + file("o", "n BIGINT", "many.csv") + "INSERT INTO o SELECT n FROM many WHERE n > 100000;")
    same(len(rows("many.csv")), 100000)


def a_key_is_written_over():
    psql("CREATE TABLE latest (k TEXT PRIMARY KEY, n BIGINT)")
    write_csv("in.csv", [[f"k{n % 7}", n] for n in range(1000)])
    columns = "k STRING, n BIGINT"
    keyed = columns + ", PRIMARY KEY (k) NOT ENFORCED"
    run(file("i", columns, "in.csv") + table("latest", keyed) + "INSERT INTO latest SELECT k, n FROM i;")
    same(psql("SELECT k, n FROM latest ORDER BY k"), [[f"k{k}", str(max(range(k, 1000, 7)))] for k in range(7)])


def rows_are_looked_up():
    psql("CREATE TABLE dim (code BIGINT, name TEXT)")
    psql("INSERT INTO dim VALUES (1, 'one'), (2, 'two')")
    write_csv("in.csv", [[1], [2], [3]])
    sql = "CREATE TABLE i (n BIGINT, p AS PROCTIME()) WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv');\n"
    sql += table("dim", "code BIGINT, name STRING") + file("o", "n BIGINT, name STRING", "looked.csv")
    run(sql + "INSERT INTO o SELECT i.n, d.name FROM i LEFT JOIN dim FOR SYSTEM_TIME AS OF i.p AS d ON i.n = d.code;")
    same(rows("looked.csv"), [["1", "one"], ["2", "two"], ["3", ""]])


def a_killed_server_loses_nothing():
    psql("CREATE TABLE through (n BIGINT PRIMARY KEY)")
    sql = ("CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', 'number-of-rows' = '6000', "
           "'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '6000');\n")
    process = start(sql + table("through", "n BIGINT, PRIMARY KEY (n) NOT ENFORCED") + "INSERT INTO through SELECT n FROM g;")
    time.sleep(2)
    stop_server(signal.SIGQUIT)
    time.sleep(1.5)
    start_server()
    said = ended(process)
    same(psql("SELECT COUNT(*), MIN(n), MAX(n) FROM through"), [["6000", "1", "6000"]])
    assert f"waiting for PostgreSQL at 127.0.0.1:{PORT}/postgres" in said and "answers again" in said, said


def two_tables_do_not_commit_as_one():
    psql("CREATE TABLE windows (start_at TIMESTAMP, n BIGINT)")
    psql("CREATE TABLE tardy (n BIGINT)")
    write_csv("in.csv", [[1], [2]])
    once = ("laxity.delivery-guarantee", "exactly-once")
    source = "n BIGINT, at_time AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR at_time AS at_time"
    sql = (
        "SET 'execution.checkpointing.interval' = '150 ms';\nSET 'laxity.late.table' = 'tardy';\n"
        + file("i", source, "in.csv")
        + table("windows", "start_at TIMESTAMP(3), n BIGINT", once)
        + table("tardy", "n BIGINT", once)
        + "INSERT INTO windows SELECT CAST(window_start AS TIMESTAMP(3)), COUNT(*) FROM "
        "TABLE(TUMBLE(TABLE i, DESCRIPTOR(at_time), INTERVAL '1' SECOND)) GROUP BY window_start, window_end;\n"
    )
    said = run(sql, "--state", "state-two", code=2)
    assert '"windows" and "tardy" are both written exactly once' in said and "write one of them at least once" in said, said
    run(sql.replace(table("tardy", "n BIGINT", once), table("tardy", "n BIGINT")), "--state", "state-two")
    same(psql("SELECT n FROM windows"), [["2"]])


def what_is_wrong_is_said():
    write_csv("in.csv", [["x"]])
    source = file("i", "s STRING", "in.csv")
    psql("CREATE TABLE number (n BIGINT)")

    def said(sink, insert="SELECT s FROM i", code=1):
        return run(source + sink + f"INSERT INTO {sink.split()[2]} {insert};", code=code)

    text = said(table("nowhere", "s STRING"))
    assert "cannot write table 'nowhere': there is no such table" in text, text
    text = said(table("number", "s STRING"))
    assert "it has no column s; there are n" in text, text
    text = said(table("number", "n STRING"))
    assert 'invalid input syntax for type bigint: "x"' in text and "COPY number, line 1, column n" in text, text
    text = said(table("number", "n BIGINT, PRIMARY KEY (n) NOT ENFORCED"), "SELECT 1 FROM i")
    assert "no unique or exclusion constraint" in text, text
    text = said(table("number", "n BIGINT", ("password", "hunter2"), ("sink.max-retires", "3")), "SELECT 1 FROM i", 2)
    assert "did you mean 'sink.max-retries'" in text and "hunter2" not in text, text
    text = said(table("number", "n BIGINT", ("username", "nobody-here")), "SELECT 1 FROM i")
    assert 'role "nobody-here" does not exist' in text, text
    text = said(table("number", "n BIGINT", ("laxity.delivery-guarantee", "exactly-once")), "SELECT 1 FROM i", 2)
    assert "commits with checkpoints" in text, text


def exactly_once_through_kills():
    """Windows into two tables, one in transactions and one by key, from a program that is killed again and again."""
    psql("CREATE TABLE once (start_at TIMESTAMP, n BIGINT, total BIGINT)")
    psql("CREATE TABLE by_key (start_at TIMESTAMP PRIMARY KEY, n BIGINT, total BIGINT)")
    rate = 2000
    count = rate * max(6, KILLS)
    columns = "start_at TIMESTAMP(3), n BIGINT, total BIGINT"
    sql = (
        "SET 'execution.checkpointing.interval' = '150 ms';\n"
        "CREATE TABLE g (n BIGINT, at_time AS TO_TIMESTAMP_LTZ(n * 10, 3), WATERMARK FOR at_time AS at_time)\n"
        f"WITH ('connector' = 'datagen', 'rows-per-second' = '{rate}', 'number-of-rows' = '{count}', "
        f"'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '{count - 1}');\n"
        + table("once", columns, ("laxity.delivery-guarantee", "exactly-once"))
        + table("by_key", columns + ", PRIMARY KEY (start_at) NOT ENFORCED")
    )
    for sink in ("once", "by_key"):
        sql += (f"SET 'pipeline.name' = '{sink}';\nINSERT INTO {sink} SELECT CAST(window_start AS TIMESTAMP(3)), COUNT(*), SUM(n) FROM "
                "TABLE(TUMBLE(TABLE g, DESCRIPTOR(at_time), INTERVAL '1' SECOND)) GROUP BY window_start, window_end;\n")
    kills = 0
    while True:
        process = start(sql, "--state", "state")
        try:
            process.wait(random.uniform(0.4, 1.6))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
            if kills < max(40, 2 * KILLS):
                continue
            process = start(sql, "--state", "state")
        ended(process)
        break
    expected = [[str(100), str(sum(range(first, first + 100)))] for first in range(0, count, 100)]
    for sink in ("once", "by_key"):
        same(psql(f"SELECT n, total FROM {sink} ORDER BY start_at"), expected)
    assert kills >= 3, f"{kills} kills prove nothing"
    print(f"    {count} rows through {kills} kills: 0 lost, 0 doubled")


def a_query_goes_on_when_the_server_is_back():
    """Exactly once by one program that is never killed: with the server goes what no checkpoint had committed, and the
    query goes on from its last one by itself. A query that has nothing to do with the server does not notice."""
    psql("CREATE TABLE again (n BIGINT)")
    count = 6000
    sql = (
        "SET 'execution.checkpointing.interval' = '150 ms';\n"
        f"CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '800', 'number-of-rows' = '{count}', "
        f"'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '{count - 1}');\n"
        + table("again", "n BIGINT", ("laxity.delivery-guarantee", "exactly-once"))
        + file("beside", "n BIGINT", "beside.csv")
        + "SET 'pipeline.name' = 'again';\nINSERT INTO again SELECT n FROM g;\n"
        + "SET 'pipeline.name' = 'beside';\nINSERT INTO beside SELECT n FROM g;\n"
    )
    process = start(sql, "--state", "state-again", "--report", "again.json")
    for _ in range(2):
        time.sleep(1.5)
        stop_server(signal.SIGQUIT)
        before = len(rows("beside.csv"))
        until = time.monotonic() + 20
        while len(rows("beside.csv")) < before + 300:
            assert time.monotonic() < until, "a query that does not need the server goes on"
            time.sleep(0.1)
        start_server()
    said = ended(process)
    assert said.count("goes on from its last checkpoint in") >= 2, said
    same(psql("SELECT COUNT(*), COUNT(DISTINCT n) FROM again"), [[str(count), str(count)]])
    same(len(rows("beside.csv")), count)
    report = json.loads((WORK / "again.json").read_text())
    same(sorted((query["name"], query["rows_out"], query.get("error")) for query in report["queries"]),
         [("again", count, None), ("beside", count, None)])
    print(f"    {count} rows through 2 restarts of the server: 0 lost, 0 doubled")


def a_table_has_no_place_to_go_on_from():
    """A query that is killed amid a table does not count rows twice: it is refused until it is said that it is to begin anew."""
    count = 600_000
    psql(f"CREATE TABLE long AS SELECT n FROM generate_series(1::BIGINT, {count}) n")
    psql("CREATE TABLE copied (n BIGINT)")
    sql = (
        "SET 'execution.checkpointing.interval' = '50 ms';\nSET 'pipeline.name' = 'copy';\n"
        + table("long", "n BIGINT")
        + table("copied", "n BIGINT", ("laxity.delivery-guarantee", "exactly-once"))
        + "INSERT INTO copied SELECT n FROM long;\n"
    )
    process = start(sql, "--state", "state-copy")
    until = time.monotonic() + 40
    while int(psql("SELECT COUNT(*) FROM copied")[0][0]) == 0:
        assert time.monotonic() < until and process.poll() is None, process.log.read_text()
    process.kill()
    process.wait()
    seen = int(psql("SELECT COUNT(*) FROM copied")[0][0])
    assert seen < count, "it was to be killed amid the table"
    said = run(sql, "--state", "state-copy", code=2)
    assert "can only be read from the beginning" in said and "--state-ignore 'copy'" in said, said
    same(int(psql("SELECT COUNT(*) FROM copied")[0][0]), seen)
    psql("TRUNCATE copied")
    run(sql, "--state", "state-copy", "--state-ignore", "copy")
    same(psql("SELECT COUNT(*), COUNT(DISTINCT n) FROM copied"), [[str(count), str(count)]])
    path = WORK / "copy.sql"
    path.write_text(sql)
    explained = subprocess.run([LAXITY, "explain", path], check=True, capture_output=True, text=True, timeout=30)
    assert "copied at least once: long cannot be read on in its midst" in explained.stdout, explained.stdout
    print(f"    killed after {seen} rows of {count}")


TESTS = [
    exactly_once_through_kills,
    a_query_goes_on_when_the_server_is_back,
    a_table_has_no_place_to_go_on_from,
    rows_come_back,
    many_rows_are_one_table,
    a_key_is_written_over,
    rows_are_looked_up,
    a_killed_server_loses_nothing,
    two_tables_do_not_commit_as_one,
    what_is_wrong_is_said,
]


def main():
    wanted = sys.argv[2:]
    failed = 0
    try:
        start_server()
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
        if SERVER and SERVER.poll() is None:
            stop_server()
        shutil.rmtree(WORK, ignore_errors=True)
    sys.exit(1 if failed else 0)


main()
