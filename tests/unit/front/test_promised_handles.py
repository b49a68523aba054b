"""Sessions and statements of REST clients whose driver is still to come: PENDING by any replica, handed over by one, in order."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from sparksql.front import promises, rest
from sparksql.front.driver_http import HAND_OVER_SECONDS
from sparksql.front.limits import FrontLimits
from sparksql.front.model import FrontError, Refusal
from sparksql.protocols.budget import BYTES, Budget
from sparksql.wire.front import (
    handle_prefix,
    new_handle,
    prefix_of,
    promise_age,
    promised_handle,
    promised_handle_beside,
)
from tests.unit.front.test_requests_of_rest_clients import LIMITS, UID, Running, running

STARTING = FrontError(Refusal.NOT_READY, "session a/b is not Ready: Starting")
SELECT = {"statement": "SELECT 1"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "AT_ONCE_SECONDS", 0.02)
    monkeypatch.setattr(promises, "PATIENCE_SECONDS", 0.02)


@pytest.fixture
async def front() -> AsyncIterator[Running]:
    async with running() as made:
        made.sessions.starting = STARTING
        yield made


async def opened(front: Running, body: object = None) -> str:
    status, told = await front.ask("POST", "/v3/sessions", body)
    assert status == 200, told
    handle: str = told["sessionHandle"]
    return handle


async def outlasted(front: Running) -> None:
    """Asks for a page that is held for a moment and is not ready then: what was asked before has waited for longer."""
    handle = promised_handle(UID, time.time())
    page = f"/v3/sessions/{handle}/operations/{promised_handle_beside(handle, time.time())}/result/0"
    assert (await front.ask("GET", page))[1]["resultType"] == "NOT_READY"


async def handed_over(front: Running, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(front.driver.seen) < count:
        assert time.monotonic() < deadline, front.driver.seen
        await asyncio.sleep(0.01)


async def test_requests_before_the_driver_is_there_are_pending_and_handed_over_in_order(front: Running) -> None:
    handle = await opened(front, {"properties": {"spark.sql.ansi.enabled": "true", "sparksql.session": "a/b"}})
    path = f"/v3/sessions/{handle}"
    given = []
    for number in range(3):
        status, told = await front.ask("POST", f"{path}/statements", {"statement": f"SELECT {number}"})
        assert status == 200
        given.append(told["operationHandle"])
        assert await front.ask("GET", f"{path}/operations/{given[-1]}/status") == (200, {"status": "PENDING"})
    page = f"{path}/operations/{given[0]}/result/0?rowFormat=JSON"
    assert await front.ask("GET", page) == (200, {"resultType": "NOT_READY", "nextResultUri": page})
    assert await front.ask("POST", f"{path}/heartbeat") == (200, {})
    assert front.driver.seen == []
    front.sessions.start()
    await handed_over(front, 4)
    assert front.driver.promised == [handle, *given]
    assert [json.loads(body).get("statement") for _, _, body, _, _ in front.driver.seen] == [
        None, "SELECT 0", "SELECT 1", "SELECT 2"
    ]  # fmt: skip
    front.driver.answer = lambda request, body: web.json_response({"status": "RUNNING"})
    assert await front.ask("GET", f"{path}/operations/{given[0]}/status") == (200, {"status": "RUNNING"})
    assert front.driver.promised[-1] is None


@pytest.mark.parametrize("refusal", [Refusal.FORBIDDEN, Refusal.UNAUTHENTICATED])
async def test_requests_of_a_user_whose_right_is_withdrawn_are_not_handed_over(
    front: Running, refusal: Refusal, caplog: pytest.LogCaptureFixture
) -> None:
    path = f"/v3/sessions/{await opened(front)}"
    assert (await front.ask("POST", f"{path}/statements", {"statement": "CREATE TABLE t (a INT)"}))[0] == 200
    front.sessions.withdrawn = FrontError(refusal, "not any more")
    front.sessions.start()
    deadline = time.monotonic() + 60
    while len(caplog.records) < 2:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    assert {record.message for record in caplog.records} == {"an early request was not handed over"}
    assert front.driver.seen == []


async def test_any_replica_knows_that_a_session_is_to_come(front: Running) -> None:
    handle = await opened(front)
    async with running(of=front) as other:
        operation = promised_handle_beside(handle, time.time())
        path = f"/v4/sessions/{handle}"
        assert await other.ask("GET", f"{path}/operations/{operation}/status") == (200, {"status": "PENDING"})
        held = asyncio.create_task(other.ask("GET", path))  # only the driver knows its properties
        refused = {"x-sparksql-problem": "UnknownSession"}

        def not_yet(request: web.Request, body: bytes) -> web.Response:
            known = len(front.driver.seen) > 2
            return web.json_response({"known": known}, status=200 if known else 500, headers={} if known else refused)

        front.driver.answer = not_yet
        front.sessions.start()
        assert await held == (200, {"known": True})


async def test_a_handle_that_never_comes_is_told_in_the_end(front: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparksql.front.driver_http.HAND_OVER_SECONDS", 0.2)
    handle = promised_handle(UID, time.time())  # of a replica that is gone
    front.sessions.start()
    front.driver.answer = lambda request, body: web.json_response(
        {"errors": ["does not exist"]}, status=500, headers={"x-sparksql-problem": "UnknownSession"}
    )
    assert await front.ask("GET", f"/sessions/{handle}") == (500, {"errors": ["does not exist"]})
    assert len(front.driver.seen) > 1
    late = promised_handle(UID, time.time() - LIMITS.hold_seconds - promises.GRACE_SECONDS - 1)
    before = len(front.driver.seen)
    assert (await front.ask("GET", f"/sessions/{late}"))[0] == 500
    assert len(front.driver.seen) == before + 1


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v3/sessions/{}/statements", {"statement": 1}),
        ("POST", "/v3/sessions/{}/statements", {"statement": "SELECT 1", "what": 1}),
        ("GET", "/v1/sessions/{}/operations/{}/status", None),
        ("GET", "/v1/sessions/{}/operations/{}/result/0", None),
        ("POST", "/v3/sessions/{}/configure-session", SELECT),
        ("GET", "/v3/sessions/{}", None),
        ("DELETE", "/v3/sessions/{}", None),
    ],
)
async def test_requests_that_only_the_driver_can_answer_wait_for_it(
    front: Running, method: str, path: str, body: object
) -> None:
    handle = promised_handle(UID, time.time())
    asked = path.format(handle, promised_handle_beside(handle, time.time()))
    held = asyncio.create_task(front.ask(method, asked, body))
    await outlasted(front)
    assert not held.done() and front.driver.seen == []
    front.driver.answer = lambda request, body: web.json_response({"by": "driver"})
    front.sessions.start()
    assert await held == (200, {"by": "driver"})


async def test_an_opening_that_a_driver_must_judge_waits_for_it(front: Running) -> None:
    held = asyncio.create_task(front.ask("POST", "/v3/sessions", {"properties": {"a": 1}}))
    await outlasted(front)
    assert not held.done()
    front.driver.answer = lambda request, body: web.json_response({"errors": ["no text"]}, status=400)
    front.sessions.start()
    assert (await held)[0] == 400


async def test_a_session_that_does_not_start_says_so_to_who_waits(front: Running) -> None:
    path = f"/v3/sessions/{await opened(front)}"
    operation = (await front.ask("POST", f"{path}/statements", SELECT))[1]["operationHandle"]
    front.sessions.starting = FrontError(Refusal.NOT_SERVED, "session a/b serves no clients: Failed (InitFailed)")
    status, told = await front.ask("GET", f"{path}/operations/{operation}/status")
    assert (status, told) == (409, {"errors": ["session a/b serves no clients: Failed (InitFailed)"]})


@pytest.mark.parametrize(
    ("limits", "budget"),
    [(FrontLimits(promises=2), Budget.of()), (LIMITS, Budget.of(replace(BYTES, each=3 * len(json.dumps(SELECT)))))],
)
async def test_a_replica_takes_so_many_requests_ahead(limits: FrontLimits, budget: Budget) -> None:
    async with running(limits, budget=budget) as front:
        front.sessions.starting = STARTING
        path = f"/v3/sessions/{promised_handle(UID, time.time())}/statements"
        for _ in range(2):
            assert "operationHandle" in (await front.ask("POST", path, SELECT))[1]
        held = asyncio.create_task(front.ask("POST", path, SELECT))  # this client waits by itself
        await outlasted(front)
        assert not held.done() and front.driver.seen == []
        front.sessions.start()
        await handed_over(front, 3)
        assert (await held)[0] == 200 and front.driver.promised.count(None) == 1


@given(uid=st.text(min_size=1, max_size=40), now=st.integers(0, 2**32 - 1), later=st.integers(0, 10_000))
def test_a_promised_handle_leads_to_its_driver_and_tells_its_age(uid: str, now: int, later: int) -> None:
    session = promised_handle(uid, now + 0.7)
    operation = promised_handle_beside(session, now)
    assert session != operation
    for handle in (session, operation):
        assert str(uuid.UUID(handle)) == handle and prefix_of(handle) == handle_prefix(uid)
        assert promise_age(handle, now + later) == later
    assert promise_age(new_handle(uid), now) is None
    assert promise_age(promised_handle(uid, now), now - 31) is None, "of a time that is still to come"


async def test_a_made_up_handle_has_a_driver_asked_a_few_times_only(front: Running) -> None:
    front.sessions.start()
    front.driver.answer = lambda request, body: web.json_response(
        {"errors": ["does not exist"]}, status=500, headers={"x-sparksql-problem": "UnknownSession"}
    )
    began = asyncio.get_running_loop().time()
    assert (await front.ask("GET", f"/sessions/{promised_handle(UID, time.time())}"))[0] == 500
    assert 2 < len(front.driver.seen) <= 7
    assert asyncio.get_running_loop().time() - began >= HAND_OVER_SECONDS
    front.driver.seen.clear()
    assert (await front.ask("GET", f"/sessions/{promised_handle(UID, time.time() + 3600)}"))[0] == 500
    assert len(front.driver.seen) == 1


async def test_a_request_that_is_held_ends_with_the_right_of_its_user() -> None:
    async with running(FrontLimits(hold_seconds=60, allowed_seconds=0.05)) as front:
        front.driver.answer = lambda request, body: web.json_response(
            {}, status=500, headers={"x-sparksql-problem": "UnknownSession"}
        )
        front.sessions.refused = {"everything"}
        began = asyncio.get_running_loop().time()
        assert (await front.ask("GET", f"/sessions/{promised_handle(UID, time.time())}"))[0] == 403
        assert asyncio.get_running_loop().time() - began < HAND_OVER_SECONDS
