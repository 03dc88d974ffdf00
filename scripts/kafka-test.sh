#!/usr/bin/env bash
# Tests tables in Kafka on a real broker and a real registry of schemas, which it installs and starts: three minutes.
#
#   LAXITY       the program; default: the debug build, which is made if need be
#   KAFKA_PORT   where the broker listens on loopback, default 19192
#   REGISTRY_PORT  where the registry listens, default 19181
#   ONLY         names of tests, with spaces; default all
#   KILLS        how often program and broker are killed where rows are to be there exactly once, a few seconds each
#
# Needs Java 17 or newer, mvn and python3.
set -euo pipefail
cd "$(dirname "$0")/.."

for needed in java mvn python3 curl; do
    command -v "$needed" >/dev/null && continue
    echo "kafka-test: $needed is missing; on Debian: apt-get install openjdk-17-jdk-headless maven python3 curl" >&2
    exit 1
done
LAXITY=${LAXITY:-}
if [ -z "$LAXITY" ]; then
    cargo build -q --locked --workspace --bin laxity
    LAXITY=${CARGO_TARGET_DIR:-target}/debug/laxity
fi
export KAFKA_PORT=${KAFKA_PORT:-19192}
export REGISTRY_PORT=${REGISTRY_PORT:-19181}
KAFKA_DATA=$(mktemp -d)
export KAFKA_DATA REGISTRY_DATA=$KAFKA_DATA
trap 'scripts/kafka.sh stop; scripts/registry.sh stop; rm -rf "$KAFKA_DATA"' EXIT
timeout -k 20 300 scripts/kafka.sh install || { echo "kafka-test: Kafka could not be installed" >&2; exit 1; }
timeout -k 20 300 scripts/registry.sh install || { echo "kafka-test: the registry could not be installed" >&2; exit 1; }
timeout -k 10 240 scripts/kafka.sh start >/dev/null
# shellcheck disable=SC2086
timeout -k 10 $((600 + 60 * ${KILLS:-0})) python3 -B scripts/kafka/test.py "$(realpath "$LAXITY")" ${ONLY:-}
