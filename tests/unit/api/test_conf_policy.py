"""Which keys a tenant may set: what is denied, what a pattern gives, what must be named in full."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.conf_policy import (
    DENIED_KEYS,
    DENIED_PREFIXES,
    FIELDS,
    REDACTED,
    REVIEWED,
    field_of,
    is_allowed,
    is_denied,
    is_reviewed,
    matches,
    normalise,
    redacted,
    similar_key,
    wrong_value,
)

DEFAULT_CLASS = ("spark.sql.*", "spark.executor.memoryOverhead*")
CODE = [
    "spark.sql.adaptive.customCostEvaluatorClass",
    "spark.sql.artifact.copyFromLocalToFs.allowDestLocal",
    "spark.sql.cache.serializer",
    "spark.sql.catalog.mine",
    "spark.sql.catalog.mine.io-impl",
    "spark.sql.catalog.mine.uri",
    "spark.sql.catalog.mine.warehouse",
    "spark.sql.catalogImplementation",
    "spark.sql.execution.pyspark.python",
    "spark.sql.extendedExplainProviders",
    "spark.sql.extensions",
    "spark.sql.hive.metastore.jars",
    "spark.sql.hive.metastore.jars.path",
    "spark.sql.hive.metastore.sharedPrefixes",
    "spark.sql.maven.additionalRemoteRepositories",
    "spark.sql.queryExecutionListeners",
    "spark.sql.streaming.checkpointFileManagerClass",
    "spark.sql.streaming.checkpointLocation",
    "spark.sql.streaming.commitProtocolClass",
    "spark.sql.streaming.someNewProviderClass",
    "spark.sql.udt.allowedDynamicUDTClasses",
    "spark.sql.warehouse.dir",
    "spark.serializer",
    "spark.kryo.registrator",
    "spark.executor.resource.gpu.discoveryScript",
    "spark.yarn.executor.memoryOverhead",
    "spark.unsafe.offHeap",
    "spark.driver.memoryOverhead",
]
HADOOP = [
    "fs.file.impl",
    "fs.s3a.aws.credentials.provider",
    "fs.s3a.endpoint",
    "fs.defaultFS",
    "fs.viewfs.mounttable.x.homedir",
    "hadoop.security.group.mapping",
    "hive.exec.pre.hooks",
    "hive.exec.scratchdir",
    "hive.metastore.uris",
    "io.compression.codecs",
    "io.serializations",
    "ipc.client.custom.factory",
    "dfs.client.failover.proxy.provider.x",
    "javax.jdo.option.ConnectionURL",
    "mapreduce.map.output.compress.codec",
    "mapred.job.classpath.files",
    "parquet.crypto.factory.class",
    "parquet.encryption.kms.client.class",
    "avro.serde.schema.url",
]


@pytest.mark.parametrize(
    "key", [*CODE, *HADOOP, *(f"spark.hadoop.{key}" for key in HADOOP), "spark.hive.metastore.uris"]
)
def test_conf_key_that_names_code_or_a_place_is_denied_whatever_a_class_allows(key: str) -> None:
    assert is_denied(key)
    assert not is_allowed(key, [*DEFAULT_CLASS, "*", key])


@pytest.mark.parametrize(
    "key",
    [
        "spark.sql.adaptive.enabled",
        "spark.sql.ansi.enabled",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.files.maxPartitionBytes",
        "spark.sql.gateway.session.idle-timeout",
        "spark.sql.iceberg.distribution-mode",
        "spark.sql.orc.compression.codec",
        "spark.sql.parquet.compression.codec",
        "spark.sql.session.timeZone",
        "spark.sql.shuffle.partitions",
        "spark.sql.sources.default",
        "spark.sql.sources.partitionOverwriteMode",
        "spark.sql.streaming.stateStore.providerClass",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        "spark.executor.memoryOverhead",
        "spark.executor.memoryOverheadFactor",
    ],
)
def test_the_default_class_gives_what_is_needed_daily(key: str) -> None:
    assert is_allowed(key, DEFAULT_CLASS)


@pytest.mark.parametrize(
    "key", ["spark.sql.noSuchKey", "spark.sql.debug.maxToStringFields", "fs.s3a.connection.maximum"]
)
def test_unreviewed_conf_key_is_allowed_by_its_full_name_only(key: str) -> None:
    assert not is_allowed(key, ["*", "spark.*", "spark.sql.*", "spark.sql.no*", "fs.*", f"{key}*"])
    assert is_allowed(key, [key])
    assert is_allowed(key.upper(), [key])


def test_a_pattern_gives_a_teams_own_keys() -> None:
    assert is_allowed("my.url", ["my.*"])
    assert not is_allowed("my.url", ["my*", "*"])
    assert not is_allowed("my.url", ["other.*"])


def test_values_that_would_be_classes_are_checked() -> None:
    state = "spark.sql.streaming.stateStore.providerClass"
    known = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    assert wrong_value(state, known) is None
    for key in (state, f" {state.upper()} "):
        assert known in (wrong_value(key, "a.b.C") or "")
    assert wrong_value("spark.sql.streaming.stateStore.compression.codec", "zstd") is None
    assert wrong_value("spark.sql.streaming.stateStore.compression.codec", "a.b.C") == "one of lz4, lzf, snappy, zstd"
    assert wrong_value("spark.sql.shuffle.partitions", "a.b.C") is None


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("spark.executor.memory", "spec.executors.memory"),
        (" Spark.Hadoop.spark.driver.cores", "spec.driver.cpu"),
        ("spark.master", None),
    ],
)
def test_key_that_the_operator_sets_has_a_field_of_the_session(key: str, field: str | None) -> None:
    assert field_of(key) == field


def test_every_key_with_a_field_is_denied() -> None:
    assert [key for key in FIELDS if not is_denied(key)] == []


@pytest.mark.parametrize(
    ("key", "patterns", "similar"),
    [
        ("spark.sql.shufle.partitions", DEFAULT_CLASS, "spark.sql.shuffle.partitions"),
        (
            "spark.sql.adaptive.advisorypartitionsizeinbyte",
            DEFAULT_CLASS,
            "spark.sql.adaptive.advisoryPartitionSizeInBytes",
        ),
        ("spark.sql.shufle.partitions", (), None),
        ("spark.sql.shuffle.partitions", (), None),
        ("my.own.key", DEFAULT_CLASS, None),
    ],
)
def test_misspelt_key_has_the_allowed_key_in_its_original_spelling(
    key: str, patterns: tuple[str, ...], similar: str | None
) -> None:
    assert similar_key(key, patterns) == similar


@pytest.mark.parametrize(
    ("key", "is_hidden"),
    [
        ("conf.key", False),
        ("my.sas.count", False),
        ("my.password", True),
        ("my.secret.name", True),
        ("spark.hadoop.fs.azure.account.key.lake", True),
        ("fs.azure.account.key.lake", True),
        ("dfs.encryption.key", True),
        ("spark.my.key", True),
        ("spark.sql.shuffle.partitions", False),
    ],
)
def test_property_is_hidden_if_its_name_means_a_secret(key: str, is_hidden: bool) -> None:
    assert redacted({key: "1"}) == {key: REDACTED if is_hidden else "1"}


def test_no_reviewed_key_is_denied() -> None:
    assert len(REVIEWED) > 500
    assert [key for key in sorted(REVIEWED) if is_denied(key)] == []
    assert [key for key in sorted(REVIEWED) if key != normalise(key)] == []
    assert all(is_reviewed(key) for key in REVIEWED)


@given(
    key=st.sampled_from(sorted(DENIED_KEYS) + [f"{prefix}x" for prefix in DENIED_PREFIXES] + HADOOP),
    hadoop=st.booleans(),
    pattern=st.sampled_from(["*", "spark.*", "spark.sql.*", "fs.*", "{}", "{}*"]),
)
def test_no_pattern_gives_a_denied_key(key: str, hadoop: bool, pattern: str) -> None:
    asked = f"spark.hadoop.{key}" if hadoop and not key.startswith("spark.") else key
    assert not is_allowed(asked, [pattern.format(asked)])


@given(key=st.text(st.sampled_from("ab.")), pattern=st.text(st.sampled_from("ab.*"), max_size=8))
def test_star_in_a_pattern_stands_for_any_characters(key: str, pattern: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), key) is not None
    assert matches(key, pattern) is expected
