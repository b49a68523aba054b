"""Bodies of errors and of pages, and the document that describes them all."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.frontends.rest.content import Page, content_of, page_json
from sparksql.gateway.frontends.rest.errors import Form, bad_body, bad_parameter, ended_badly, not_found, refused
from sparksql.gateway.frontends.rest.models import ResultType, RowFormat
from sparksql.gateway.frontends.rest.openapi import document
from sparksql.gateway.frontends.rest.routing import ROUTES, VERSIONS
from sparksql.gateway.sessions.model import ClientError, OperationInfo, OperationStatus, Problem
from sparksql.wire.control import Column, ErrorReason, OperationError

HANDLE = "6cbb1a23-1c1c-4b0a-8f7f-0e8f0e8f0e8f"


def errors_of(body: str) -> list[str]:
    found = json.loads(body)
    assert list(found) == ["errors"]
    assert all(isinstance(text, str) for text in found["errors"])
    return list(found["errors"])


def shown_by_sql_client(body: str) -> str:
    """What Flink's SQL Client prints of an answer: behind the last cause, up to its first frame."""
    return "".join(errors_of(body)).rpartition("Caused by: ")[2].partition("\tat ")[0].strip()


def view(**fields: Any) -> OperationInfo:
    return OperationInfo(handle=HANDLE, session="s", **{"status": OperationStatus.FINISHED, **fields})


def test_the_three_forms_of_errors() -> None:
    assert errors_of(not_found("/v5/info").body) == ["Not found: /v5/info"]
    (chain,) = errors_of(bad_parameter("path", "token", "abc").body)
    assert chain.startswith(
        "RestHandlerException: Bad request, could not parse parameters: Cannot resolve path parameter (token)"
    )
    problem = ClientError(Problem.UNKNOWN_SESSION, "Session 's' does not exist.")
    first, block = errors_of(refused(Form.SERVER_SIDE, "Failed to execute statement.", problem).body)
    assert first == "Internal server error."
    assert block.startswith("<Exception on server side:\n") and block.endswith("\nEnd of exception on server side>")
    (chain,) = errors_of(refused(Form.CHAIN, "Failed to closeSession.", problem).body)
    assert chain.startswith("RestHandlerException: Failed to closeSession.\n\tat ")
    assert bad_body("OpenSessionRequest", "why").status == 400


@pytest.mark.parametrize("problem", Problem)
def test_every_refusal_has_a_status_and_tells_its_reason(problem: Problem) -> None:
    for form in Form:
        error = refused(form, "Failed.", ClientError(problem, "because of this"))
        assert error.status in (400, 403, 429, 500, 503)
        assert shown_by_sql_client(error.body) == "SqlGatewayException: because of this"


SQL_ERRORS = [
    (
        OperationError(condition="TABLE_OR_VIEW_NOT_FOUND", sql_state="42P01", message="[TABLE_OR_VIEW_NOT_FOUND] no t. SQLSTATE: 42P01", line=1, position=15),
        "org.apache.spark.SparkThrowable: [TABLE_OR_VIEW_NOT_FOUND] no t. SQLSTATE: 42P01 (line 1, position 15)",
    ),
    (
        OperationError(condition="DIVIDE_BY_ZERO", sql_state="22012", message="Division by zero."),
        "org.apache.spark.SparkThrowable: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012",
    ),
    (OperationError(reason=ErrorReason.NOT_ALLOWED, message="key x"), "SqlExecutionException: key x"),
    (OperationError(reason=ErrorReason.SQL_ERROR), "SqlExecutionException: SqlError"),
    (OperationError(message="first\n\tat frame\nCaused by: second"), "SqlExecutionException: first\n at frame\ncaused by: second"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "shown"), SQL_ERRORS)
def test_the_sql_client_shows_sparks_own_error(error: OperationError, shown: str) -> None:
    failure = ended_badly(view(status=OperationStatus.ERROR, error=error))
    assert failure.status == 500
    assert shown_by_sql_client(failure.body) == shown


@given(st.text(max_size=50))
def test_no_message_breaks_the_marks_of_a_chain(message: str) -> None:
    failure = ended_badly(view(status=OperationStatus.ERROR, error=OperationError(message=f"x{message}")))
    assert "".join(errors_of(failure.body)).count("\tat ") == 4
    assert shown_by_sql_client(failure.body).startswith("SqlExecutionException: x")


def test_a_cancelled_operation_says_so_and_one_that_ran_too_long_also_why() -> None:
    cancelled = ended_badly(view(status=OperationStatus.CANCELED))
    assert (
        shown_by_sql_client(cancelled.body)
        == f"SqlGatewayException: Can not fetch results from the {HANDLE} in CANCELED status."
    )
    late = OperationError(reason=ErrorReason.EXECUTION_TIMEOUT, message="the statement ran longer than 2 s")
    timed_out = ended_badly(view(status=OperationStatus.TIMEOUT, error=late))
    assert "in TIMEOUT status." in timed_out.body
    assert shown_by_sql_client(timed_out.body) == "SqlExecutionException: the statement ran longer than 2 s"


JOB = HANDLE.replace("-", "")
COLUMNS = (Column(name="a", type="int"), Column(name="a", type="void"))
CONTENTS = [
    (view(), {"isQueryResult": False, "resultKind": "SUCCESS"}, ["result"]),
    (view(is_insert=True), {"isQueryResult": False, "jobID": JOB, "resultKind": "SUCCESS_WITH_CONTENT"}, ["job id"]),
    (view(is_insert=True, columns=COLUMNS), {"isQueryResult": False, "jobID": JOB, "resultKind": "SUCCESS_WITH_CONTENT"}, ["job id"]),
    (view(columns=COLUMNS), {"isQueryResult": False, "resultKind": "SUCCESS_WITH_CONTENT"}, ["a", "a"]),
    (view(columns=COLUMNS, is_query=True), {"isQueryResult": True, "jobID": JOB, "resultKind": "SUCCESS_WITH_CONTENT"}, ["a", "a"]),
]  # fmt: skip


@pytest.mark.parametrize(("finished", "flags", "columns"), CONTENTS)
def test_a_result_page_tells_the_kind_of_its_statement(
    finished: OperationInfo, flags: dict[str, Any], columns: list[str]
) -> None:
    content = content_of(finished)
    page = json.loads(page_json(Page(ResultType.PAYLOAD, RowFormat.JSON, "/next"), content, b"[]"))
    order = ["resultType", "isQueryResult", "jobID", "resultKind", "results", "nextResultUri"]
    assert list(page) == [key for key in order if key in page]
    assert {key: page[key] for key in page if key in ("isQueryResult", "jobID", "resultKind")} == flags
    assert [column["name"] for column in page["results"]["columns"]] == columns
    assert all(list(column) == ["name", "logicalType", "comment"] for column in page["results"]["columns"])
    last = json.loads(page_json(Page(ResultType.EOS, RowFormat.PLAIN_TEXT, None), content, b"[]"))
    assert "nextResultUri" not in last and last["results"]["rowFormat"] == "PLAIN_TEXT"


def test_statements_without_rows_of_their_own_answer_a_single_row() -> None:
    ok, inserted, query = content_of(view()), content_of(view(is_insert=True)), content_of(view(columns=COLUMNS))
    assert [table.column(0).to_pylist() for table in (ok.page(0), inserted.page(0)) if table is not None] == [
        ["OK"],
        [JOB],
    ]
    assert ok.page(1).num_rows == 0  # type: ignore[union-attr]
    assert query.page(0) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_the_document_has_every_route_and_no_loose_reference(version: int) -> None:
    found = json.loads(document(version))
    assert found["openapi"] == "3.1.0" and found["servers"] == [{"url": f"/v{version}"}]
    routes = {(method.upper(), path) for path, methods in found["paths"].items() for method in methods}
    assert routes == {(route.method, route.path) for route in ROUTES if route.since <= version}
    operations = [operation["operationId"] for methods in found["paths"].values() for operation in methods.values()]
    assert len(set(operations)) == len(operations)
    for kind, name in re.findall(r'"#/components/(\w+)/(\w+)"', document(version)):
        assert name in found["components"][kind]
    for path, methods in found["paths"].items():
        for operation in methods.values():
            given = [parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "path"]
            assert given == re.findall(r"{(\w+)}", path)
