"""What the client makes of answers that a healthy API server rarely gives, from a server that gives them on demand."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TooManyRequests,
    Unavailable,
    error_from,
)
from sparksql.kube.resources import CONFIG_MAPS, PODS, SESSION_CLASSES, STATEMENTS

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, **options: Any) -> AsyncIterator[KubeClient]:
    """A client of a server on loopback that answers every request with `handler`."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    token_path = options.pop("token_path", None)
    try:
        async with KubeClient(Credentials(f"http://{host}:{port}", token_path=token_path), **options) as client:
            yield client
    finally:
        await runner.cleanup()


def status(code: int, reason: str, message: str = "", **details: Any) -> bytes:
    return json.dumps({"kind": "Status", "reason": reason, "message": message, "details": details}).encode()


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", ApiError),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
    ],
)
def test_error_type_follows_code_and_reason_of_the_api_server(code: int, reason: str, expected: type[ApiError]) -> None:
    error = error_from(code, status(code, reason, "because"))
    assert type(error) is expected
    assert (error.status, error.reason, error.message) == (code, reason, "because")


def test_an_answer_that_is_no_status_is_quoted() -> None:
    error = error_from(502, b"<html>bad gateway</html>")
    assert isinstance(error, Unavailable)
    assert error.message == "<html>bad gateway</html>"


@pytest.mark.parametrize(("code", "unsaid"), [(429, 1.0), (500, 0.0), (503, 0.0), (409, 0.0)])
def test_retry_after_comes_from_the_header_or_the_status(code: int, unsaid: float) -> None:
    said = status(code, "ServerTimeout", retryAfterSeconds=7)
    for error in (error_from(code, b"", "7"), error_from(code, said), error_from(code, said, "Wed, 21 Oct 2026")):
        assert error.retry_after == 7.0
    assert error_from(code, b"").retry_after == unsaid


def test_a_validation_error_does_not_print_the_values_it_quotes() -> None:
    causes = [{"field": "spec.sql", "reason": "FieldValueInvalid", "message": 'Invalid value: "SELECT secret"'}]
    error = error_from(422, status(422, "Invalid", 'spec.sql: Invalid value: "SELECT secret"', causes=causes))
    assert str(error) == "422 Invalid: spec.sql FieldValueInvalid"
    assert "SELECT secret" in error.message


def test_forbidden_tells_a_quota_and_a_namespace_that_ends() -> None:
    ending = error_from(403, status(403, "Forbidden", causes=[{"reason": "NamespaceTerminating"}]))
    quota = error_from(403, status(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: q, requested: pods=1'))
    assert isinstance(ending, Forbidden)
    assert isinstance(quota, Forbidden)
    assert (ending.namespace_terminating, ending.quota_exceeded) == (True, False)
    assert (quota.namespace_terminating, quota.quota_exceeded) == (False, True)


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_a_name_that_climbs_the_path_is_not_found_without_asking(name: str) -> None:
    async def refuse(request: web.Request) -> web.Response:
        pytest.fail(f"asked for {request.path}")

    async with serving(refuse) as client:
        for ask in (client.get, client.delete):
            with pytest.raises(NotFound):
                await ask(CONFIG_MAPS, "team-a", name)


def test_api_path_has_the_group_the_namespace_and_an_escaped_name() -> None:
    assert PODS.collection_path("") == "/api/v1/pods"
    assert STATEMENTS.path("team-a", "x", "status") == (
        "/apis/sparksql.dev/v1alpha1/namespaces/team-a/sqlstatements/x/status"
    )
    assert SESSION_CLASSES.path("team-a", "x") == "/apis/sparksql.dev/v1alpha1/sqlsessionclasses/x"
    assert CONFIG_MAPS.path("team-a", "../secrets/x") == "/api/v1/namespaces/team-a/configmaps/..%2Fsecrets%2Fx"


async def test_a_refused_token_is_read_again_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    seen: list[str | None] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        token.write_text("new\n")
        if seen[-1] != "Bearer new":
            return web.Response(status=401, body=status(401, "Unauthorized"))
        return web.json_response({"metadata": {"name": "x"}})

    async with serving(answer, token_path=token) as client:
        await client.get(PODS, "team-a", "x")
        await client.get(PODS, "team-a", "x")
    assert seen == ["Bearer old", "Bearer new", "Bearer new"]


async def test_a_rotated_token_is_taken_up_within_a_minute(tmp_path: Path) -> None:
    token, now, seen = tmp_path / "token", [0.0], list[str | None]()
    token.write_text("first")

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.json_response({})

    async with serving(answer, token_path=token, clock=lambda: now[0]) as client:
        await client.get(PODS, "team-a", "x")
        token.write_text("second")
        now[0] = 59.0
        await client.get(PODS, "team-a", "x")
        now[0] = 60.0
        await client.get(PODS, "team-a", "x")
    assert seen == ["Bearer first", "Bearer first", "Bearer second"]


async def test_no_answer_in_time_and_no_connection_are_unavailable() -> None:
    seen: list[tuple[str, str, int, float]] = []
    looks = itertools.count()

    async def never(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    def observe(verb: str, plural: str, code: int, seconds: float) -> None:
        seen.append((verb, plural, code, seconds))

    def clock() -> float:
        """A second later at each look."""
        return float(next(looks))

    async with serving(never, timeout_seconds=0.1, observer=observe, clock=clock) as client:
        with pytest.raises(Unavailable):
            await client.get(PODS, "team-a", "x")
    async with KubeClient(Credentials("http://127.0.0.1:1"), observer=observe, clock=clock) as client:
        with pytest.raises(Unavailable):
            await client.list(PODS)
    assert seen == [("GET", "pods", 0, 1.0), ("LIST", "pods", 0, 1.0)]


async def test_cancellation_of_a_request_passes_through_the_client() -> None:
    asked = asyncio.Event()

    async def never(_: web.Request) -> web.Response:
        asked.set()
        await asyncio.sleep(60)
        return web.Response()

    async with serving(never) as client:
        task = asyncio.create_task(client.get(PODS, "team-a", "x"))
        async with asyncio.timeout(60):
            await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_listing_that_expired_between_pages_starts_again() -> None:
    expired = False

    async def answer(request: web.Request) -> web.Response:
        nonlocal expired
        token = request.query.get("continue")
        if token == "stale":
            expired = True
            return web.Response(status=410, body=status(410, "Expired"))
        meta = {"resourceVersion": "9", "continue": ""} if expired else {"resourceVersion": "5", "continue": "stale"}
        item = {"metadata": {"name": "new" if expired else "old"}}
        return web.json_response({"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": [item]})

    async with serving(answer) as client:
        listing = await client.list(PODS)
    assert listing.resource_version == "9"
    assert listing.items == [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}}]
