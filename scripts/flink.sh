#!/usr/bin/env bash
# A small Flink session cluster, to try `laxity attach` with: install | start | stop | sql FILE | url.
#
#   FLINK_VERSION  2.3.0 (default) or 1.20.5
#   FLINK_HOME     where it is put and run from; default target/flink-VERSION
#   FLINK_HOST     the address it listens on, default 127.0.0.1
#   FLINK_PORT     REST port, default 18081; the SQL gateway listens two above
#   TASKMANAGERS   how many, default 1
#   SQL            no: without the SQL gateway, where only jars are run
#   SLOTS          of each TaskManager, default 8
#   MANAGED        memory for what is sorted and aggregated in all of these, default 128m
#   HEAP_MB        heap of each TaskManager, default 640; NETWORK, memory for what its tasks send each other, default 96m
#   JARS           connectors and formats beside Flink's own, as Maven names them, for all who run jobs
#   FETCH_MS       how often metrics are renewed, default 1000; 0: never
#   FLINK_PROPERTIES  more lines of configuration
#
# Flink's own distribution comes from PyPI (its jars) and Maven Central (the SQL gateway): no other download. Needs
# Java 11 or newer, pip, mvn, curl.
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=${FLINK_VERSION:-2.3.0}
HOME_DIR=${FLINK_HOME:-$PWD/target/flink-$VERSION}
HOST=${FLINK_HOST:-127.0.0.1}
PORT=${FLINK_PORT:-18081}
GATEWAY=$((PORT + 2))
export FLINK_CONF_DIR=$HOME_DIR/conf FLINK_LOG_DIR=$HOME_DIR/log FLINK_PID_DIR=$HOME_DIR
export FLINK_PLUGINS_DIR=$HOME_DIR/plugins
case $VERSION in
1.20.5) GATEWAY_JAR=1.20.3 ;; # the last 1.20 gateway on Maven Central's mirrors
*) GATEWAY_JAR=$VERSION ;;
esac

install() {
    install_flink
    for jar in ${JARS:-}; do
        [ -e "$HOME_DIR/jars/$(file_of "$jar")" ] ||
            mvn -q -B dependency:copy -Dartifact="$jar" -DoutputDirectory="$HOME_DIR/jars"
    done
}

file_of() { # GROUP:NAME:VERSION
    local name=${1#*:}
    echo "${name%%:*}-${name##*:}.jar"
}

install_flink() {
    [ -e "$HOME_DIR/lib" ] && return
    local work
    work=$(mktemp -d)
    # Else it would run again when the caller returns, who knows no such folder.
    trap 'rm -rf "$work"; trap - RETURN' RETURN
    mkdir -p "$HOME_DIR"/{log,conf,opt,bin}
    pip download -q --no-deps --only-binary=:all: --python-version 311 --implementation cp -d "$work" apache-flink==2.3.0
    (cd "$work" && python3 -m zipfile -e apache_flink-*.whl scripts)
    case $VERSION in
    1.*)
        pip download -q --no-deps -d "$work" "apache-flink-libraries==$VERSION"
        tar xzf "$work"/apache_flink_libraries-*.tar.gz -C "$HOME_DIR" --strip-components=2 --wildcards '*/deps/*'
        ;;
    *)
        pip download -q --no-deps --only-binary=:all: -d "$work" "apache-flink-libraries==$VERSION"
        (cd "$work" && python3 -m zipfile -e apache_flink_libraries-*.whl libraries)
        # A real directory: Flink's scripts look for its jars with find, which does not follow a link.
        cp -r "$work"/libraries/pyflink/{lib,plugins} "$HOME_DIR"/
        cp "$work"/libraries/pyflink/opt/*.jar "$HOME_DIR"/opt/ 2>/dev/null || true
        ;;
    esac
    cp "$work"/scripts/pyflink/conf/* "$HOME_DIR"/conf/
    mvn -q -B dependency:copy -Dartifact="org.apache.flink:flink-sql-gateway:$GATEWAY_JAR" -DoutputDirectory="$HOME_DIR/opt"
}

configure() {
    cat >"$FLINK_CONF_DIR/config.yaml" <<CONF
jobmanager.rpc.address: $HOST
jobmanager.rpc.port: $((PORT + 1))
jobmanager.bind-host: $HOST
jobmanager.memory.process.size: 768m
taskmanager.host: $HOST
taskmanager.bind-host: $HOST
taskmanager.numberOfTaskSlots: ${SLOTS:-8}
rest.address: $HOST
rest.port: $PORT
rest.bind-address: $HOST
sql-gateway.endpoint.rest.address: $HOST
sql-gateway.endpoint.rest.bind-address: $HOST
sql-gateway.endpoint.rest.port: $GATEWAY
cluster.registration.error-delay: 200 ms
metrics.fetcher.update-interval: ${FETCH_MS:-1000}
parallelism.default: 1
${FLINK_PROPERTIES:-}
CONF
    rm -f "$FLINK_CONF_DIR/flink-conf.yaml"
}

# The processes, started as the shell scripts of Flink would but without their 9 s of set-up. Sizes are what those
# scripts compute for a TaskManager of 1400 MB.
start() {
    install
    [ -e "$HOME_DIR/run.pids" ] && { echo "already started: $(url)" >&2; return; }
    configure
    local classpath log="$HOME_DIR/log" opens="--add-exports=java.base/sun.net.util=ALL-UNNAMED"
    classpath=$(find "$HOME_DIR/lib" -name '*.jar' | sort | paste -sd:)
    for jar in ${JARS:-}; do classpath=$classpath:$HOME_DIR/jars/$(file_of "$jar"); done
    for package in lang lang.invoke lang.reflect io net nio text time util util.concurrent util.concurrent.atomic util.concurrent.locks; do
        opens="$opens --add-opens=java.base/java.$package=ALL-UNNAMED"
    done
    launch() { # NAME HEAP MAIN ARGS...
        local name=$1 heap=$2
        shift 2
        # shellcheck disable=SC2086
        setsid java -Xmx"$heap" -Xms"$heap" $opens -Dlog.file="$log/$name.log" \
            -Dlog4j.configurationFile="file:$FLINK_CONF_DIR/log4j-console.properties" \
            -cp "$classpath${EXTRA_CLASSPATH:+:$EXTRA_CLASSPATH}" "$@" >"$log/$name.out" 2>&1 </dev/null &
        echo $! >>"$HOME_DIR/run.pids"
    }
    launch jobmanager 400m org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint \
        --configDir "$FLINK_CONF_DIR" --executionMode cluster
    for n in $(seq "${TASKMANAGERS:-1}"); do
        launch "taskmanager-$n" "${HEAP_MB:-640}m" org.apache.flink.runtime.taskexecutor.TaskManagerRunner --configDir "$FLINK_CONF_DIR" \
            -D taskmanager.cpu.cores=8.0 -D taskmanager.memory.task.heap.size="$((${HEAP_MB:-640} - 128))m" \
            -D taskmanager.memory.task.off-heap.size=0b -D taskmanager.memory.framework.heap.size=128m \
            -D taskmanager.memory.framework.off-heap.size=128m -D taskmanager.memory.managed.size="${MANAGED:-128m}" \
            -D taskmanager.memory.network.min="${NETWORK:-96m}" -D taskmanager.memory.network.max="${NETWORK:-96m}" \
            -D taskmanager.memory.jvm-metaspace.size=256m -D taskmanager.memory.jvm-overhead.min=192m \
            -D taskmanager.memory.jvm-overhead.max=192m
    done
    if [ "${SQL:-yes}" != no ]; then
        EXTRA_CLASSPATH=$(find "$HOME_DIR/opt" -name 'flink-sql-gateway*.jar' -o -name 'flink-python*.jar' | paste -sd:) \
            launch gateway 400m org.apache.flink.table.gateway.SqlGateway
        await "http://$HOST:$GATEWAY/info" productName
    fi
    await "http://$HOST:$PORT/taskmanagers" '"id"'
    url
}

await() { # URL TEXT
    for _ in $(seq 240); do
        curl -fs -m 2 "$1" 2>/dev/null | grep -q "$2" && return
        sleep 0.5
        while read -r pid; do
            kill -0 "$pid" 2>/dev/null && continue
            echo "a process of the cluster has ended; see $HOME_DIR/log" >&2
            return 1
        done <"$HOME_DIR/run.pids"
    done
    echo "nothing at $1 after two minutes; see $HOME_DIR/log" >&2
    return 1
}

stop() {
    [ -e "$HOME_DIR/run.pids" ] || return 0
    while read -r pid; do kill "$pid" 2>/dev/null || true; done <"$HOME_DIR/run.pids"
    # The next start needs their ports.
    for _ in $(seq 50); do
        # shellcheck disable=SC2046
        kill -0 $(cat "$HOME_DIR/run.pids") 2>/dev/null || break
        sleep 0.2
    done
    rm -f "$HOME_DIR/run.pids"
}

url() { echo "http://$HOST:$PORT"; }

# Runs the statements of a file in one session; prints the ids of the jobs they start.
sql() { python3 scripts/flink_sql.py "http://$HOST:$GATEWAY" "$1"; }

case ${1:-} in
install | start | stop | url) "$1" ;;
sql) sql "$2" ;;
*) sed -n '2,17s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
