#!/usr/bin/env bash
# A registry of schemas to test with, Apicurio's, which speaks Confluent's protocol: install | start | stop | url.
#
#   REGISTRY_HOME   where it is put; default target/apicurio-VERSION
#   REGISTRY_DATA   its log; default REGISTRY_HOME
#   REGISTRY_PORT   the port of 127.0.0.1 that it listens on, default 19081
#
# It keeps schemas in memory: what was registered is gone when it stops. It comes from Maven Central (142 MB): no other
# download. Needs Java 17 or newer, mvn and curl.
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=2.6.13.Final
HOME_DIR=${REGISTRY_HOME:-$PWD/target/apicurio-$VERSION}
DATA=${REGISTRY_DATA:-$HOME_DIR}
PORT=${REGISTRY_PORT:-19081}
PID_FILE=$DATA/registry.pid
JAR=apicurio-registry-app-$VERSION-runner.jar

install() {
    [ -e "$HOME_DIR/$JAR" ] && return
    local work
    work=$(mktemp -d)
    mvn -q -B -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
        -Dartifact="io.apicurio:apicurio-registry-app:$VERSION:tar.gz:all" -DoutputDirectory="$work"
    mkdir -p "$HOME_DIR"
    tar -xzf "$work"/*.tar.gz -C "$HOME_DIR"
    rm -rf "$work"
}

start() {
    install
    if [ -e "$PID_FILE" ] && kill -0 "$(cat "$PID_FILE")" 2>/dev/null; then
        echo "already started: $(url)" >&2
        return
    fi
    mkdir -p "$DATA"
    # Compatible by Confluent's default, which is not Apicurio's.
    java -Xms64m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dquarkus.http.host=127.0.0.1 -Dquarkus.http.port="$PORT" \
        -Dregistry.rules.global.compatibility=BACKWARD -jar "$HOME_DIR/$JAR" >>"$DATA/registry.log" 2>&1 </dev/null &
    echo $! >"$PID_FILE"
    for _ in $(seq 240); do
        curl -fs -m 2 -o /dev/null "$(url)/subjects" && { url; return; }
        kill -0 "$(cat "$PID_FILE")" 2>/dev/null || break
        sleep 0.25
    done
    echo "the registry does not come up; see $DATA/registry.log" >&2
    return 1
}

stop() {
    [ -e "$PID_FILE" ] || return 0
    local pid
    pid=$(cat "$PID_FILE")
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 50); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || true
    rm -f "$PID_FILE"
}

url() { echo "http://127.0.0.1:$PORT/apis/ccompat/v7"; }

case ${1:-} in
install | start | stop | url) "$1" ;;
*) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
