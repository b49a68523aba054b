"""What two statements of one driver may go on from at a time."""

from __future__ import annotations

import pytest

from sparksql.gateway.sql.errors import StatementError
from sparksql.gateway.streaming.checkpoints.claims import Claim, Claims, query_id_in
from sparksql.wire.control import ErrorReason

FIRST = Claim("operation-1", "team-a/first", "s3a://bucket/c/1", "id-1")


@pytest.fixture
def claims() -> Claims:
    made = Claims()
    made.take(FIRST)
    return made


def refused(claims: Claims, claim: Claim) -> str:
    with pytest.raises(StatementError) as refusal:
        claims.take(claim)
    assert refusal.value.error.reason is ErrorReason.INVALID_SPEC
    return refusal.value.error.message


def test_another_statement_with_the_same_state_is_refused(claims: Claims) -> None:
    same_place = refused(claims, Claim("operation-2", "team-a/second", "s3a://bucket/c/1/", None))
    copy = refused(claims, Claim("operation-2", "team-a/second", "s3a://bucket/c/2", "id-1"))
    for message in (same_place, copy):
        assert "SqlStatement team-a/first runs" in message and "source Existing" in message
    assert "from the same checkpoint" in same_place and "query id id-1" in copy


def test_a_statement_with_another_checkpoint_and_query_id_is_admitted(claims: Claims) -> None:
    claims.take(Claim("operation-2", "team-a/second", "s3a://bucket/c/2", "id-2"))
    claims.take(Claim("operation-3", "team-a/third", "s3a://bucket/c/3"))
    claims.take(Claim("operation-4", "team-a/fourth", "s3a://bucket/c/4"))  # both ids are still to be drawn


def test_a_restarted_statement_takes_over_its_own_claim(claims: Claims) -> None:
    claims.take(Claim("operation-2", FIRST.statement, FIRST.checkpoint, FIRST.query_id))
    claims.release("operation-1")
    refused(claims, Claim("operation-3", "team-a/second", "s3a://bucket/c/2", "id-1"))
    claims.release("operation-2")
    claims.take(Claim("operation-3", "team-a/second", "s3a://bucket/c/2", "id-1"))


def test_an_id_that_spark_has_drawn_counts(claims: Claims) -> None:
    claims.take(Claim("operation-2", "team-a/second", "s3a://bucket/c/2"))
    claims.identify("operation-2", "id-2")
    refused(claims, Claim("operation-3", "team-a/third", "s3a://bucket/c/3", "id-2"))


@pytest.mark.parametrize(
    ("metadata", "query_id"),
    [(None, None), ("", None), ("{", None), ("[]", None), ("{}", None), ('{"id":"one"}', "one")],
)
def test_the_id_of_a_checkpoint(metadata: str | None, query_id: str | None) -> None:
    assert query_id_in(metadata) == query_id
