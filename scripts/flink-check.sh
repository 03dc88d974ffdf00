#!/usr/bin/env bash
# Asks a real Flink, which is installed and started, what Laxity is compared with: see docs/flink.md. The current one, then
# an older one.
#
#   SEED        of what is generated, default 1
#   FLINK_PORT  default 28081
#   FRESH       yes: ask the current one everything again, not only what is new
#   OLDER       no: leave out the older one, which is asked everything every time
#   LAXITY      the program, for windows that depend on the clock; default: the debug build, which is made if need be
set -euo pipefail
cd "$(dirname "$0")/.."
export FLINK_PORT=${FLINK_PORT:-28081}
export FLINK_PROPERTIES="restart-strategy.type: none"
# A job that fails at a bad moment takes its TaskManager with it.
export TASKMANAGERS=2
# Many queries run as one job, each of whose operators wants some.
export MANAGED=1g
[ "${FRESH:-no}" = yes ] && rm -f tests/flink/{expressions,queries}.tsv
trap 'scripts/flink.sh stop' EXIT
mkdir -p target
: >target/flink-check.log

if [ -z "${LAXITY:-}" ]; then
    cargo build -q --locked --workspace --bin laxity
    LAXITY=${CARGO_TARGET_DIR:-target}/debug/laxity
fi
LAXITY=$(realpath "$LAXITY")
(cd tests/flink && python3 -B -m doctest clock.py)

ask() { # FLINK_VERSION [NAME]
    export FLINK_VERSION=$1
    scripts/flink.sh start
    python3 tests/flink/ask.py "http://127.0.0.1:$((FLINK_PORT + 2))" "${SEED:-1}" "${@:2}" 2>>target/flink-check.log || {
        tail -n 20 target/flink-check.log >&2
        exit 1
    }
    python3 -B tests/flink/clock.py "http://127.0.0.1:$((FLINK_PORT + 2))" "$LAXITY"
    scripts/flink.sh stop
}

ask 2.3.0
[ "${OLDER:-yes}" = no ] || ask 1.20.5 1.20
echo "what Flink refused, and why: target/flink-check.log"
cargo test --locked --workspace --test sql flink
