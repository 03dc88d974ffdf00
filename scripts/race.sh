#!/usr/bin/env bash
# The race against Flink, and Kafka Streams as far as it goes: the same SQL file on the same topics of one Kafka broker, in turn.
# Latency is from the time of the record that completed a result to the broker's time at which the result was appended, so
# that no engine measures itself; CPU time and memory are of the whole process. An hour; SMALL=1 takes some five minutes and says nothing about speed.
#
#   LAXITY   the program; default target/release/laxity
#   OUT      where the figures go; default out/race
#   PHASES   default "cost latency together density": scripts/race/race.py says what each is
#   ROUNDS   default 3, in turn; of `cost` one more before, in which Java compiles
#   FORMATS  default "json avro"; QUERIES default "q0 q1 q2 q5 q7 q8 q11 join"
#   EVENTS   in the topic of `cost`, default 2000000; RATES of `latency`, DENSITIES of `density`; SECONDS_EACH, default 25
#   RATES_TOGETHER  events/s of `together`, rising, instead of parts of what each sustains, which takes long to find
#   ENGINES  of `latency`, default "laxity flink flink-default kafka-streams"; of `together`, "laxity flink flink-jobs flink-attached"
#   FLINK_HOME and more: see scripts/flink.sh; KAFKA_PORT and more: see scripts/kafka.sh
#
# Flink has what its documentation advises: for latency a network buffer that waits for 5 ms and a watermark each 10 ms
# (both in the file, where Laxity passes them over), objects reused, two slots' worth of parallelism on two cores, a heap
# that nothing waits for. `flink-default` is without the two for latency.
#
# Kafka Streams has no SQL: java/laxity/race has q0, q1, q2, q11 and the join in its DSL, for JSON, with two threads, no lingering and
# windows that close at once. Not run there: q5 and q7, whose second aggregate would wait for rows of the next window, since time
# goes on with a stage's own rows alone; q8, a join of two windows, which it has as changes only; many queries in one process; `cost`, as it
# does not end with a topic. LaminarDB (0.17.0 of PyPI) has no type for the events' nested rows, and with them as text it read none of a
# topic's 220 000 records in 15 s: it does not take part.
set -euo pipefail
cd "$(dirname "$0")/.."

for needed in java mvn pip curl python3; do
    command -v "$needed" >/dev/null && continue
    echo "race: $needed is missing; on Debian: apt-get install openjdk-17-jdk-headless maven python3-pip curl" >&2
    exit 1
done
if [ "${SMALL:-}" = 1 ]; then
    ROUNDS=${ROUNDS:-1} FORMATS=${FORMATS:-json} QUERIES=${QUERIES:-q0 q5} EVENTS=${EVENTS:-100000} RATES=${RATES:-1000}
    DENSITIES=${DENSITIES:-4} SECONDS_EACH=${SECONDS_EACH:-12}
fi
LAXITY=$(realpath "${LAXITY:-${CARGO_TARGET_DIR:-target}/release/laxity}")
export LAXITY OUT=${OUT:-out/race} PHASES=${PHASES:-cost latency together density}
export ROUNDS=${ROUNDS:-3} FORMATS=${FORMATS:-json avro} QUERIES=${QUERIES:-q0 q1 q2 q5 q7 q8 q11 join}
export EVENTS=${EVENTS:-2000000} RATES=${RATES:-} RATES_TOGETHER=${RATES_TOGETHER:-} ENGINES=${ENGINES:-}
export DENSITIES=${DENSITIES:-10 100 300} SECONDS_EACH=${SECONDS_EACH:-25}
export FLINK_HOME=${FLINK_HOME:-$PWD/target/flink-${FLINK_VERSION:-2.3.0}}
# Each windowed operator of a job wants a part of what is managed: with less, a job of three hundred fails. What it does not
# touch is not taken.
export HEAP_MB=${HEAP_MB:-2048} NETWORK=${NETWORK:-512m} MANAGED=${MANAGED:-8g}
export JARS=${JARS:-org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2 org.apache.flink:flink-sql-avro:2.3.0}
export KAFKA_PORT=${KAFKA_PORT:-19292}
# A machine that is stopped for a while is not a lost one; and tasks of three hundred queries take more than 10 s to be deployed.
export FLINK_PROPERTIES="${FLINK_PROPERTIES:-}
heartbeat.timeout: 600000
pekko.ask.timeout: 300 s"
for file in scripts/race/*.py; do (cd scripts/race && python3 -B -m doctest "$(basename "$file")"); done
scripts/flink.sh install || { echo "race: Flink could not be installed" >&2; exit 1; }
scripts/kafka.sh install || { echo "race: Kafka could not be installed" >&2; exit 1; }
mkdir -p "$OUT"
streams=${STREAMS_HOME:-$PWD/target/kafka-streams-4.3.1}
export STREAMS_CLASSES="$streams/classes:$streams/lib/*"
if [ ! -e "$streams/lib/kafka-streams-4.3.1.jar" ]; then
    mkdir -p "$streams"
    cat >"$streams/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>laxity</groupId><artifactId>streams</artifactId><version>1</version>
  <dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-streams</artifactId><version>4.3.1</version></dependency></dependencies>
</project>
POM
    mvn -q -B -Dstyle.color=never -f "$streams/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=lib
fi
javac -nowarn -d "$streams/classes" -cp "$streams/lib/*" java/laxity/race/*.java
KAFKA_DATA=$(mktemp -d)
export KAFKA_DATA
trap 'scripts/flink.sh stop; scripts/kafka.sh stop; rm -rf "$KAFKA_DATA"' EXIT
# The broker and who sends go before the engines (where the user may), as if they were on a machine of their own.
nice -n -10 scripts/kafka.sh start >/dev/null
python3 -B scripts/race/race.py
