"""A request's target is read in one way: what the front has judged is what a driver reads."""

from __future__ import annotations

import contextlib
import time
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from sparksql.gateway.frontends.rest.routing import ROUTES
from sparksql.wire.target import BadTargetError, RequestTarget, client_path, is_for_clients, is_thrift, read_target

HANDLE = "0d9f0f0e-7c42-4f0e-9a53-0c9b9f7f0001"
OWN = ["/control", "/control/v1/info", "/healthz", "/readyz", "/metrics", "/control/v1/statements/a/cancel"]
PIECES = st.sampled_from(
    [
        *("/", "//", "v1", "v4", "compat", "sessions", HANDLE, "control", "healthz", "metrics", "cliservice", "info"),
        *("..", ".", "%2e", "%2E%2e", "%2f", "%2F", "%00", "%0a", "%0A", "%0d", "%25", "%252f", "%ff", "%c3%bc", "%"),
        *("?", "#", ";", "\\", "%5c", "http://h", "HTTPS://h:1", "*", "h:443", "@", "\n", "\0", "ü", "\udcff", " "),
    ]
)
TARGETS = st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=40).map("/".__add__)


@pytest.mark.parametrize(
    ("raw", "segments", "query"),
    [
        ("/", (), ""),
        ("/v4/info", ("v4", "info"), ""),
        ("//v4///info/", ("v4", "info"), ""),
        ("/a%20b/%C3%BC?x=%2F&y=/", ("a b", "ü"), "x=%2F&y=/"),
        ("/%25%32%46", ("%2F",), ""),
        ("http://host/v4/info?a", ("v4", "info"), "a"),
        ("HTTPS://[::1]:8443//v4/info", ("v4", "info"), ""),
        ("http://host", (), ""),
        ("http://host?x", (), "x"),
    ],
)
def test_request_target_is_read_as_segments_and_query(raw: str, segments: tuple[str, ...], query: str) -> None:
    assert read_target(raw) == RequestTarget(segments, query)


@pytest.mark.parametrize(
    "raw",
    [
        *("", "*", "host:443", "info", "ftp://h/info", "http:///info", "http://u@h/info", "http://h\\x/info"),
        *("/a/../b", "/.", "/%2e%2E/b", "/a%2Fb", "/a%2fb", "/%00", "/%0A", "/%0d", "/%7F", "/%C2%80", "/a\nb", "/a b"),
        *("/%ff", "/%C3", "/ü", "/\udcff", "/%", "/%2", "/%zz", "/a#b", "/a?b#c", "/a?\n", "/a?b c", "/a?ü"),
    ],
)
def test_request_target_that_is_not_understood_is_refused(raw: str) -> None:
    with pytest.raises(BadTargetError):
        read_target(raw)


@pytest.mark.parametrize(
    "raw", ["/" * 8_000, "/a" * 4_000, "/%41" * 2_000, "/compat/" + "/" * 8_000, "/" + "%" * 8_000]
)
def test_request_target_is_read_in_a_moment(raw: str) -> None:
    began = time.process_time()
    with contextlib.suppress(BadTargetError):
        client_path(read_target(raw).segments)
    assert time.process_time() - began < 0.1


@given(TARGETS)
@example("/sessions/x/%2e%2e/control")
def test_request_target_is_the_same_for_the_front_and_for_the_driver(raw: str) -> None:
    try:
        judged = read_target(raw)
    except BadTargetError:
        return  # the front answers it, no driver gets it
    written = str(judged)
    assert read_target(written) == judged
    sent = URL(f"https://host:8443{written}", encoded=True)  # as the front sends it, and aiohttp reads and routes it
    received = URL(sent.raw_path_qs, encoded=True)
    for path in (received.path, received.path_safe.replace("%25", "%")):
        assert tuple(path.split("/")[1:] if judged.segments else ()) == judged.segments
    assert received.raw_query_string == judged.query


@given(TARGETS)
def test_request_target_for_clients_is_none_of_the_drivers_own(raw: str) -> None:
    try:
        segments = read_target(raw).segments
    except BadTargetError:
        return
    if is_for_clients(segments):
        assert str(RequestTarget(segments)) not in OWN and segments[0] not in (
            "control",
            "healthz",
            "readyz",
            "metrics",
        )


@pytest.mark.parametrize("path", OWN)
def test_own_path_of_a_driver_is_not_for_clients_in_any_writing(path: str) -> None:
    encoded = "".join(f"/%{ord(part[0]):02x}{quote(part[1:])}" for part in path.split("/")[1:])
    for raw in (path, f"/{path}", f"{path}/", f"http://h{path}", encoded):
        assert not is_for_clients(read_target(raw).segments)
    for raw in (f"{path}%0A", f"{path}\n", f"/sessions/..{path}", f"/sessions%2F..{path}"):
        with pytest.raises(BadTargetError):
            read_target(raw)


def test_path_of_each_route_of_the_api_is_for_clients() -> None:
    for route in ROUTES:
        for prefix in ((), ("v4",), ("compat",), ("compat", "v1")):
            assert is_for_clients((*prefix, *route.segments)), route
    assert is_for_clients(("cliservice",)) and is_thrift(("cliservice",)) and not is_for_clients(("v1", "cliservice"))
    assert not any(map(is_for_clients, [(), ("v1",), ("compat",), ("anything",)]))
