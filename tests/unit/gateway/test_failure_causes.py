"""What the gateway reports of a failure by the types of Spark's exceptions and their causes, without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparksql.gateway.sql.errors import Thrown, describe
from sparksql.gateway.sql.script import Fragment
from sparksql.wire.control import ErrorReason
from sparksql.wire.failure.kind import FailureKind
from sparksql.wire.failure.throwables import CONFINED, OUT_OF_MEMORY, SERVICE_ANSWER

ABORTED = Thrown("SparkException", "Job aborted due to stage failure", is_failure=True)
STREAM_FAILED = Thrown("StreamingQueryException", "[STREAM_FAILED]", "STREAM_FAILED", "XXKST", is_failure=True)
ACCESS_CONTROL = "org.apache.hadoop.security.AccessControlException"
EXHAUSTED = Thrown("OutOfMemoryError", "Java heap space", types=(OUT_OF_MEMORY, "java.lang.VirtualMachineError"))
LARGE = "Total size of serialized results of 3 tasks (1.2 GiB) is bigger than spark.driver.maxResultSize (1.0 GiB)"
RAISED = Thrown("SparkRuntimeException", f"[USER_RAISED_EXCEPTION] {LARGE}", "USER_RAISED_EXCEPTION", "P0001")


@pytest.mark.parametrize(
    ("chain", "reason"),
    [
        (
            [Thrown("SparkException", f"Job aborted due to stage failure: {LARGE}", is_failure=True)],
            ErrorReason.RESULT_TOO_LARGE,
        ),
        ([RAISED], ErrorReason.SQL_ERROR),
        (
            [replace(ABORTED, message=f"Job aborted due to stage failure: Task 0 failed: {LARGE}"), RAISED],
            ErrorReason.SQL_ERROR,
        ),
        (
            [replace(ABORTED, message=f"Job aborted due to stage failure: Task 0 failed: {LARGE}")],
            ErrorReason.SQL_ERROR,
        ),
        ([Thrown("RuntimeException", f"Job aborted due to stage failure: {LARGE}")], ErrorReason.SQL_ERROR),
    ],
)
def test_result_is_too_large_only_when_spark_aborts_the_job_for_it(chain: list[Thrown], reason: ErrorReason) -> None:
    assert describe(chain, Fragment("SELECT 1", 0), "SELECT 1").reason is reason


def test_refused_local_place_is_known_by_its_type_and_not_by_its_words() -> None:
    words = "file:/etc: SQL may not use this local place"
    refused = Thrown("ConfinedException", words, types=(CONFINED, ACCESS_CONTROL, "java.io.IOException"))
    assert describe([ABORTED, refused], Fragment("SELECT 1", 0), "SELECT 1").reason is ErrorReason.NOT_ALLOWED
    raised = Thrown("SparkRuntimeException", words, "USER_RAISED_EXCEPTION", "P0001")
    assert describe([ABORTED, raised], Fragment("SELECT 1", 0), "SELECT 1").reason is ErrorReason.SQL_ERROR
    server = Thrown("AccessControlException", words, types=(ACCESS_CONTROL, "java.io.IOException"))
    assert describe([ABORTED, server], Fragment("SELECT 1", 0), "SELECT 1").reason is ErrorReason.SQL_ERROR


@pytest.mark.parametrize(
    ("chain", "field"),
    [([EXHAUSTED], "spec.driver.memory"), ([ABORTED, EXHAUSTED], "spec.executors.memory")],
    ids=["driver", "executor"],
)
def test_exhausted_heap_is_reported_with_the_field_that_raises_it(chain: list[Thrown], field: str) -> None:
    error = describe(chain, Fragment("SELECT 1", 0), "SELECT 1")
    assert (error.condition, error.cause) == ("JAVA_HEAP_EXHAUSTED", FailureKind.ENVIRONMENT)
    assert field in error.message and "Java heap space" in error.message


@pytest.mark.parametrize(
    ("chain", "cause"),
    [
        (
            [
                STREAM_FAILED,
                ABORTED,
                Thrown("ConnectException", "", types=("java.net.ConnectException", "java.net.SocketException")),
            ],
            "Environment",
        ),
        (
            [
                STREAM_FAILED,
                Thrown("ParseException", "", types=("p.ParseException", "org.apache.spark.sql.AnalysisException")),
            ],
            "Statement",
        ),
        ([STREAM_FAILED, Thrown("NullPointerException", "", types=("java.lang.NullPointerException",))], None),
        ([Thrown("S3Exception", "", types=("s.S3Exception", SERVICE_ANSWER), status=503)], "Environment"),
        ([Thrown("S3Exception", "", types=("s.S3Exception", SERVICE_ANSWER), status=404)], "Unknown"),
    ],
)
def test_cause_is_found_by_the_types_of_the_innermost_known_exception(chain: list[Thrown], cause: str | None) -> None:
    assert describe(chain, Fragment("SELECT 1", 0), "SELECT 1").cause == cause
