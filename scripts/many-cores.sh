#!/bin/bash
# What more cores would bring: one tenant of 420 queries is measured here, then simulated on CORES, half a tenant for each
# core. Every number that it makes is of virtual time, but for the costs, which are this machine's.
#   LAXITY=target/release/laxity OUT=benchmarks/runs/many-cores scripts/many-cores.sh
# COSTS=FILE takes them from there, or keeps them; CORES="2 8 64", RATES="1x 1.25x", POLICIES="laxity fifo" and FOR="6 s" for other questions.
set -euo pipefail
cd "$(dirname "$0")/.."

LAXITY=${LAXITY:-target/release/laxity}
OUT=${OUT:-out/many-cores}
CORES=${CORES:-2 8 64}
RATES=${RATES:-1x 1.25x}
POLICIES=${POLICIES:-laxity fifo}
FOR=${FOR:-6 s}
URGENT=${URGENT:-400}
HEAVY=${HEAVY:-20}

mkdir -p "$OUT"
sql=$OUT/tenant.sql
costs=${COSTS:-$OUT/costs.json}
if [ -z "${COSTS:-}" ]; then trap 'rm -f "$sql" "$costs"' EXIT; else trap 'rm -f "$sql"' EXIT; fi

# A table each: 500 rows/s in windows of 100 ms for 50 ms, and 50 000 rows/s with 10 000 distinct keys for 10 s.
{
    echo "CREATE TABLE counts (window_end TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');"
    table="(k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'rows-per-second' ="
    for ((i = 0; i < URGENT; i++)); do
        echo "CREATE TABLE u$i $table '500');"
        echo "SET 'laxity.latency.target' = '50 ms'; SET 'pipeline.name' = 'urgent $i';"
        echo "INSERT INTO counts SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE u$i, DESCRIPTOR(ts), INTERVAL '0.1' SECOND))"
        echo "  GROUP BY window_start, window_end;"
    done
    for ((i = 0; i < HEAVY; i++)); do
        echo "CREATE TABLE h$i $table '50000', 'fields.k.min' = '0', 'fields.k.max' = '9999');"
        echo "SET 'laxity.latency.target' = '10 s'; SET 'pipeline.name' = 'heavy $i';"
        echo "INSERT INTO counts SELECT window_end, COUNT(DISTINCT k)"
        echo "  FROM TABLE(HOP(TABLE h$i, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND)) GROUP BY window_start, window_end;"
    done
} > "$sql"

rows=$OUT/many-cores.csv
echo "policy,cores,tenants,queries,rate,urgent_in_time_percent,urgent_p50_ms_median,urgent_p99_ms_median,urgent_p99_ms_worst,operators_percent,looks_percent,rest_percent" > "$rows"
for policy in $POLICIES; do
    for rate in $RATES; do
        for cores in $CORES; do
            tenants=$((cores / 2))
            text=$OUT/$policy-$rate-$cores.txt
            "$LAXITY" simulate "$sql" --costs "$costs" --cores "$cores" --tenants "$tenants" --up-to "$tenants" \
                --rate "$rate" --policy "$policy" --for "$FOR" > "$text"
            python3 scripts/many_cores.py "$text" "$policy" "$cores" "$tenants" $((tenants * (URGENT + HEAVY))) "$rate" | tee -a "$rows"
            rm "$text"
        done
    done
done
