#!/usr/bin/env bash
# Asks a real Flink, which is installed and started, what Laxity is compared with: see docs/flink.md.
#
#   SEED        of what is generated, default 1
#   FLINK_PORT  default 28081
#   FRESH       yes: ask everything again, not only what is new
set -euo pipefail
cd "$(dirname "$0")/.."
export FLINK_PORT=${FLINK_PORT:-28081}
export FLINK_PROPERTIES="restart-strategy.type: none"
[ "${FRESH:-no}" = yes ] && rm -f tests/flink/expressions.tsv
trap 'scripts/flink.sh stop' EXIT
scripts/flink.sh start
python3 tests/flink/ask.py "http://127.0.0.1:$((FLINK_PORT + 2))" "${SEED:-1}" 2>target/flink-check.log
echo "what Flink refused, and why: target/flink-check.log"
cargo test --locked --workspace --test sql flink
