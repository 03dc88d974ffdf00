#!/usr/bin/env bash
# Tests tables in PostgreSQL on a real server, which it makes in a folder of its own and starts: one minute.
#
#   LAXITY          the program; default: the debug build, which is made if need be
#   POSTGRES_BIN    where initdb and postgres are; default: PATH, then where Debian puts them
#   POSTGRES_PORT   where the server listens on loopback, default 19432
#   ONLY            names of tests, with spaces; default all
#   KILLS           how often the program is killed, about, where rows are to be there exactly once, a second each
#
# Needs PostgreSQL 11 or newer, python3 and, run as root, a user nobody to run the server.
set -euo pipefail
cd "$(dirname "$0")/.."

find_bin() {
    if [ -n "${POSTGRES_BIN:-}" ]; then
        echo "$POSTGRES_BIN"
    elif command -v initdb >/dev/null; then
        # The others stand beside it, and not beside a link to it.
        dirname "$(realpath "$(command -v initdb)")"
    else
        # The newest.
        find /usr/lib/postgresql -maxdepth 3 -name initdb 2>/dev/null | sort -V | tail -1 | xargs -r dirname
    fi
}

BIN=$(find_bin)
if [ -z "$BIN" ] || ! command -v python3 >/dev/null; then
    echo "postgres-test: PostgreSQL and python3 are needed; on Debian: apt-get install postgresql python3" >&2
    exit 1
fi
LAXITY=${LAXITY:-}
if [ -z "$LAXITY" ]; then
    cargo build -q --locked --workspace --bin laxity
    LAXITY=${CARGO_TARGET_DIR:-target}/debug/laxity
fi
export POSTGRES_PORT=${POSTGRES_PORT:-19432} POSTGRES_BIN=$BIN
# shellcheck disable=SC2086
timeout -k 20 $((400 + 5 * ${KILLS:-0})) python3 -B scripts/postgres/test.py "$(realpath "$LAXITY")" ${ONLY:-}
