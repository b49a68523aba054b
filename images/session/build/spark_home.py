"""Makes SPARK_HOME out of the pip package of Spark and leaves out what a SQL session never loads.

Usage: spark_home.py FOLDER SPARK_HOME. Moves jars and launch scripts out of the package in FOLDER and drops unused jars, native
libraries of other systems and parts of the package. Invariant: what is dropped is not reachable from SQL, streaming, Connect,
Thrift, Hive or Kubernetes; `pyspark.ml`, the Scala shell and YARN are given up on purpose.
"""

from __future__ import annotations

import fnmatch
import platform
import shutil
import sys
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

MLLIB_JARS = (
    "spark-mllib-local_*", "breeze*", "spire*", "cats-kernel_*", "algebra_*", "arpack*", "lapack*", "JTransforms*",
    "JLargeArrays*",
)  # fmt: skip
SHELL_JARS = ("spark-repl_*", "scala-compiler-*", "connect-repl")
OTHER_CLUSTER_JARS = ("spark-yarn_*",)
OTHER_SYSTEM_JARS = ("*-osx-*", "*-windows-*", "*-riscv64.jar", "netty-codec-native-quic-*")
# How jars name the processors that Linux runs on here, by what the machine calls itself.
PROCESSORS = {"x86_64": ("amd64", "linux64", "x86_64"), "aarch64": ("aarch64", "aarch_64")}
OTHER_PROCESSORS = tuple(
    name for machine, names in PROCESSORS.items() if machine != platform.machine() for name in names
)
OTHER_PROCESSOR_JARS = tuple(f"netty-*-linux-{name}.jar" for name in OTHER_PROCESSORS)
# Hive's own client, whose driver sends a file that a URL names; nothing of Spark's needs it. commons-dbcp stays: the metastore, which
# the demo runs from this image, loads it for each DROP DATABASE (TxnHandler of Hive 2.3).
CLIENT_JARS = ("hive-jdbc-*", "hive-beeline-*")
UNUSED_JARS = (*MLLIB_JARS, *SHELL_JARS, *CLIENT_JARS, *OTHER_CLUSTER_JARS, *OTHER_SYSTEM_JARS, *OTHER_PROCESSOR_JARS)

# Of spark-mllib, Connect needs one class and those that it is made of, to close a session's cache of models. More would do harm:
# session creation would load its service provider (half a second), and Kryo loads vectors and models by name where they are, which
# fails without their mathematics.
MLLIB_ENTRIES = ("org/apache/spark/ml/util/*", "org/apache/spark/ml/param/*", "org/apache/spark/ml/[A-Z]*.class")

# Native libraries that a jar carries for systems this image does not run on.
FOREIGN_NATIVES = {
    "rocksdbjni-*.jar": (
        "*-musl.so", "*-linux32.so", "*-ppc64le.so", "*-s390x.so", "*-riscv64.so", "*.jnilib", "*.dll",
        *(f"*-{name}.so" for name in OTHER_PROCESSORS),
    ),
    "zstd-jni-*.jar": (
        "aix/*", "darwin/*", "freebsd/*", "win/*",
        *(f"linux/{arch}/*" for arch in ("arm", "i386", "loongarch64", "mips64", "ppc64", "ppc64le", "riscv64", "s390x")),
        *(f"linux/{name}/*" for name in OTHER_PROCESSORS),
    ),
}  # fmt: skip

UNUSED_PYTHON = ("data", "examples", "python", "sbin")


def main(folder: Path, spark_home: Path) -> None:
    package = folder / "pyspark"
    spark_home.mkdir(parents=True, exist_ok=True)
    shutil.move(package / "jars", spark_home / "jars")
    shutil.move(package / "bin", spark_home / "bin")
    drop_jars(spark_home / "jars")
    for jar in (spark_home / "jars").glob("spark-mllib_*.jar"):
        keep_entries(jar, lambda name: matches(name, MLLIB_ENTRIES))
    for jar_pattern, foreign in FOREIGN_NATIVES.items():
        for jar in (spark_home / "jars").glob(jar_pattern):
            keep_entries(jar, partial(is_native_here, foreign))
    for name in UNUSED_PYTHON:
        shutil.rmtree(package / name, ignore_errors=True)


def drop_jars(folder: Path) -> None:
    """Deletes the jars (and folders of jars) of `folder` that UNUSED_JARS names."""
    for path in list(folder.iterdir()):
        if matches(path.name, UNUSED_JARS):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def is_native_here(foreign: tuple[str, ...], name: str) -> bool:
    return not matches(name, foreign)


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def keep_entries(jar: Path, is_kept: Callable[[str], bool]) -> None:
    """Writes `jar` anew with the entries whose names are wanted."""
    smaller = jar.with_suffix(".tmp")
    with zipfile.ZipFile(jar) as source, zipfile.ZipFile(smaller, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            if is_kept(entry.filename):
                target.writestr(entry, source.read(entry))
    smaller.replace(jar)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
