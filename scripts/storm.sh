#!/usr/bin/env bash
# Puts Storm's jars, from Maven Central, where STORM_HOME says; default target/storm-VERSION. Needs mvn.
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=2.8.3
HOME_DIR=${STORM_HOME:-$PWD/target/storm-$VERSION}
[ -e "$HOME_DIR/lib/storm-server-$VERSION.jar" ] && exit

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
dependency() { echo "<dependency><groupId>org.apache.storm</groupId><artifactId>$1</artifactId><version>$VERSION</version></dependency>"; }
cat >"$work/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>laxity</groupId><artifactId>storm</artifactId><version>1</version>
  <dependencies>$(dependency storm-client)$(dependency storm-server)</dependencies>
</project>
POM
mvn -q -B -Dstyle.color=never -f "$work/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$work/lib"
mkdir -p "$HOME_DIR"
mv "$work/lib" "$HOME_DIR/lib"
