"""Bodies are read as generously as the released server reads them, and no more; paths find their route; tokens their page."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.gateway_settings import API_VERSIONS
from sparksql.gateway.frontends.rest.models import (
    BadBodyError,
    CompleteStatementRequest,
    ExecuteStatementRequest,
    OpenSessionRequest,
    RestModel,
    read_body,
)
from sparksql.gateway.frontends.rest.paging import Bookmark, Bookmarks, UnexpectedTokenError
from sparksql.gateway.frontends.rest.routing import ROUTES, VERSIONS, match_route
from sparksql.wire.target import read_target

Execute, Open, Complete = ExecuteStatementRequest, OpenSessionRequest, CompleteStatementRequest

READ: list[tuple[type[RestModel], str, dict[str, object]]] = [
    (Execute, "", {"statement": None, "execution_timeout": None, "execution_config": None}),
    (Execute, "{}", {"statement": None}),
    (Execute, '{"statement": 5}', {"statement": "5"}),
    (Execute, '{"statement": 1.50}', {"statement": "1.50"}),
    (Execute, '{"statement": true}', {"statement": "true"}),
    (Execute, '{"statement": "x", "foo": {"bar": 1}}', {"statement": "x"}),
    (Execute, '{"execution_timeout": 5}', {"execution_timeout": None}),
    (Execute, '{"executionTimeout": "0"}', {"execution_timeout": 0}),
    (Execute, '{"executionTimeout": -1}', {"execution_timeout": -1}),
    (Execute, '{"executionTimeout": 1.9}', {"execution_timeout": 1}),
    (Execute, '{"executionTimeout": ""}', {"execution_timeout": None}),
    (Execute, '{"executionTimeout": null, "executionConfig": null}', {"execution_config": None}),
    (Execute, '{"executionConfig": {"a": 1, "b": false, "c": null}}', {"execution_config": {"a": "1", "b": "false", "c": None}}),
    (Open, '{"sessionName": null, "properties": null}', {"session_name": None, "properties": None}),
    (Open, '{"properties": {"a": 1, "b": true}}', {"properties": {"a": "1", "b": "true"}}),
    (Complete, '{"statement": "SELECT", "position": "6"}', {"position": 6}),
]  # fmt: skip

REFUSED: list[tuple[type[RestModel], bytes]] = [
    (Open, b'{"properties": {"a": {"b": 1}}}'),
    (Open, b'{"properties": '),
    (Open, b"[]"),
    (Open, b'"x"'),
    (Open, b"null"),
    (Open, b"5"),
    (Execute, b'{"executionTimeout": "abc"}'),
    (Execute, b'{"executionTimeout": true}'),
    (Execute, b'{"executionTimeout": [1]}'),
    (Execute, b'{"executionTimeout": 9223372036854775808}'),
    (Execute, b'{"executionTimeout": 1e999}'),
    (Execute, b'{"executionTimeout": NaN}'),
    (Execute, b'{"executionConfig": []}'),
    (Execute, b'{"statement": ["a"]}'),
    (Execute, b'{"statement": "\\ud800"}'),
    (Execute, b'{"statement": "\xff"}'),
    (Execute, b"[" * 100_000),
    (Execute, b'{"executionTimeout": ' + b"1" * 10_000 + b"}"),
    (Complete, b""),
    (Complete, b'{"statement": "SELECT"}'),
    (Complete, b'{"position": null}'),
    (Complete, b'{"position": 3000000000}'),
]


@pytest.mark.parametrize(("model", "body", "read"), READ)
def test_a_body_is_read_generously(model: type[RestModel], body: str, read: dict[str, object]) -> None:
    found = read_body(model, body.encode()).model_dump()
    assert {key: found[key] for key in read} == read


@pytest.mark.parametrize(("model", "body"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_body_that_cannot_be_meant_is_refused_with_a_reason(model: type[RestModel], body: bytes) -> None:
    with pytest.raises(BadBodyError) as refused:
        read_body(model, body)
    assert 5 < len(str(refused.value)) < 300


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = ["statement", "executionTimeout", "executionConfig", "position", "properties", "sessionName"]


@given(body=st.dictionaries(st.sampled_from(KEYS), json_values, max_size=4), raw=st.binary(max_size=20))
def test_any_body_is_read_or_refused(body: dict[str, object], raw: bytes) -> None:
    for model in (Execute, Open, Complete):
        for text in (json.dumps(body).encode(), raw, raw.hex().encode()):
            try:
                read_body(model, text)
            except BadBodyError:
                continue


S, O = "5cbb1a23-1c1c-4b0a-8f7f-0e8f0e8f0e8f", "6cbb1a23-1c1c-4b0a-8f7f-0e8f0e8f0e8f"  # noqa: E741
FOUND = [
    ("GET", "/info", "info", 4, "/v4"),
    ("GET", "/v1/info", "info", 1, "/v1"),
    ("GET", "/v1/info/", "info", 1, "/v1"),
    ("GET", "//v1//info", "info", 1, "/v1"),
    ("GET", "/compat/info", "info", 2, "/compat/v2"),
    ("GET", "/compat/v1/api_versions", "api_versions", 1, "/compat/v1"),
    ("GET", "/compat//v4/info", "info", 4, "/compat/v4"),
    ("POST", "/v4/sessions/", "open_session", 4, "/v4"),
    ("DELETE", f"/v3/sessions/{S}", "close_session", 3, "/v3"),
    ("GET", f"/sessions/{S}/operations/{O}/result/0", "fetch_results", 4, "/v4"),
    ("GET", "/v2/sessions/abc/complete-statement", "complete_statement", 2, "/v2"),
    ("POST", f"/v2/sessions/{S}/complete-statement", "complete_statement", 2, "/v2"),
    ("POST", f"/v3/sessions/{S}/materialized-tables/a.b.c/refresh", "refresh_materialized_table", 3, "/v3"),
    ("DELETE", "/v3/workflow/embedded-scheduler/delete", "workflow", 3, "/v3"),
    ("POST", f"/v4/sessions/{S}/scripts", "deploy_script", 4, "/v4"),
    ("GET", "/v2/openapi.json", "openapi", 2, "/v2"),
]
NOT_FOUND = [
    ("GET", "/"),
    ("GET", "/v1"),
    ("GET", "/v5/info"),
    ("GET", "/V1/info"),
    ("GET", "/v0/info"),
    ("GET", "/v1/v1/info"),
    ("GET", "/compat/compat/info"),
    ("HEAD", "/v1/info"),
    ("OPTIONS", "/v1/info"),
    ("POST", "/v1/info"),
    ("PUT", "/v1/sessions"),
    ("GET", "/v1/sessions"),
    ("GET", f"/v4/sessions/{S}/heartbeat"),
    ("POST", f"/v1/sessions/{S}/configure-session"),
    ("GET", f"/v1/sessions/{S}/complete-statement"),
    ("POST", f"/v2/sessions/{S}/materialized-tables/a.b.c/refresh"),
    ("POST", f"/v3/sessions/{S}/scripts"),
]


@pytest.mark.parametrize(("method", "path", "name", "version", "prefix"), FOUND)
def test_a_path_finds_its_route(method: str, path: str, name: str, version: int, prefix: str) -> None:
    match = match_route(method, read_target(path).segments, API_VERSIONS)
    assert match is not None
    assert (match.route.name, match.version, match.prefix) == (name, version, prefix)
    assert match.compat == path.startswith("/compat")


@pytest.mark.parametrize(("method", "path"), NOT_FOUND)
def test_everything_else_is_not_found(method: str, path: str) -> None:
    assert match_route(method, read_target(path).segments, API_VERSIONS) is None


def test_without_a_version_the_highest_advertised_is_meant() -> None:
    match = match_route("GET", ("info",), ("V1", "V2", "V3"))
    assert match is not None and match.version == 3
    served = match_route("POST", ("v4", "sessions", S, "scripts"), ("V1",))
    assert served is not None and served.version == 4


@given(
    method=st.sampled_from(["GET", "POST", "DELETE"]),
    segments=st.lists(st.sampled_from(["v1", "v4", "compat", "sessions", "info", "{}", "x"]), max_size=6),
)
def test_no_path_breaks_the_routing(method: str, segments: list[str]) -> None:
    match_route(method, tuple(segments), API_VERSIONS)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_route_is_found_at_its_own_path(version: int) -> None:
    for route in ROUTES:
        match = match_route(route.method, (f"v{version}", *route.segments), API_VERSIONS)
        assert (match is not None and match.route is route) == (version >= route.since), route


def test_a_token_leads_to_the_same_rows_each_time() -> None:
    bookmark = Bookmark()
    assert (bookmark.start(0), bookmark.rows(0, 5000)) == (0, 5000)
    bookmark.turned(0, 1200, 1200)  # the page was cut by its size
    assert (bookmark.start(0), bookmark.rows(0, 5000)) == (0, 1200)
    assert (bookmark.start(1), bookmark.rows(1, 5000), bookmark.end) == (1200, 5000, None)
    bookmark.turned(1, 300, None)
    bookmark.turned(1, 300, None)
    bookmark.turned(0, 1200, 1200)
    assert (bookmark.start(2), bookmark.end) == (1500, 1500)


def test_a_result_without_rows_ends_with_its_first_token() -> None:
    bookmark = Bookmark()
    bookmark.turned(0, 0, None)
    assert bookmark.start(0) == bookmark.end == 0


@pytest.mark.parametrize(
    ("pages", "token", "message"),
    [
        (0, 1, "Expecting token to be 0, but found 1."),
        (0, 99, "Expecting token to be 0, but found 99."),
        (3, 4, "Expecting token to be 3 or 2, but found 4."),
        (3, -1, "Expecting token to be 3 or 2, but found -1."),
    ],
)
def test_a_token_that_no_page_has_is_refused(pages: int, token: int, message: str) -> None:
    bookmark = Bookmark(starts=list(range(pages + 1)))
    with pytest.raises(UnexpectedTokenError) as refused:
        bookmark.start(token)
    assert str(refused.value) == message


def test_a_token_is_next_when_the_one_before_it_was_asked_for_last() -> None:
    bookmark = Bookmark()
    first, second, third, again, back, over = (bookmark.is_next(token) for token in (0, 1, 2, 2, 0, 2))
    assert second and third and not (first or again or back or over)


def test_bookmarks_go_with_their_operation_and_session_and_never_pile_up() -> None:
    bookmarks = Bookmarks(operations_per_session=5)
    first = bookmarks.of("s", "o", large_pages=False)
    assert bookmarks.of("s", "o", large_pages=False) is first
    assert bookmarks.of("s", "o", large_pages=True) is not first
    bookmarks.drop("s", "o")
    assert bookmarks.of("s", "o", large_pages=False) is not first
    for number in range(1000):
        bookmarks.of("s", str(number), large_pages=False)
    assert len(bookmarks) == 10
    bookmarks.drop_session("s")
    bookmarks.drop_session("never seen")
    bookmarks.drop("never seen", "o")
    assert len(bookmarks) == 0
