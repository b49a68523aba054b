"""Makes SPARK_HOME out of the pip package of Spark and leaves out what a SQL session never loads.

Usage: spark_home.py SITE_PACKAGES SPARK_HOME. Moves jars and launch scripts out of the package and drops unused jars, native
libraries of other systems and packages' own tests. Invariant: what is dropped is not reachable from SQL, streaming, Connect,
Thrift, Hive or Kubernetes; `pyspark.ml`, the Scala shell and YARN are given up on purpose.
"""

from __future__ import annotations

import fnmatch
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
UNUSED_JARS = (*MLLIB_JARS, *SHELL_JARS, *OTHER_CLUSTER_JARS, *OTHER_SYSTEM_JARS)

# Of spark-mllib, Connect needs one class and those that it is made of, to close a session's cache of models. More would do harm:
# session creation would load its service provider (half a second), and Kryo loads vectors and models by name where they are, which
# fails without their mathematics.
MLLIB_ENTRIES = ("org/apache/spark/ml/util/*", "org/apache/spark/ml/param/*", "org/apache/spark/ml/[A-Z]*.class")

# Native libraries that a jar carries for systems this image does not run on; linux on amd64 and arm64 stays.
FOREIGN_NATIVES = {
    "rocksdbjni-*.jar": (
        "*-musl.so", "*-linux32.so", "*-ppc64le.so", "*-s390x.so", "*-riscv64.so", "*.jnilib", "*.dll",
    ),
    "zstd-jni-*.jar": (
        "aix/*", "darwin/*", "freebsd/*", "win/*",
        *(f"linux/{arch}/*" for arch in ("arm", "i386", "loongarch64", "mips64", "ppc64", "ppc64le", "riscv64", "s390x")),
    ),
}  # fmt: skip

UNUSED_PYTHON = (
    "pyspark/data", "pyspark/examples", "pyspark/python", "pyspark/sbin", "pandas/tests", "pyarrow/include", "pyarrow/src",
    "pyarrow/tests", "numpy/*/tests", "numpy/_core/include",
)  # fmt: skip


def main(site_packages: Path, spark_home: Path) -> None:
    package = site_packages / "pyspark"
    spark_home.mkdir(parents=True)
    shutil.move(package / "jars", spark_home / "jars")
    shutil.move(package / "bin", spark_home / "bin")
    drop_jars(spark_home / "jars")
    for jar in (spark_home / "jars").glob("spark-mllib_*.jar"):
        keep_entries(jar, lambda name: matches(name, MLLIB_ENTRIES))
    for jar_pattern, foreign in FOREIGN_NATIVES.items():
        for jar in (spark_home / "jars").glob(jar_pattern):
            keep_entries(jar, partial(is_native_here, foreign))
    for pattern in UNUSED_PYTHON:
        for path in site_packages.glob(pattern):
            shutil.rmtree(path)


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
