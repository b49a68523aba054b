"""Which options of data sources are keys of configuration that SQL may not give."""

from __future__ import annotations

import pytest

from sparksql.gateway.sql.source_options import may_give_relations_options, problem

DEFAULT = ("spark.sql.*", "spark.executor.memoryOverhead*")


@pytest.mark.parametrize(
    "key",
    [
        "path",
        "header",
        "mergeSchema",
        "file",
        "compression",
        "snapshot-id",
        "write.format.default",
        "subscribe",
        "value.format",
        "field.delim",
        "parquet.compression",
        "parquet.bloom.filter.enabled#a.url",
        "orc.bloom.filter.columns",
        "delta.enableChangeDataFeed",
        "parquet.block.size",
        "kafka.bootstrap.servers",
    ],
)
def test_options_of_sources_are_allowed(key: str) -> None:
    assert problem({key: "x"}, DEFAULT) is None


@pytest.mark.parametrize(
    "key",
    [
        "fs.file.impl",
        "FS.File.Impl.Disable.Cache",
        " fs.s3a.endpoint",
        "fs.s3a.connection.maximum",
        "fs.viewfs.mounttable.x.link./a",
        "hadoop.security.credential.provider.path",
        "io.serializations",
        "mapreduce.fileoutputcommitter.algorithm.version",
        "parquet.crypto.factory.class",
        "parquet.encryption.kms.client.class",
        "parquet.read.filter",
        "avro.schema.url",
        "spark.hadoop.fs.file.impl",
        "kafka.config.providers",
    ],
)
def test_keys_of_configuration_are_refused_as_options(key: str) -> None:
    told = problem({"path": "x", key: "hidden"}, DEFAULT)
    assert told is not None and repr(key) in told and "hidden" not in told


def test_a_class_gives_more_as_for_set() -> None:
    assert problem({"fs.s3a.connection.maximum": "9"}, ["fs.s3a.connection.maximum"]) is None
    assert problem({"fs.file.impl": "x"}, ["fs.file.impl"]) is not None


@pytest.mark.parametrize(
    "text", ["SELECT * FROM t WITH ('a' = 'b')", "from t with(a=b)", "t WITH /* x */ (a=b)", "t W\u0131TH\n(a=b)"]
)
def test_relations_with_options_are_seen(text: str) -> None:
    assert may_give_relations_options(text)
    assert not may_give_relations_options("WITH c AS (SELECT 1) SELECT * FROM c")
