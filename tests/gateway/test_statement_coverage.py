"""The walk over every statement (tests/conformance) leaves out no alternative of the grammar of the Spark that is built in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway

from sparksql.gateway.spark.jvm import DriverJvm
from tests.support.walk import WALK

PARSER = "org.apache.spark.sql.catalyst.parser.SqlBaseParser"
# Rules whose alternatives are statements, and those that only lead to them.
RULES = ("StatementContext", "SetResetStatementContext", "DmlStatementNoWithContext", "InsertIntoContext")
LEADS = {"DmlStatement", "SingleInsertQuery"}


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    process = DriverJvm.start(256, lambda line: None)
    there = process.connect()
    # Without the release of objects: the collector would call a JVM that has ended.
    parameters = GatewayParameters(port=there.port, auth_token=there.secret, enable_memory_management=False)
    gateway = JavaGateway(gateway_parameters=parameters)
    yield gateway.jvm
    gateway.close()
    process.stop()


def alternatives(jvm: Any) -> set[str]:
    """Names of the grammar's statements."""
    classes = jvm.java.lang.Class.forName(PARSER).getDeclaredClasses()
    return {
        str(each.getSimpleName()).removesuffix("Context")
        for each in classes
        if str(each.getSuperclass().getSimpleName()) in RULES
    }


def used(jvm: Any, sql: str) -> set[str]:
    """Alternatives that the parse tree of a text has at its top."""
    spark, antlr = jvm.org.apache.spark.sql.catalyst.parser, jvm.org.antlr.v4.runtime
    lexer = spark.SqlBaseLexer(spark.UpperCaseCharStream(antlr.CharStreams.fromString(sql)))
    parser = spark.SqlBaseParser(antlr.CommonTokenStream(lexer))
    parser.removeErrorListeners()
    found, nodes = set[str](), [parser.singleStatement()]
    for _ in range(8):
        found |= {str(node.getClass().getSimpleName()).removesuffix("Context") for node in nodes}
        nodes = [node.getChild(index) for node in nodes for index in range(min(node.getChildCount(), 4))]
    return found


@pytest.mark.thorough
def test_every_alternative_of_the_grammar_is_walked(jvm: Any) -> None:
    texts = [step.text(db="walk", place="file:///tmp/walk", home="default") for step in WALK]
    names = alternatives(jvm)
    assert len(names) >= 100, names
    assert names - LEADS - set[str]().union(*(used(jvm, sql) for sql in texts)) == set()
    assert names >= LEADS, "a name here is not the grammar's any more"
