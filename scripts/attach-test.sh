#!/usr/bin/env bash
# Tests `laxity attach` on a real Flink session cluster, which it installs and starts: one to two minutes, at most three.
#
#   LAXITY   the program; default target/release/laxity, else the agent alone is built
#   SMALL    1: only that threads are found, changed while jobs change, and put back; half a minute
#   FLINK_VERSION and more: see scripts/flink.sh
#
# Needs what scripts/flink.sh needs, jcmd, and permission to lower nice values (root, or CAP_SYS_NICE). What needs more,
# as namespaces do, is skipped where it is not there.
set -euo pipefail
cd "$(dirname "$0")/.."

for needed in java jcmd mvn pip curl python3; do
    command -v "$needed" >/dev/null && continue
    echo "attach-test: $needed is missing; on Debian: apt-get install openjdk-17-jdk-headless maven python3-pip curl" >&2
    exit 1
done
(cd scripts/attach && python3 -B -m doctest workload.py summary.py bench.py)
LAXITY=${LAXITY:-${CARGO_TARGET_DIR:-target}/release/laxity}
if [ ! -x "$LAXITY" ]; then
    cargo build -q --locked -p laxity-agent
    LAXITY=${CARGO_TARGET_DIR:-target}/debug/laxity-agent
fi
export FLINK_HOME=${FLINK_HOME:-$PWD/target/flink-${FLINK_VERSION:-2.3.0}}
timeout -k 20 300 scripts/flink.sh install || { echo "attach-test: Flink could not be installed" >&2; exit 1; }
# Whole, because who enters a mount namespace leaves the folder.
timeout -k 30 180 python3 -B scripts/attach/test.py "$(realpath "$LAXITY")" || {
    code=$?
    [ "$code" != 124 ] || echo "attach-test: not done after three minutes" >&2
    scripts/flink.sh stop
    exit "$code"
}
