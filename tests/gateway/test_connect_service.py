"""What Spark's own Connect service is asked: which paths a request writes, and to interrupt an execution."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.connect.proto import base_pb2 as wire
from pyspark.sql.connect.proto import commands_pb2 as commands
from pyspark.sql.connect.proto import expressions_pb2 as expressions
from pyspark.sql.connect.proto import relations_pb2 as relations

from sparksql.gateway.frontends.connect import writes
from sparksql.gateway.frontends.connect.backend import Backend, ExecutionKey, SessionKey
from sparksql.gateway.frontends.connect.plans import read_execute
from sparksql.gateway.frontends.connect.sql import check_statement
from sparksql.gateway.spark.connect_conf import connect_conf
from sparksql.wire.driver import SqlPolicy

from .local_spark import local_spark

Relation = relations.Relation
TABLES = ("CREATE DATABASE d", "CREATE TABLE t (a BIGINT) USING parquet", "CREATE TABLE d.t (a BIGINT) USING parquet",
          "CREATE TABLE p (a BIGINT, b INT) USING parquet PARTITIONED BY (b)",
          "CREATE TEMPORARY VIEW v AS SELECT id AS a FROM range(3)")  # fmt: skip


@dataclass(frozen=True)
class Connected:
    backend: Backend
    key: SessionKey
    session: Any
    folder: Path

    def targets(self, command: Any) -> set[str]:
        """Below the warehouse, as far as they are."""
        request = wire.ExecutePlanRequest(plan=wire.Plan(command=command))
        read, findings = read_execute(request.SerializeToString())
        statement = (
            check_statement(self.backend.driver, self.session, SqlPolicy(), findings) if findings.has_sql else None
        )
        kind = None if statement is None else statement.kind
        if not writes.may_write(read, kind):
            return set()
        found = writes.targets(self.backend, self.key, self.session, read)
        return {uri.removeprefix(f"file:{self.folder}/warehouse/") for uri in found}


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connected]:
    folder = tmp_path_factory.mktemp("connect")
    with local_spark(folder, **connect_conf()) as driver:
        backend = Backend.start(driver)
        session, key = driver.clone(), SessionKey("ann", str(uuid.uuid4()))
        backend.adopt(key, session)
        for text in TABLES:
            session.sql(text)
        yield Connected(backend, key, session, folder)


def numbers() -> Any:
    return Relation(range=relations.Range(end=3, step=1))


def sql(text: str, references: tuple[Any, ...] = (), **arguments: Any) -> Any:
    named = {
        name: expressions.Expression(literal=expressions.Expression.Literal(**value))
        for name, value in arguments.items()
    }
    root = Relation(sql=relations.SQL(query=text, named_arguments=named))
    if references:
        root = Relation(with_relations=relations.WithRelations(root=root, references=references))
    return commands.Command(sql_command=commands.SqlCommand(input=root))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM t", set()),
        ("CREATE TABLE other (a INT) USING parquet", set()),
        ("INSERT INTO t SELECT a FROM v", {"t"}),
        ("INSERT INTO spark_catalog.d.t VALUES (1)", {"d.db/t"}),
        ("INSERT OVERWRITE p PARTITION (b = 1) SELECT a FROM v", {"p"}),
        ("FROM v INSERT INTO t SELECT a INSERT INTO d.t SELECT a", {"t", "d.db/t"}),
        ("WITH x AS (SELECT 1 AS a) INSERT INTO t SELECT a FROM x", {"t"}),
        ("CREATE TABLE made USING parquet AS SELECT 1 AS a", {"made"}),
        ("CREATE TABLE made USING parquet LOCATION '/tmp/somewhere' AS SELECT 1 AS a", {"file:/tmp/somewhere"}),
        ("INSERT OVERWRITE DIRECTORY '/tmp/somewhere' USING parquet SELECT 1 AS a", {"file:/tmp/somewhere"}),
        ("TRUNCATE TABLE t", {"t"}),
    ],
)
def test_targets_of_a_sql_command_are_the_tables_it_writes(connected: Connected, text: str, expected: set[str]) -> None:
    assert connected.targets(sql(text)) == expected


def test_targets_of_a_sql_command_follow_parameters_and_references(connected: Connected) -> None:
    assert connected.targets(sql("INSERT INTO t SELECT :a", a={"long": 1})) == {"t"}
    assert connected.targets(sql("INSERT INTO IDENTIFIER(:name) SELECT 1", name={"string": "d.t"})) == {"d.db/t"}
    aliased = Relation(subquery_alias=relations.SubqueryAlias(input=numbers(), alias="frame"))
    assert connected.targets(sql("INSERT INTO t SELECT id FROM frame", (aliased,))) == {"t"}


SaveTable = commands.WriteOperation.SaveTable


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"path": "/tmp/somewhere"}, {"file:/tmp/somewhere"}),
        ({"options": {"PATH": "/tmp/elsewhere/"}}, {"file:/tmp/elsewhere"}),
        ({}, set()),
        ({"table": SaveTable(table_name="t", save_method=2)}, {"t"}),
        ({"table": SaveTable(table_name="d.t", save_method=1)}, {"d.db/t"}),
        ({"table": SaveTable(table_name="spark_catalog.d.new", save_method=1)}, {"d.db/new"}),
        ({"table": SaveTable(table_name="new", save_method=1), "path": ""}, {"new"}),
        ({"table": SaveTable(table_name="new", save_method=1), "options": {"path": "/tmp/x"}}, {"file:/tmp/x"}),
        ({"table": SaveTable(table_name="t", save_method=1), "options": {"path": "/tmp/x"}}, {"t", "file:/tmp/x"}),
        ({"table": SaveTable(table_name="a.b.c.d", save_method=1)}, set()),
    ],
)
def test_targets_of_a_frame_s_write(connected: Connected, fields: dict[str, Any], expected: set[str]) -> None:
    write = commands.WriteOperation(input=numbers(), source="parquet", **{k: v for k, v in fields.items() if v != ""})
    assert connected.targets(commands.Command(write_operation=write)) == expected


def test_targets_of_a_frame_s_second_kind_of_write(connected: Connected) -> None:
    for name, expected in (("d.new", {"d.db/new"}), ("t", {"t"})):
        write = commands.WriteOperationV2(input=numbers(), table_name=name, provider="parquet", mode=1)
        assert connected.targets(commands.Command(write_operation_v2=write)) == expected


def test_asking_for_the_targets_of_a_command_executes_nothing(connected: Connected) -> None:
    connected.targets(sql("CREATE TABLE never_made USING parquet AS SELECT 1 AS a"))
    connected.targets(sql("INSERT INTO t SELECT 1"))
    catalog = connected.session.catalog()
    assert not catalog.tableExists("never_made")
    assert connected.session.table("t").count() == 0


def test_no_spark_configuration_contains_the_connect_token(connected: Connected) -> None:
    token = connected.backend.token
    assert token not in str(connected.backend.driver.context.getConf().getAll())
    assert token not in str(connected.session.conf().getAll().mkString())
    assert token not in str(connected.backend.driver.clone().sessionState().conf().getAllConfs().mkString())


def test_an_execution_that_is_interrupted_before_it_has_started_ends(connected: Connected) -> None:
    """Spark lists an execution before it starts it; its own interrupt in between fails, and the client would wait for ever."""
    backend, operation = connected.backend, str(uuid.uuid4())
    request = wire.ExecutePlanRequest(session_id=connected.key.session_id, operation_id=operation)
    request.user_context.user_id = connected.key.user_id
    request.plan.root.sql.query = "SELECT max(id) FROM range(1000000000000)"
    in_jvm = backend.driver.jvm.org.apache.spark.connect.proto.ExecutePlanRequest.parseFrom(request.SerializeToString())
    holder = backend.service.executionManager().createExecuteHolder(in_jvm)

    with ThreadPoolExecutor(1) as pool:
        interrupted = pool.submit(backend.interrupt_meant, connected.key, lambda id, tags: id == operation)
        assert backend.interrupt(ExecutionKey(connected.key, operation), "a round") is True, "more rounds are needed"
        assert holder.eventsManager().status().toString() == "Pending" and not interrupted.done()
        holder.eventsManager().postStarted()
        holder.start()

        assert interrupted.result(20) == [operation]
    assert backend.interrupt_meant(connected.key, lambda id, tags: False) == []
    deadline = time.monotonic() + 20
    while (status := holder.eventsManager().status().toString()) == "Started" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert status in {"Canceled", "Closed"}
