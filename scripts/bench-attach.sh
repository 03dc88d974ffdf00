#!/usr/bin/env bash
# Measures `laxity attach` beside a real Flink and a real Storm, each installed here. Results go to a dated folder in OUT.
#
#   ONLY     which parts, default all: flink-urgent overhead shares linear-road voip-stream;
#            flink/linear-road and the like for one engine alone
#   ROUNDS   rounds, in each of which everything that is compared has its turn, default 5
#   PHASE    seconds of each phase, default 15, of which the first third is left out; overhead and shares take less
#   URGENT   rows/s of the urgent job, default 2500
#   LOADS    loads of linear-road and voip-stream as shares of what the cores take if only
#            operators cost anything, default 0.5 0.65 0.8 0.88 0.94
#   SCHEDULERS  which of os random qs hr fcfs timers llf to compare there, default os random qs timers llf; timers, which is
#            the timer slack alone, on Storm only. llf has it too, the others do not; llf-slack is without, qs+slack with
#   SLACK      all or none: the timer slack in all schedulers or in none, so that order alone is compared
#   SHARE    weight of the engines beside other programs, default 100 as any has; 10000 on a machine that does other things
#   SMALL    1: as little as shows that everything runs, in three minutes
#   OUT      default benchmarks/attach
#   LAXITY   the program; default target/release/laxity, else the agent alone is built
#
# Leave the machine alone meanwhile: other programs take what quota and rr are to get, and their load moves every latency.
# Needs what scripts/flink.sh and scripts/storm.sh need, a JDK, and root: nice values are lowered, and Storm gets a network
# namespace of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

TARGET=${CARGO_TARGET_DIR:-target}
LAXITY=${LAXITY:-$TARGET/release/laxity}
if [ ! -x "$LAXITY" ]; then
    cargo build -q --release -p laxity-agent
    LAXITY=$TARGET/release/laxity-agent
fi
export FLINK_HOME=${FLINK_HOME:-$PWD/target/flink-${FLINK_VERSION:-2.3.0}}
export STORM_HOME=${STORM_HOME:-$PWD/target/storm-2.8.3}
scripts/flink.sh install
scripts/storm.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
javac -nowarn -XDsuppressNotes -d "$work/classes" -cp "$FLINK_HOME/lib/*:$STORM_HOME/lib/*" java/laxity/workload/*.java
jar -cf "$work/workload.jar" -C "$work/classes" .

ENGINES="Flink ${FLINK_VERSION:-2.3.0}, Storm 2.8.3, Java $(java -version 2>&1 | sed -n '1s/.*"\(.*\)".*/\1/p')"
export LAXITY ENGINES JAR=$work/workload.jar STORM_LIB=$STORM_HOME/lib OUT=${OUT:-benchmarks/attach}
python3 -B scripts/attach/bench.py
