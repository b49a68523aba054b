"""How clients name sessions, and what the front calls those that it makes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.names import MAX_NAME_LENGTH
from sparksql.front.model import FrontError, Refusal
from sparksql.front.naming import OWN, Asked, home_of, own_name, parse, parse_thrift, user_label
from sparksql.wire.front import handle_prefix, new_handle, prefix_of, read_user, written_user

ACCOUNT = "system:serviceaccount:team-a:ada"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (None, OWN),
        ("", OWN),
        ("  ", OWN),
        ("team-a/main", Asked("team-a", "main")),
        (" team-a/main ", Asked("team-a", "main")),
        ("team-a/", Asked("team-a", None)),
    ],
)
def test_a_session_is_named_by_namespace_and_name(text: str | None, asked: Asked) -> None:
    assert parse(text) == asked


@pytest.mark.parametrize(
    "text", ["main", "/main", "/", "a/b/c", "A/b", "a/B", "a b/c", "../x", "a/..", f"{'a' * 64}/b"]
)
def test_a_name_that_is_none_is_told_with_what_it_should_be(text: str) -> None:
    with pytest.raises(FrontError) as refused:
        parse(text)
    assert refused.value.refusal is Refusal.INVALID
    assert repr(text.strip()) in str(refused.value) or repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("configuration", "asked", "left"),
    [
        (None, OWN, {}),
        ({"use:database": "sales"}, OWN, {"use:database": "sales"}),
        ({"use:database": "team-a/main"}, Asked("team-a", "main"), {"use:database": "default"}),
        ({"use:database": "team-a/main/sales"}, Asked("team-a", "main"), {"use:database": "sales"}),
        ({"use:database": "team-a/"}, Asked("team-a"), {"use:database": "default"}),
        (
            {"set:hiveconf:sparksql.session": "team-a/main", "use:database": "sales", "set:hiveconf:a": "1"},
            Asked("team-a", "main"),
            {"use:database": "sales", "set:hiveconf:a": "1"},
        ),
        ({"session": "team-a/main"}, Asked("team-a", "main"), {}),
        (
            {"session": "team-a/main", "use:database": "team-a/main"},
            Asked("team-a", "main"),
            {"use:database": "default"},
        ),
    ],
)
def test_clients_of_hive_name_a_session_by_database_or_property(
    configuration: dict[str, str] | None, asked: Asked, left: dict[str, str]
) -> None:
    assert parse_thrift(configuration) == (asked, left)


def test_two_sessions_of_one_connection_are_refused() -> None:
    with pytest.raises(FrontError, match="several sessions: a/b, a/c"):
        parse_thrift({"session": "a/b", "use:database": "a/c"})


def test_users_without_a_namespace_are_told_how_to_name_one() -> None:
    assert home_of(ACCOUNT, "") == home_of(ACCOUNT, "users") == "team-a"
    assert home_of("ada@example.com", "users") == "users"
    with pytest.raises(FrontError, match="NAMESPACE/NAME, or NAMESPACE/"):
        home_of("ada@example.com", "")


USERS = st.text(min_size=1, max_size=300)


@given(user=USERS, connection=st.sampled_from(["", "c1", "c2"]))
def test_names_of_own_sessions_are_those_of_kubernetes_objects(user: str, connection: str) -> None:
    name = own_name(user, connection)
    assert len(name) <= MAX_NAME_LENGTH
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
    assert re.fullmatch(r"[0-9a-f]{32}", user_label(user))


@given(first=USERS, second=USERS)
def test_two_users_never_share_a_name(first: str, second: str) -> None:
    assert (own_name(first) == own_name(second)) == (first == second)
    assert own_name(first, "c") != own_name(first)


@given(user=USERS)
def test_a_user_is_read_from_a_header_as_it_was_written(user: str) -> None:
    assert written_user(user).isascii()
    assert read_user(written_user(user)) == user


@given(uid=st.uuids().map(str))
def test_handles_lead_to_their_driver_and_differ(uid: str) -> None:
    first, second = new_handle(uid), new_handle(uid)
    assert first != second
    assert prefix_of(first) == prefix_of(second.upper()) == handle_prefix(uid)
