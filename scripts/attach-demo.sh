#!/usr/bin/env bash
# Shows what `laxity attach` does: a Flink session cluster on loopback runs an urgent and a bulk job, in turn without
# and with Laxity beside it. Prints both latencies of the urgent job, and draws them to out/attach-demo.svg.
#
#   PHASE    seconds of each phase, default 15, of which the first third is left out
#   ROUNDS   phases of each kind, default 3
#   BASELINE os: nothing beside Flink; equal: the same cgroup and share as with Laxity, and all threads at nice 0, which
#            is the fairer comparison on a machine that does other things too
#   LAXITY   the program; default target/release/laxity, else the agent alone is built
#   OPTIONS  more options for `laxity attach`
#
# Needs what scripts/flink.sh needs, and permission to lower nice values (root, or CAP_SYS_NICE).
set -euo pipefail
cd "$(dirname "$0")/.."

PHASE=${PHASE:-15} ROUNDS=${ROUNDS:-3}
LAXITY=${LAXITY:-${CARGO_TARGET_DIR:-target}/release/laxity}
if [ ! -x "$LAXITY" ]; then
    cargo build -q -p laxity-agent
    LAXITY=${CARGO_TARGET_DIR:-target}/debug/laxity-agent
fi
export FLINK_HOME=${FLINK_HOME:-$PWD/target/flink-${FLINK_VERSION:-2.3.0}}
STATE=$(mktemp -d)
ROWS=$FLINK_HOME/log/taskmanager-1.out
mkdir -p out

agent=''
finish() {
    if [ -n "$agent" ]; then kill -TERM "$agent" 2>/dev/null || true; wait "$agent" 2>/dev/null || true; fi
    scripts/flink.sh stop
    rm -rf "$STATE"
}
trap finish EXIT

scripts/flink.sh stop
url=$(scripts/flink.sh start)
echo "Flink at $url; two jobs start: alarms (urgent, 500 rows/s) and archive (bulk, as fast as it can)"
scripts/flink.sh sql examples/attach/urgent.sql >/dev/null
scripts/flink.sh sql examples/attach/bulk.sql >/dev/null
sleep 10

now() { python3 -c 'import time; print(time.time())'; }
: >"$STATE/phases"
# attach ARGS...: starts the agent.
attach() {
    # shellcheck disable=SC2086
    "$LAXITY" attach --flink "$url" --state "$STATE/agent" --plain ${OPTIONS:-} "$@" >>out/attach-demo.log &
    agent=$!
}
detach() {
    if [ -n "$agent" ]; then kill -TERM "$agent"; wait "$agent" || true; fi
    agent=''
}
for round in $(seq "$ROUNDS"); do
    echo "round $round of $ROUNDS: without"
    if [ "${BASELINE:-os}" = equal ]; then attach --policy static --nice 0..0; fi
    begin=$(now); sleep "$PHASE"; echo "without $begin $(now)" >>"$STATE/phases"
    detach
    echo "round $round of $ROUNDS: with"
    attach --job 'alarms=50 ms'
    # What waited before would count against the phase that works it off.
    python3 scripts/attach_demo.py --drained "$ROWS"
    begin=$(now); sleep "$PHASE"; echo "with $begin $(now)" >>"$STATE/phases"
    detach
done
python3 scripts/attach_demo.py "$STATE/phases" "$ROWS"
