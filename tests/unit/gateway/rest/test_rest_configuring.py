"""Which statements configure-session takes."""

from __future__ import annotations

import pytest

from sparksql.gateway.frontends.rest.configuring import unsupported
from sparksql.gateway.sql.kinds import kind_of


@pytest.mark.parametrize(
    ("plans", "reason"),
    [
        ([], None),
        (["SetCommand"], None),
        (["CreateViewCommand"], None),
        (["SetCommand", "SetCommand"], "a script of 2 statements"),
        (["SetCommand", "Project"], "a script of 2 statements"),
        (["Project"], "SELECT"),
        (["InsertIntoStatement"], "INSERT"),
    ],
)
def test_configuring_with_a_script_or_a_query_is_unsupported(plans: list[str], reason: str | None) -> None:
    assert unsupported([kind_of(plan) for plan in plans]) == reason
