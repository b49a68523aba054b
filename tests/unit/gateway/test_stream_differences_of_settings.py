"""Settings and options that may say what a query means, and those that are known not to."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparksql.gateway.spark.names import JvmNames
from sparksql.gateway.streaming.state import plan_structure, settings
from sparksql.gateway.streaming.state.compatibility import differences
from sparksql.gateway.streaming.state.description import (
    Description,
    Setting,
    StateColumn,
    StatefulOperator,
    StreamSource,
)
from sparksql.gateway.streaming.state.difference import DifferenceKind
from sparksql.gateway.streaming.state.messages import message
from sparksql.gateway.streaming.state.outline import undescribed
from sparksql.gateway.streaming.state.read_options import read_by_stream, read_by_table

SOURCE = StreamSource("orders", "parquet /orders")
OLD = Description("4.1.4", "a", "append", (SOURCE,), operators=(StatefulOperator("aggregate"),), settings=())
POLICY = "spark.sql.legacy.timeParserPolicy"


def test_a_setting_that_nobody_knows_to_be_harmless_is_a_difference() -> None:
    new = replace(OLD, settings=(Setting(POLICY, "LEGACY", "CORRECTED"),))
    for old, other, words in ((OLD, new, "CORRECTED, is LEGACY"), (new, OLD, "LEGACY, is CORRECTED")):
        [found] = differences(old, other)
        assert found.change is DifferenceKind.SETTING_CHANGED
        assert f"the setting {POLICY} was {words}" in message((found,), old, other)
    assert Description.from_json(new.to_json()) == new


def test_a_setting_at_its_default_is_no_difference() -> None:
    new = replace(OLD, settings=(Setting(POLICY, "corrected", "CORRECTED"),))
    assert not differences(OLD, new) and not differences(new, OLD)


def test_settings_say_nothing_of_a_query_without_state_or_where_nobody_has_looked() -> None:
    new = replace(OLD, settings=(Setting(POLICY, "LEGACY", "CORRECTED"),))
    assert not differences(replace(OLD, settings=None), new)
    assert not differences(*(replace(each, operators=()) for each in (OLD, new)))


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        (POLICY, True),
        ("spark.sql.ansi.enabled", True),
        ("spark.sql.caseSensitive", True),
        ("spark.sql.of.a.later.version", True),
        ("spark.sql.execution.pandas.convertToArrowArraySafely", True),
        ("spark.sql.streaming.of.a.later.version", True),
        ("spark.sql.streaming.checkpointFileManagerClass", False),
        ("spark.sql.optimizer.enableJsonExpressionOptimization", True),
        ("spark.sql.streaming.fileStreamSink.ignoreMetadata", True),
        ("spark.databricks.delta.of.a.later.version", True),
        ("spark.databricks.delta.lastCommitVersionInSession", False),  # Delta notes it by itself
        ("spark.hadoop.parquet.of.a.later.version", True),
        ("parquet.strings.signed-min-max.enabled", True),
        ("spark.hive.exec.orc.of.a.later.version", True),
        ("my.own", False),
        ("spark.hadoop.my.own", False),
        ("spark.hadoop.fs.s3a.endpoint", False),
        ("fs.s3a.endpoint", False),
        ("spark.hadoop.hive.metastore.uris", False),
        ("spark.sql.optimizer.maxIterations", False),
        ("spark.sql.adaptive.enabled", False),
        ("spark.sql.shuffle.partitions", False),
        ("spark.sql.catalog.lake.uri", False),
        ("spark.sql.session.timeZone", False),  # told where it counts
        ("spark.executor.memory", False),
        ("spark.sql.variable.substitute", False),  # the driver's own, as are the next ones
        ("spark.sql.filesourceTableRelationCacheSize", False),
        ("spark.sql.session.localRelationSizeLimit", False),
        ("spark.sql.artifact.isolation.enabled", False),
    ],
)
def test_settings_count_unless_known_not_to_change_what_a_query_means(name: str, counts: bool) -> None:
    assert settings.counts(name) is counts


@pytest.mark.parametrize(
    "name",
    [
        *("path", "maxFilesPerTrigger", "startingOffsets", "latestFirst", "user", "password", "token"),
        *("kafka.bootstrap.servers", "kafka.sasl.jaas.config", "kafka.max.poll.records", "fs.s3a.access.key"),
        *("spark.hadoop.fs.s3a.bucket.a-b.secret.key", "fs.azure.account.key.one.dfs.core.windows.net"),
    ],
)
def test_options_that_tell_where_how_fast_or_who_do_not_count(name: str) -> None:
    assert read_by_stream({name: "x"}) == ""


@pytest.mark.parametrize(
    "name",
    [
        *(
            "nullValue",
            "readChangeFeed",
            "kafka.isolation.level",
            "kafka.of.a.later.version",
            "userColumns",
            "tokenizer",
        ),
        *(
            "maxColumns",
            "maxCharsPerColumn",
            "fs.s3a.endpoint",
            "fs.s3a.input.something",
            "spark.hadoop.parquet.read.x",
        ),
        *("passwordHeader", "startingLine", "accesskeyless"),
    ],
)
def test_any_other_option_of_a_stream_counts(name: str) -> None:
    assert read_by_stream({name: "x"}) != read_by_stream({name: "y"}) != ""


def test_starting_offsets_count_for_a_table_and_not_for_a_stream() -> None:
    assert read_by_stream({"startingOffsets": "earliest"}) == ""
    assert read_by_table({"startingOffsets": "earliest"}) != ""


def test_columns_of_another_type_are_told_where_no_plan_can_be_described() -> None:
    old, new = (
        undescribed("4.1.4", "one", "append", (SOURCE,), (StateColumn("amount", kind, "amount"),))
        for kind in ("int", "bigint")
    )
    assert not differences(old, old)
    found = differences(old, new)
    assert [each.change for each in found] == [DifferenceKind.COLUMN_CHANGED]
    assert "column amount was amount int, is bigint" in message(found, old, new)
    unread = undescribed("4.1.4", "one", "append")
    assert not differences(unread, new) and not differences(new, unread)


@pytest.mark.parametrize("missing", ["CurrentTime", "HeldTable", "PlanText"])
def test_an_earlier_jar_of_the_session_is_told(missing: str) -> None:
    names: dict[str, Any] = dict.fromkeys(("CurrentTime", "HeldTable", "PlanText"), object())
    windows = SimpleNamespace(MergedSessions=object())
    jvm = SimpleNamespace(
        dev=SimpleNamespace(sparksql=SimpleNamespace(plans=SimpleNamespace(**names), windows=windows))
    )
    plan_structure._own(jvm)
    setattr(jvm.dev.sparksql.plans, missing, JvmNames(None))
    with pytest.raises(plan_structure.UnknownPlanError, match="earlier version"):
        plan_structure.prepared(jvm, None)
