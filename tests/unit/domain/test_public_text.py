"""What is of a type that Events take has no word of others in it."""

from __future__ import annotations

import ast
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.reasons import Reason
from sparksql.domain.public_text import (
    SEE_STATUS,
    ClusterReason,
    Message,
    Name,
    OwnLocation,
    compose,
    error_summary,
    public_of,
    quote,
)
from sparksql.wire.control import OperationError
from tests.unit.test_source_tree import modules

SECRET = "it's SECRET"
MODULE, WRITERS = "sparksql.domain.public_text", ("compose", "PublicText")


@given(st.text(), st.text(), st.integers())
def test_public_text_of_a_message_has_its_free_parts_replaced(before: str, after: str, number: int) -> None:
    words = f"{before}{SECRET}{after}"
    message = compose("attempt {number}: {cause}", number=number, cause=words)
    assert message == f"attempt {number}: {words}"
    assert message.public.text == f"attempt {number}: see status"
    nested = compose("{inner}; {outer}", inner=message, outer=words)
    assert SECRET in nested and nested.public.text == f"attempt {number}: see status; see status"


@given(st.text())
def test_part_that_is_a_name_or_reason_by_its_mark_alone_is_not_public(words: str) -> None:
    for part in (Name((f"{words} {SECRET}",)), ClusterReason(f"{words} {SECRET}")):
        assert compose("{part}", part=part).public == SEE_STATUS


def test_names_reasons_and_numbers_are_public() -> None:
    when = datetime(2026, 1, 1, tzinfo=UTC)
    parts = (Name(("pod-1", "pod-2")), ClusterReason("OOMKilled"), OwnLocation("s3a://b/r"), Reason.DRIVER_LOST, 1, 2.5)
    for part in parts:
        assert compose("{part}", part=part).public.text == str(part)
    assert compose("{when:%Y-%m-%d}", when=when).public.text == "2026-01-01"


@pytest.mark.parametrize(
    "changed",
    [lambda m: m.strip(), lambda m: f"{m}.", lambda m: m + "!", lambda m: m[:10], lambda m: "; ".join((m, m))],
)
def test_message_that_was_changed_as_a_str_has_no_public_text_of_its_own(changed: object) -> None:
    assert callable(changed)
    text = changed(compose("attempt 1 begins") + " " + SECRET)
    assert public_of(text) == SEE_STATUS and not isinstance(text, Message)


@given(st.text(min_size=1))
def test_summary_of_an_error_has_nothing_but_condition_state_and_place(words: str) -> None:
    error = OperationError(message=words + SECRET, condition=SECRET + words, sql_state=SECRET, line=2, position=8)
    assert error_summary(error).text == "line 2, position 8; see status"
    assert quote(error.message, error_summary(error)).public.text == "line 2, position 8; see status"


def calls() -> list[tuple[str, ast.Call]]:
    """Calls that make a public text, with their modules."""
    return [
        (name, node)
        for name, tree in modules()
        if name.startswith("sparksql.") and name != MODULE
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WRITERS
    ]


def is_literal(tree: ast.Module, node: ast.expr) -> bool:
    """A literal, one of two, or a name that the module gives literals alone."""
    match node:
        case ast.Constant(value=str()):
            return True
        case ast.IfExp(body=body, orelse=orelse):
            return is_literal(tree, body) and is_literal(tree, orelse)
        case ast.Name(id=name):
            values = [
                each.value
                for each in ast.walk(tree)
                if isinstance(each, ast.Assign) and [ast.unparse(target) for target in each.targets] == [name]
            ]
            return bool(values) and all(is_literal_or_constant(value) for value in values)
        case _:
            return False


def is_literal_or_constant(node: ast.expr) -> bool:
    """A literal, or an f-string of the module's constants."""
    match node:
        case ast.Constant(value=str()):
            return True
        case ast.JoinedStr(values=values):
            shown = [each.value for each in values if isinstance(each, ast.FormattedValue)]
            return all(isinstance(each, ast.Name) and each.id.isupper() for each in shown)
        case ast.Dict(values=values):
            return all(is_literal_or_constant(value) for value in values)
        case _:
            return False


# Templates that are looked up among literals.
LOOKED_UP = {"sparksql.controllers.session.pods: remedy": "_REMEDIES, a table of literals by exit code"}


def test_templates_of_public_texts_are_literals() -> None:
    trees = dict(modules())
    found = calls()
    assert len(found) > 50
    for name, call in found:
        template = call.args[0]
        is_known = f"{name}: {ast.unparse(template)}" in LOOKED_UP
        assert is_known or is_literal(trees[name], template), f"{name}:{call.lineno} {ast.unparse(call)}"
        assert isinstance(call.func, ast.Name) and call.func.id == "compose", f"{name}:{call.lineno} makes a PublicText"
