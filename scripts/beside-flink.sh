#!/usr/bin/env bash
# What N queries over one stream cost, as one Flink job and here: CPU time of a row, and memory. The queries are N INSERTs
# of one STATEMENT SET over one CSV file, `SELECT ... FROM TABLE(TUMBLE(..., 1 s)) WHERE tenant = i GROUP BY window`; both read
# the same script. About twenty minutes; SMALL=1 takes two and says nothing about speed.
#
#   LAXITY   the program; default target/release/laxity
#   OUT      where the figures go; default out/beside-flink
#   QUERIES  how many, default "10 100 300"
#   ROWS     rows of the longer file, default 8000000; the shorter has a quarter of them
#   ROUNDS   default 3, after one that is left out, in which Java compiles
#   FLINK_HOME and more: see scripts/flink.sh
#
# Flink in its best form: one job, so that the source is read once, objects reused, one slot, a heap that nothing waits for.
# A row's CPU time is the difference between the two files over the difference of their rows: starting, planning and
# deploying are in neither. Of Flink it is the TaskManager's alone.
set -euo pipefail
cd "$(dirname "$0")/.."

for needed in java mvn pip curl python3; do
    command -v "$needed" >/dev/null && continue
    echo "beside-flink: $needed is missing; on Debian: apt-get install openjdk-17-jdk-headless maven python3-pip curl" >&2
    exit 1
done
if [ "${SMALL:-}" = 1 ]; then
    QUERIES=${QUERIES:-4 10} ROWS=${ROWS:-200000} ROUNDS=${ROUNDS:-1}
fi
export LAXITY=${LAXITY:-${CARGO_TARGET_DIR:-target}/release/laxity} OUT=${OUT:-out/beside-flink}
export QUERIES=${QUERIES:-10 100 300} ROWS=${ROWS:-8000000} ROUNDS=${ROUNDS:-3}
export FLINK_HOME=${FLINK_HOME:-$PWD/target/flink-${FLINK_VERSION:-2.3.0}} HEAP_MB=${HEAP_MB:-2048} NETWORK=${NETWORK:-512m}
# Each of 300 aggregations has some MB of what the one slot has, or does not start.
export SLOTS=${SLOTS:-1} MANAGED=${MANAGED:-2g}
# A machine that is stopped for a while is not a lost one.
export FLINK_PROPERTIES="${FLINK_PROPERTIES:-}
heartbeat.timeout: 600000"
python3 -B -m doctest scripts/beside_flink.py
scripts/flink.sh install || { echo "beside-flink: Flink could not be installed" >&2; exit 1; }
mkdir -p "$OUT"
trap 'scripts/flink.sh stop' EXIT
scripts/flink.sh start >/dev/null
python3 -B scripts/beside_flink.py
