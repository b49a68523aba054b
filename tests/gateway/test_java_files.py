"""Every call of Java's own ways to a file, a program or a database in the image's jars is reviewed: `java_files.txt`.

Hadoop's file system is confined, but a library may open files without it. A call that a new version brings is seen here.
"""

from __future__ import annotations

import re
import runpy
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparksql.gateway.spark.jvm import spark_home
from tests.support.default_class import image_connectors
from tests.support.java_calls import calls
from tests.support.maven import REPOSITORY

REVIEWED = Path(__file__).with_name("java_files.txt")
# Where SQL gives the arguments: each method is listed for itself.
REACHABLE = (
    "org.apache.avro.", "org.apache.hadoop.hive.ql.udf.", "org.apache.hadoop.hive.serde2.", "org.apache.iceberg.Files",
    "org.apache.parquet.", "org.apache.spark.sql.catalyst.", "org.apache.spark.sql.execution.datasources.",
    "org.apache.spark.sql.hive.", "org.apache.spark.sql.util.", "org.apache.hadoop.mapred.", "org.apache.hadoop.mapreduce.",
)  # fmt: skip
_ALL = ""
# Of a class: the methods that open, look at or change a file, or all.
_WAYS = {
    "java/io/File": "canRead canWrite createNewFile createTempFile delete deleteOnExit exists isDirectory isFile lastModified length "
    "list listFiles mkdir mkdirs renameTo setExecutable setLastModified setReadable setWritable",
    **dict.fromkeys(
        ("java/io/FileInputStream", "java/io/FileOutputStream", "java/io/FileReader", "java/io/FileWriter", "java/io/RandomAccessFile"),
        "<init>",
    ),
    **dict.fromkeys(("java/util/jar/JarFile", "java/util/zip/ZipFile", "java/lang/ProcessBuilder"), "<init>"),
    **dict.fromkeys(("java/nio/channels/AsynchronousFileChannel", "java/nio/channels/FileChannel"), "open"),
    **dict.fromkeys(("com/google/common/io/Files", "java/nio/file/Files", "org/apache/commons/io/FileUtils"), _ALL),
    "java/lang/Runtime": "exec",
    "java/net/URL": "getContent openConnection openStream",
    "java/sql/Driver": "connect",
    "java/sql/DriverManager": "getConnection",
    "scala/io/Source$": "fromFile fromURI fromURL",
    **dict.fromkeys(("javax/xml/parsers/DocumentBuilder", "javax/xml/parsers/SAXParser", "org/xml/sax/XMLReader"), "parse"),
    "javax/xml/validation/SchemaFactory": "newSchema",
    **dict.fromkeys(("javax/xml/xpath/XPath", "javax/xml/xpath/XPathExpression"), "evaluate"),
    "javax/xml/stream/XMLInputFactory": "createXMLEventReader createXMLStreamReader",
}  # fmt: skip
# What is in a class file that calls one of these: the class's name, as a constant (tag, length, text).
_MAY_CALL = re.compile(b"|".join(re.escape(b"\x01" + len(name).to_bytes(2, "big") + name.encode()) for name in _WAYS))
# Names that compilers make: `lambda$list$2` and `$anonfun$list$2` are in `list`.
_MADE = re.compile(r"(?:lambda|\$anonfun)\$(.+?)(?:\$\d+)*")


def is_way(owner: str, name: str, _type: str) -> bool:
    return owner in _WAYS and (_WAYS[owner] == _ALL or name in _WAYS[owner].split())


def callers(jar: Path) -> Iterator[str]:
    """Yields class and method of each call, as `a.b.C#m`."""
    with zipfile.ZipFile(jar) as classes:
        for entry in classes.namelist():
            if not entry.endswith(".class") or entry.startswith("META-INF/"):
                continue
            content = classes.read(entry)
            if _MAY_CALL.search(content):
                name = entry.removesuffix(".class").replace("/", ".")
                for call in calls(content, is_way):
                    made = _MADE.fullmatch(call.method)
                    yield f"{name}#{made[1] if made else call.method}"


def image_jars() -> list[Path]:
    left_out: tuple[str, ...] = runpy.run_path(str(REPOSITORY / "images/session/build/spark_home.py"))["UNUSED_JARS"]
    sparks = (spark_home() / "jars").glob("*.jar")
    return [*(jar for jar in sparks if not any(jar.match(each) for each in left_out)), *map(Path, image_connectors())]


@pytest.fixture(scope="module")
def found() -> set[str]:
    return {caller for jar in image_jars() for caller in callers(jar)}


def reviewed() -> list[str]:
    lines = (line.partition("  ") for line in REVIEWED.read_text(encoding="utf-8").splitlines())
    entries = [(entry, reason.strip()) for entry, _, reason in lines if entry.strip() and not entry.startswith("#")]
    assert all(reason for _, reason in entries), [entry for entry, reason in entries if not reason]
    return [entry for entry, _ in entries]


def covers(entry: str, caller: str) -> bool:
    """A package's entry ends with a dot, a class's holds for all of its methods and for the classes within it."""
    return caller.startswith(entry) and (entry.endswith(".") or caller == entry or caller[len(entry)] in "#$")


def test_each_call_of_a_way_to_files_is_reviewed_and_no_entry_is_stale(found: set[str]) -> None:
    entries = reviewed()
    assert len(found) > 1500 and len(entries) == len(set(entries))
    unknown = sorted(caller for caller in found if not any(covers(entry, caller) for entry in entries))
    assert not unknown, unknown
    stale = [entry for entry in entries if not any(covers(entry, caller) for caller in found)]
    assert not stale, stale


def test_calls_that_sql_reaches_are_reviewed_method_by_method(found: set[str]) -> None:
    entries = set(reviewed())
    reachable = {caller for caller in found if caller.startswith(REACHABLE)}
    assert len(reachable) > 20
    assert not reachable - entries
