"""Errors of the JVM, which Spark's Connect service ends a call with and gives no condition."""

from __future__ import annotations

import grpc
import pytest

from sparksql.gateway.frontends.connect.upstream import ERROR_KEY, SparkError
from sparksql.wire.failure.classify import classify
from sparksql.wire.failure.kind import FailureKind

OF_THE_JVM = "java.lang.VirtualMachineError,java.lang.Error,java.lang.Throwable,java.lang.Object"


def ended(types: str | None, message: str = "") -> SparkError:
    trailing = [] if types is None else [(ERROR_KEY, types)]
    nothing = grpc.aio.Metadata()
    return SparkError(
        grpc.aio.AioRpcError(grpc.StatusCode.UNKNOWN, nothing, grpc.aio.Metadata(*trailing), details=message)
    )


@pytest.mark.parametrize(
    ("error", "code", "condition", "kind", "remedy"),
    [
        (
            "StackOverflowError",
            grpc.StatusCode.INVALID_ARGUMENT,
            "STATEMENT_TOO_LARGE",
            FailureKind.STATEMENT,
            "nest fewer views",
        ),
        (
            "OutOfMemoryError",
            grpc.StatusCode.INTERNAL,
            "JAVA_HEAP_EXHAUSTED",
            FailureKind.ENVIRONMENT,
            "spec.driver.memory",
        ),
    ],
)
def test_error_of_the_jvm_has_the_condition_of_other_protocols(
    error: str, code: grpc.StatusCode, condition: str, kind: FailureKind, remedy: str
) -> None:
    found = ended(f"java.lang.{error},{OF_THE_JVM}")
    assert (found.code, found.told.condition) == (code, condition) and remedy in str(found)
    assert found.told.has_details and found.told.sql_state
    assert classify(found.operation_error).kind is kind
    assert all(key != ERROR_KEY for key, _ in found.trailing)


@pytest.mark.parametrize("types", [None, "java.lang.NoClassDefFoundError,java.lang.LinkageError,java.lang.Error"])
def test_other_status_without_details_is_unchanged(types: str | None) -> None:
    found = ended(types, "words")
    assert (found.code, str(found), found.trailing) == (grpc.StatusCode.UNKNOWN, "words", ())
