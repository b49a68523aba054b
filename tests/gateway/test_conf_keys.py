"""The reviewed configuration keys against those of the jars: a key that a new version brings is seen here before a tenant has it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from sparksql.api.conf_policy import (
    KEYS_FILE,
    NAMESPACES,
    REVIEWED,
    STATIC_KEYS,
    is_allowed,
    is_denied,
    is_reviewed,
    normalise,
)
from sparksql.domain.session import memory
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import elements, scala_object
from sparksql.gateway.sql.kafka_options import ALLOWED
from tests.support.maven import jars

from .local_spark import local_spark

# The objects of Spark and Delta that hold entries; one that is initialised registers its own.
_HOLDERS = (
    *(
        f"org.apache.spark.internal.config.{n}$"
        for n in ("Deploy", "History", "Kryo", "Network", "Python", "R", "UI", "Worker")
    ),
    *(f"org.apache.spark.internal.config.{n}$" for n in ("package", "Status", "Streaming", "Tests")),
    "org.apache.spark.deploy.k8s.Config$",
    "org.apache.spark.sql.connect.config.Connect$",
    "org.apache.spark.sql.delta.sources.DeltaSQLConf$",
    "org.apache.spark.sql.hive.HiveUtils$",
    "org.apache.spark.sql.internal.SQLConf$",
    "org.apache.spark.sql.internal.StaticSQLConf$",
)
_ICEBERG = "org.apache.iceberg.spark.SparkSQLProperties"
# What says that a key names code or a place: its words, its default, its text.
_WORDS = (
    "class classes jar jars uri uris url urls command commands provider providers dir dirs directory path paths file files"
    " location locations host hosts port ports address addresses endpoint endpoints plugin plugins extension extensions"
    " listener listeners serializer codec codecs factory impl root script executable credential credentials package packages"
    " repository repositories loader hook hooks handler handlers interceptor interceptors python committer"
)
_WORD = re.compile("^(location|cmd|url|classes|class|providers?|reporters|implementation|.*serializer)$")
_SAYS_HOW_MUCH = re.compile(r"true|false|-?[0-9]+(\.[0-9]+)?[a-zA-Z]*", re.IGNORECASE)
_CLASS = re.compile(r"(^|[ ,])(org|com|io|net|java|javax|software)\.[\w.$]+\.[A-Z]\w+")
_PLACE = re.compile(r"://|^/|^file:")
_TEXT = re.compile(
    r"[Ff]ully[- ]qualified|[Cc]lass names? |comma[- ]separated list of (classes|class names|jars|files)|Maven"
)


@dataclass(frozen=True)
class Key:
    name: str
    default: str = ""
    text: str = ""

    @property
    def looks_like_code_or_place(self) -> bool:
        if _SAYS_HOW_MUCH.fullmatch(self.default):
            return False
        last_words = (re.findall(r"[A-Z]+[a-z]*|[a-z]+", part) for part in re.split(r"[._-]", self.name))
        has_word = any(words and words[-1].lower() in _WORDS.split() for words in last_words)
        return bool(has_word or _CLASS.search(self.default) or _PLACE.search(self.default) or _TEXT.search(self.text))


@dataclass(frozen=True)
class Jars:
    """The keys of the jars. `old_names` are other names of keys, which Spark reads as those."""

    spark: tuple[Key, ...]
    hadoop: tuple[Key, ...]
    iceberg: tuple[str, ...]
    old_names: dict[str, str]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    folder = tmp_path_factory.mktemp("keys")
    connectors = jars("images/session/jars/pom.xml", "-Dspark.line=4.1")
    with local_spark(folder, connectors) as started:
        yield started


@pytest.fixture(scope="module")
def found(driver: SparkDriver) -> Jars:
    return _of_jars(driver)


def _of_jars(driver: SparkDriver) -> Jars:
    jvm = driver.jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    load = jvm.java.lang.Class.forName
    for name in _HOLDERS:
        load(name, True, loader)
    config = jvm.org.apache.spark.internal.config
    entries = [
        *_field(
            load, "org.apache.spark.internal.config.ConfigEntry$", "knownConfigs", scala_object(config, "ConfigEntry")
        ).values(),
        *scala_object(jvm.org.apache.spark.sql.internal, "SQLConf").getConfigEntries().toArray(),
    ]
    keys: dict[str, Key] = {}
    old_names: dict[str, str] = {}
    for entry in entries:
        key = str(entry.key())
        keys[key] = Key(key, str(entry.defaultValueString()), str(entry.doc()))
        old_names.update({str(old): key for old in elements(entry.alternatives())})
    alternates = _field(
        load, "org.apache.spark.SparkConf$", "allAlternatives", scala_object(jvm.org.apache.spark, "SparkConf")
    )
    old_names.update({str(pair._1()): str(pair._2()._1()) for pair in elements(alternates)})
    return Jars(tuple(keys.values()), tuple(_of_hadoop(jvm)), tuple(_of_iceberg(jvm)), old_names)


def _field(load: Any, owner: str, name: str, instance: Any) -> Any:
    field = load(owner).getDeclaredField(name)
    field.setAccessible(True)
    return field.get(instance)


def _field_of(value: Any, name: str) -> Any:
    field = value.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(value)


def _of_hadoop(jvm: Any) -> Iterator[Key]:
    conf = jvm.org.apache.hadoop.conf.Configuration(True)
    for resource in ("hdfs-default.xml", "mapred-default.xml", "yarn-default.xml"):
        conf.addResource(resource)
    defaults = conf.iterator()
    while defaults.hasNext():
        entry = defaults.next()
        yield Key(str(entry.getKey()), str(entry.getValue()))
    for variable in jvm.java.lang.Class.forName("org.apache.hadoop.hive.conf.HiveConf$ConfVars").getEnumConstants():
        named = str(variable.toString())
        yield Key(named, str(variable.getDefaultValue()), str(variable.getDescription()))
    for attribute in jvm.java.lang.Class.forName("org.apache.orc.OrcConf").getEnumConstants():
        yield Key(str(attribute.getAttribute()), str(attribute.getDefaultValue()), str(attribute.getDescription()))


def _of_iceberg(jvm: Any) -> Iterator[str]:
    for field in jvm.java.lang.Class.forName(_ICEBERG).getDeclaredFields():
        if str(field.getType().getSimpleName()) == "String":
            field.setAccessible(True)
            value = str(field.get(None))
            if value.startswith("spark."):
                yield value


def _withheld() -> set[str]:
    """The keys that were read and are not given by a pattern."""
    return {normalise(line[1:]) for line in KEYS_FILE.read_text().splitlines() if line.startswith("-")}


def _explained() -> set[str]:
    return {normalise(line.partition("#")[0]) for line in KEYS_FILE.read_text().splitlines() if "  # " in line}


@pytest.mark.thorough
def test_kafkas_options_that_sql_may_give_name_neither_code_nor_files(driver: SparkDriver) -> None:
    clients = driver.jvm.org.apache.kafka.clients
    definitions = (clients.consumer.ConsumerConfig.configDef(), clients.producer.ProducerConfig.configDef())
    types = {
        str(entry.getKey()): str(_field_of(entry.getValue(), "type"))
        for definition in definitions
        for entry in definition.configKeys().entrySet()
    }
    assert len(types) > 100, types
    assert set(types) >= ALLOWED, ALLOWED - set(types)
    named = {key for key in types if types[key] == "CLASS" or _WORD.search(key.rpartition(".")[2]) or "provider" in key}
    named.add("partition.assignment.strategy")  # takes classes by a name that does not tell
    assert named & ALLOWED == set()
    assert {"ssl.truststore.location", "sasl.kerberos.kinit.cmd", "partitioner.class", "security.providers"} <= named


@pytest.mark.parametrize(
    "conf",
    [
        {},
        {memory.OVERHEAD: "3g"},
        {memory.OVERHEAD: "700", memory.FACTOR: "2"},
        {memory.FACTOR: "0.37"},
        {memory.MIN_OVERHEAD: "1g"},
        {memory.OFF_HEAP: "true", memory.OFF_HEAP_SIZE: "2g"},
        {memory.OFF_HEAP_SIZE: "2g"},
        {memory.PYTHON: "1gb", memory.OVERHEAD: "1m"},
    ],
)
def test_the_memory_of_an_executors_pod_is_what_spark_counts(driver: SparkDriver, conf: dict[str, str]) -> None:
    jvm = driver.jvm
    config = jvm.org.apache.spark.SparkConf(False).set("spark.executor.memory", "5000m")
    for key, value in conf.items():
        config.set(key, value)
    least = int(config.getSizeAsMb(memory.MIN_OVERHEAD, "384m"))
    factor = float(config.get(memory.FACTOR, "0.1"))
    nothing = jvm.PythonUtils.toScalaMap({})
    profile = scala_object(jvm.org.apache.spark.resource, "ResourceProfile")
    profile.clearDefaultProfile()
    try:
        spark = profile.getResourcesForClusterManager(0, nothing, least, factor, config, True, nothing).totalMemMiB()
    finally:
        profile.clearDefaultProfile()
    assert memory.pod_mib(5000, conf) == int(spark)


def test_reviewed_keys_that_a_session_has_from_its_start_on_are_known(driver: SparkDriver) -> None:
    known = driver.jvm.org.apache.spark.sql.internal.SQLConf
    keys = [line.split("#")[0].strip() for line in KEYS_FILE.read_text().splitlines() if line.startswith("spark.sql.")]
    assert {normalise(key) for key in keys if known.isStaticConfigKey(key)} == STATIC_KEYS


def test_every_spark_sql_key_is_reviewed_denied_or_withheld(found: Jars) -> None:
    """A new one belongs into conf_keys.txt: as it is, behind a `-`, or into conf_policy.py if nobody may set it."""
    names = [key.name for key in found.spark if key.name.startswith("spark.sql.")] + list(found.iceberg)
    assert len(names) > 700, names
    withheld = _withheld()
    unknown = [n for n in names if not is_denied(n) and not is_reviewed(n) and normalise(n) not in withheld]
    missing = sorted(n for n in unknown if not n.endswith("."))
    assert not missing, "\n".join(missing)


def test_no_conf_key_that_names_code_or_a_place_can_be_set(found: Jars) -> None:
    """Neither by a pattern nor by its full name; what only looks like it says why it is harmless."""
    keys = [*found.spark, *found.hadoop]
    assert len(keys) > 3000, len(keys)
    harmless = _withheld() | _explained()
    open_keys = [
        k for k in keys if k.looks_like_code_or_place and not is_denied(k.name) and normalise(k.name) not in harmless
    ]
    assert not open_keys, "\n".join(sorted(f"{key.name} = {key.default[:60]}" for key in open_keys))


def test_patterns_give_no_key_that_was_not_reviewed(found: Jars) -> None:
    everything = ("*", "spark.*", "spark.sql.*", *(f"{first}.*" for first in sorted(NAMESPACES)))
    given = {key.name for key in (*found.spark, *found.hadoop) if is_allowed(key.name, everything)}
    assert {normalise(name) for name in given} <= REVIEWED


def test_the_first_words_of_all_keys_are_known(found: Jars) -> None:
    firsts = {normalise(key.name).partition(".")[0] for key in (*found.spark, *found.hadoop)}
    assert firsts <= NAMESPACES, firsts - NAMESPACES


def test_an_old_name_of_a_denied_conf_key_cannot_be_allowed(found: Jars) -> None:
    assert "spark.yarn.executor.memoryOverhead" in found.old_names, found.old_names
    counted = ("spark.executor.memory", "spark.memory.offHeap", "spark.executor.pyspark")
    ways = {
        old: new
        for old, new in found.old_names.items()
        if (is_denied(new) or new.startswith(counted)) and is_allowed(old, ["*", old])
    }
    assert ways == {}


def test_the_list_names_keys_that_are_there(found: Jars) -> None:
    """Those of Spark SQL; the settings of RocksDB and the keys of connectors are no entries of Spark."""
    known = {normalise(key.name) for key in found.spark} | {normalise(name) for name in found.iceberg}
    ours = (
        name for name in REVIEWED | _withheld() if name.startswith(("spark.sql.", "spark.databricks.", "spark.wap."))
    )
    gone = [name for name in ours if name not in known and ".rocksdb." not in name]
    assert gone == []
