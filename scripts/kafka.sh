#!/usr/bin/env bash
# A Kafka broker of one node to test with: install | start | stop | kill | topic … |
# delete-records TOPIC PARTITION OFFSET | url.
#
#   KAFKA_HOME   where it is put; default target/kafka-VERSION
#   KAFKA_DATA   its log, configuration and topics; default KAFKA_HOME/data
#   KAFKA_PORT   the port of 127.0.0.1 that it listens on, default 19092; its controller has the next one, and the one
#                behind asks for TLS and a password: laxity, hunter2, certificates signed by KAFKA_DATA/ca.pem
#
# `kill` ends it as a power cut would, and `start` goes on from what was on disk. `topic --create --topic t --partitions 3`
# and the like is Kafka's own tool. Kafka comes from Maven Central: no other download. Needs Java 17 or newer, mvn and openssl.
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=4.3.1
HOME_DIR=${KAFKA_HOME:-$PWD/target/kafka-$VERSION}
DATA=${KAFKA_DATA:-$HOME_DIR/data}
PORT=${KAFKA_PORT:-19092}
PID_FILE=$DATA/broker.pid

install() {
    [ -e "$HOME_DIR/lib/kafka_2.13-$VERSION.jar" ] && return
    local work
    work=$(mktemp -d)
    dependency() { echo "<dependency><groupId>$1</groupId><artifactId>$2</artifactId><version>$3</version></dependency>"; }
    cat >"$work/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>laxity</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>$(dependency org.apache.kafka kafka_2.13 $VERSION)$(dependency org.apache.kafka kafka-tools $VERSION)
  $(dependency org.apache.logging.log4j log4j-slf4j-impl 2.25.3)$(dependency org.apache.logging.log4j log4j-core 2.25.3)</dependencies>
</project>
POM
    mvn -q -B -Dstyle.color=never -f "$work/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$work/lib"
    mkdir -p "$HOME_DIR"
    rm -rf "$HOME_DIR/lib"
    mv "$work/lib" "$HOME_DIR/lib"
    rm -rf "$work"
}

certify() {
    [ -e "$DATA/server.pem" ] && return
    local work
    work=$(mktemp -d)
    {
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=laxity-test -keyout "$work/ca.key" -out "$work/ca.pem"
        openssl req -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -keyout "$work/server.key" -out "$work/server.csr"
        openssl x509 -req -in "$work/server.csr" -CA "$work/ca.pem" -CAkey "$work/ca.key" -CAcreateserial -days 2 \
            -extfile <(echo "subjectAltName=IP:127.0.0.1") -out "$work/server.crt"
    } >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
    cat "$work/server.key" "$work/server.crt" "$work/ca.pem" >"$DATA/server.pem"
    mv "$work/ca.pem" "$DATA/ca.pem"
    rm -rf "$work"
}

configure() {
    mkdir -p "$DATA"
    certify
    cat >"$DATA/server.properties" <<CONF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((PORT + 1))
listeners=PLAINTEXT://127.0.0.1:$PORT,CONTROLLER://127.0.0.1:$((PORT + 1)),SECURE://127.0.0.1:$((PORT + 2))
advertised.listeners=PLAINTEXT://127.0.0.1:$PORT,SECURE://127.0.0.1:$((PORT + 2))
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL
listener.name.secure.sasl.enabled.mechanisms=PLAIN
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_laxity="hunter2";
listener.name.secure.ssl.keystore.type=PEM
listener.name.secure.ssl.keystore.location=$DATA/server.pem
log.dirs=$DATA/topics
auto.create.topics.enable=false
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.min.isr=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
CONF
    cat >"$DATA/log4j2.properties" <<CONF
rootLogger.level=WARN
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m (%c)%n
CONF
}

java_with() { # HEAP MAIN ARGS...
    local heap=$1
    shift
    exec java -Xms96m -Xmx"$heap" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile="file:$DATA/log4j2.properties" \
        -cp "$HOME_DIR/lib/*" "$@"
}

start() {
    install
    if [ -e "$PID_FILE" ] && kill -0 "$(cat "$PID_FILE")" 2>/dev/null; then
        echo "already started: $(url)" >&2
        return
    fi
    configure
    if [ ! -e "$DATA/topics/meta.properties" ]; then
        (java_with 128m kafka.tools.StorageTool format -t AAAAAAAAAAAAAAAAAAAAAA -c "$DATA/server.properties") >"$DATA/format.log" 2>&1
    fi
    (java_with 384m kafka.Kafka "$DATA/server.properties") >>"$DATA/broker.log" 2>&1 </dev/null &
    echo $! >"$PID_FILE"
    await
    url
}

await() {
    local pid
    pid=$(cat "$PID_FILE")
    for _ in $(seq 720); do
        (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null && return
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.25
    done
    echo "the broker does not come up; see $DATA/broker.log" >&2
    return 1
}

end_with() { # SIGNAL
    [ -e "$PID_FILE" ] || return 0
    local pid
    pid=$(cat "$PID_FILE")
    kill "-$1" "$pid" 2>/dev/null || true
    # The next start needs its port.
    for _ in $(seq 100); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || true
    rm -f "$PID_FILE"
}

url() { echo "127.0.0.1:$PORT"; }

case ${1:-} in
install | start | url) "$1" ;;
stop) end_with TERM ;;
kill) end_with KILL ;;
topic)
    shift
    java_with 128m org.apache.kafka.tools.TopicCommand --bootstrap-server "$(url)" "$@"
    ;;
delete-records) # All before that one.
    printf '{"version":1,"partitions":[{"topic":"%s","partition":%s,"offset":%s}]}' "$2" "$3" "$4" >"$DATA/delete.json"
    java_with 128m org.apache.kafka.tools.DeleteRecordsCommand --bootstrap-server "$(url)" --offset-json-file "$DATA/delete.json"
    ;;
*) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
