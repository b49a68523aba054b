"""A string parameter arrives as it was given, however the session reads the strings of a text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.sql.errors import StatementError
from sparksql.gateway.sql.parameters import ParameterBinder
from sparksql.wire.control import Parameter
from tests.support.default_class import image_connectors

from .connectors import conf
from .local_spark import local_spark

VALUES = ["x'", "it's \\ \" z", "\\", "\\'", "'; DROP TABLE t; --", "\\n", "plain", "", "\u00e9'\n\t", "%\\_"]
TEXTS = [
    "SELECT :p AS a",
    "WITH c AS (SELECT :p AS a) SELECT a FROM c WHERE a = :p",
    "SELECT a FROM (SELECT :p AS a) WHERE a IN (SELECT :p AS b)",
    "SELECT max(a) FROM (VALUES (:p)) v(a) WHERE EXISTS (SELECT 1 WHERE :p = a)",
]


@pytest.fixture(scope="module", params=["Spark's parser", "parsers of extensions"])
def driver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    folder = tmp_path_factory.mktemp("binding")
    extended = request.param != "Spark's parser"
    jars, settings = (image_connectors(), conf(folder)) if extended else ([], {})
    with local_spark(folder, jars, **settings) as started:
        yield started


def binder_of(driver: SparkDriver, escaped: bool) -> ParameterBinder:
    driver.base.conf().set("spark.sql.parser.escapedStringLiterals", str(escaped).lower())
    driver.activate(driver.base)
    return ParameterBinder(driver.jvm, driver.base)


@pytest.mark.thorough
@pytest.mark.parametrize("escaped", [False, True])
def test_a_string_parameter_arrives_unchanged_in_every_query_text(driver: SparkDriver, escaped: bool) -> None:
    binder = binder_of(driver, escaped)
    wrong = {}
    for value in VALUES:
        literals = binder.literals([Parameter(name="p", value=value)])
        for text in TEXTS:
            rows = driver.of_rows(driver.base, binder.parse(text, literals)).collectAsList()
            seen = [str(row.get(0)) for row in rows]
            if seen != [value]:
                wrong[value, text] = seen
    assert wrong == {}


def test_strings_of_the_text_stay_what_the_session_says(driver: SparkDriver) -> None:
    binder = binder_of(driver, True)
    literals = binder.literals([Parameter(name="p", value="x'"), Parameter(name="n", value="3", type="INT")])
    rows = driver.of_rows(driver.base, binder.parse(r"SELECT :p, '\n', :n + 1", literals)).collectAsList()
    assert [str(rows[0].get(index)) for index in range(3)] == ["x'", r"\n", "4"]


@pytest.mark.parametrize("text", ["SELECT * FROM (WITH c AS (SELECT :p AS a) SELECT * FROM c)", "BEGIN SELECT :p; END"])
def test_a_parameter_in_a_place_that_cannot_be_bound_is_named_in_the_error(driver: SparkDriver, text: str) -> None:
    binder = binder_of(driver, True)
    with pytest.raises(StatementError, match="'p' cannot be bound"):
        binder.parse(text, binder.literals([Parameter(name="p", value="x'")]))
