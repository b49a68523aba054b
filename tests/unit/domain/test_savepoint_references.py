"""Who refers to a savepoint."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.savepoint import SavepointPhase, SqlSavepoint
from sparksql.api.statement import SqlStatement
from sparksql.api.streaming import Retention
from sparksql.domain.savepoint.references import referenced, used_by
from sparksql.domain.savepoint.retention import Savepoint, evaluate
from tests.unit.domain.builders.objects import ago
from tests.unit.domain.builders.savepoints import ELSEWHERE, TARGET, existing, saved, savepoint, settled

BEFORE = savepoint(settled())
LAST = {"lastSavepoint": {"name": "before", "time": ago(1)}}


def named(of: SqlStatement | SqlSavepoint, name: str, namespace: str = "team-a") -> Any:
    return of.replace(metadata=of.metadata.replace(name=name, namespace=namespace))


def starting_from(name: str) -> SqlStatement:
    statement = saved()
    streaming = {"startFrom": {"savepointRef": {"name": name}}}
    return statement.parse({**statement.to_dict(), "spec": {**statement.spec.to_dict(), "streaming": streaming}})


@pytest.mark.parametrize(
    ("statement", "refers"),
    [
        (saved(), False),
        (saved(**LAST), True),
        (saved(restoredFrom=TARGET), True),
        (saved(restoredFrom=f"{TARGET}/"), True),
        (saved(restoredFrom=f"{TARGET}0"), False),
        (starting_from("before"), True),
        (starting_from("other"), False),
        (named(starting_from("before"), "fork"), True),
        (named(saved(restoredFrom=TARGET), "fork"), True),
        (named(saved(**LAST), "fork"), False),  # what it took last is its own, of whatever name
        (named(starting_from("before"), "fork", "team-b"), False),
    ],
)
def test_statement_refers_to_a_savepoint_by_name_or_location(statement: SqlStatement, refers: bool) -> None:
    assert used_by(BEFORE, [statement]) == ((statement.metadata.name,) if refers else ())


def test_statement_refers_to_an_unverified_savepoint_by_its_spec_location() -> None:
    assert used_by(existing(), [saved(restoredFrom=ELSEWHERE)]) == ("one",)


def test_a_statement_that_is_being_deleted_still_refers() -> None:
    statement = saved(restoredFrom=TARGET)
    going = statement.replace(metadata=statement.metadata.replace(deletion_timestamp=ago(1)))
    assert used_by(BEFORE, [going]) == ("one",)


def test_names_of_referring_statements_are_sorted() -> None:
    statements = [named(starting_from("before"), name) for name in ("c", "a", "b")]
    assert used_by(BEFORE, statements) == ("a", "b", "c")


names = st.sampled_from(["one", "two", "three"])
points = st.sampled_from([f"s{number}" for number in range(4)])


@given(st.lists(st.tuples(names, points, st.booleans()), max_size=4, unique_by=lambda drawn: drawn[0]))
def test_retention_removes_nothing_that_is_used(drawn: list[tuple[str, str, bool]]) -> None:
    saves = [named(savepoint(settled(location=f"s3a://b/{name}")), name) for name in ("s0", "s1", "s2", "s3")]
    statements = [
        named(starting_from(point) if by_name else saved(restoredFrom=f"s3a://b/{point}"), name)
        for name, point, by_name in drawn
    ]
    kept = referenced(saves, statements)
    assert kept == {point for _, point, _ in drawn}
    facts = [Savepoint(s.metadata.name, SavepointPhase.COMPLETED, ago(n)) for n, s in enumerate(saves)]
    verdicts = evaluate(facts, Retention(keep_last=1), ago(0), kept)
    assert not {v.name for v in verdicts if not v.keep} & {s.metadata.name for s in saves if used_by(s, statements)}
