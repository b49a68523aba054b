#!/bin/sh
# Compiles what is ours in Java. Usage: build.sh SPARK_JARS OUTPUT_JAR; needs a JDK. The jar comes first on the class path.
set -eu
here=$(dirname "$0") jars=$1 output=$2
classes=$(mktemp -d)
trap 'rm -rf "$classes"' EXIT
mkdir "$classes/ours" "$classes/tool"
# Jars of Spark name others in their manifests that it does not bring: no warnings of paths, nor of annotations that are not there.
compile() {
  javac -Xlint:all,-path,-classfile -Werror --release 17 -proc:none "$@"
}
find "$here/src" -name '*.java' >"$classes/sources"
compile -cp "$jars/*" -d "$classes/ours" "@$classes/sources"
asm=$(echo "$jars"/xbean-asm9-shaded-*.jar)
compile -cp "$asm" -d "$classes/tool" "$here/Confine.java"
java -cp "$classes/tool:$asm" Confine "$jars" "$classes/ours" "$output"
