"""Savepoints in the life of streaming statements: where they start, what they go back to, upgrades, schedules, retention."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from sparksql.kube.resources import SAVEPOINTS, STATEMENTS
from sparksql.wire.control import StreamOptions
from tests.integration.operator.contract_monitor import condition
from tests.integration.operator.environment import message_of, reason_of
from tests.integration.operator.fake_streams import Saved
from tests.integration.operator.savepoint_environment import TEXT, SavepointEnvironment
from tests.support.apiserver import ApiServer

Object = dict[str, Any]
OLD = "file:///old/savepoint"
FROM = {"startFrom": {"savepointRef": {"name": "sp"}}}
CHANGED = f"{TEXT} WHERE true"
UNFIT = f"{TEXT} UNFIT"


@pytest_asyncio.fixture
async def env(crds: ApiServer, namespace: str) -> AsyncIterator[SavepointEnvironment]:
    async with SavepointEnvironment.made(crds, namespace) as env:
        yield env


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt of a savepoint follows at once."""
    monkeypatch.setattr("sparksql.domain.savepoint.steps.FIRST_BACKOFF_SECONDS", 0.0)


def options(env: SavepointEnvironment, name: str = "st") -> Iterator[StreamOptions]:
    """How the attempts ran."""
    for execution in env.ledger.ran(name):
        assert execution.request.streaming is not None
        yield execution.request.streaming


async def commits(env: SavepointEnvironment, batch: int, **wanted: Any) -> Object:
    """As soon as it runs well and has committed this batch: one that goes on has committed others before."""
    await env.wait(STATEMENTS, "st", f"commits {batch}", lambda o: _committed(o) == batch)
    return await env.runs(**wanted)


def _committed(statement: Object) -> object:
    return statement.get("status", {}).get("streaming", {}).get("committedBatchId")


def folders(env: SavepointEnvironment) -> list[str]:
    """Folders of the attempts' checkpoints, below the statement's own."""
    return [each.checkpoint.rsplit("/", 1)[-1] for each in options(env)]


def streaming_of(statement: Object) -> Object:
    status: Object = statement["status"]["streaming"]
    return status


# --- startFrom


async def test_stream_starts_from_a_savepoint_and_moves_to_another_by_restore_nonce(
    env: SavepointEnvironment,
) -> None:
    env.ledger.checkpoints.saved[OLD] = Saved(7, "6f0c", sql_hash="abc")
    async with env.operator():
        await env.stream(streaming=FROM)
        alone = await env.in_phase(STATEMENTS, "st", "Initialized", "WaitingForSavepoint")
        env.ledger.savepoints.held["sp"] = 1
        await env.save(source="Existing", location=OLD)
        await env.saving()
        assert reason_of(await env.get(STATEMENTS, "st")) == "WaitingForSavepoint"
        assert env.ledger.ran("st") == []
        env.ledger.savepoints.release("sp")
        first = await commits(env, 8)
        await env.wait(SAVEPOINTS, "sp", "is used", lambda o: o["status"].get("usedBy") == ["st"])
        await env.save("later")
        later = await env.saved("later")
        await env.wish(streaming={"startFrom": {"savepointRef": {"name": "later"}}})
        await env.wait(STATEMENTS, "st", "is seen", lambda o: o["status"]["observedGeneration"] == 2)
        assert len(env.ledger.ran("st")) == 1
        await env.wish(streaming={"restoreNonce": "back"})
        second = await env.runs(attempt=2)
    assert "there is no SqlSavepoint sp" in message_of(alone)
    one, two = options(env)
    assert one.restore is not None and two.restore is not None
    places = [OLD, later["status"]["location"]]
    assert [one.restore.location, two.restore.location] == places
    assert [streaming_of(o)["restoredFrom"] for o in (first, second)] == places
    ids = [streaming_of(o)["queryId"] for o in (first, second)]
    assert ids == [one.restore.query_id, two.restore.query_id]
    assert len({*ids, "6f0c"}) == 3
    assert folders(env) == ["1", "1-1"]
    assert (streaming_of(first).get("observedRestoreNonce", ""), streaming_of(second)["observedRestoreNonce"]) == (
        "",
        "back",
    )


async def test_restarted_stream_goes_on_from_its_checkpoint_not_its_first_savepoint(
    env: SavepointEnvironment,
) -> None:
    env.ledger.checkpoints.saved[OLD] = Saved(7, "6f0c")
    async with env.operator():
        await env.save(source="Existing", location=OLD)
        await env.streams(streaming=FROM)
        await env.kubelet.crash_driver("s")
        await commits(env, 9, attempt=2)
    assert folders(env) == ["1", "1"]


async def test_savepoint_that_cannot_be_had_ends_the_statement(env: SavepointEnvironment) -> None:
    async with env.operator():
        await env.save(source="Existing", location=OLD)
        await env.stream(streaming=FROM)
        done = await env.ended("st", "Error", "InvalidSpec")
    assert message_of(done) == (
        "spec.streaming.startFrom.savepointRef.name: SqlSavepoint sp is Failed; name a completed one"
    )
    assert env.ledger.ran("st") == []


# --- upgradeMode: Savepoint


async def test_stopped_stream_takes_a_savepoint_and_resumes_from_its_checkpoint(env: SavepointEnvironment) -> None:
    drivers = env.ledger.savepoints
    drivers.held["st-stop-"] = 1
    async with env.operator():
        await env.streams(streaming={"upgradeMode": "Savepoint"})
        await env.wish(desiredState="Stopped")
        name = await env.made_by_operator("-stop-")
        await env.saving(name)
        ending = await env.in_phase(STATEMENTS, "st", "Running", "TakingSavepoint")
        drivers.release("st-stop-")
        rests = await env.in_phase(STATEMENTS, "st", "Stopped", "StoppedByUser")
        savepoint = await env.get(SAVEPOINTS, name)
        await env.wish(desiredState="Running")
        await env.runs(attempt=2)
    assert "savepoint" in message_of(ending)
    assert (savepoint["status"]["phase"], savepoint["status"]["trigger"]) == ("Completed", "Upgrade")
    assert savepoint["spec"]["reclaimPolicy"] == "Delete"
    assert streaming_of(rests)["lastSavepoint"]["name"] == name
    assert len(drivers.copied) == 1
    assert folders(env) == ["1", "1"]
    assert [each.restore for each in options(env)] == [None, None]


async def test_changed_text_goes_on_after_a_savepoint(env: SavepointEnvironment) -> None:
    drivers = env.ledger.savepoints
    drivers.held["st-stop-"] = 1
    async with env.operator():
        first = await env.streams(streaming={"upgradeMode": "Savepoint"})
        await env.wish(sql=CHANGED)
        name = await env.made_by_operator("-stop-")
        await env.saving(name)
        assert len(env.ledger.ran("st")) == 1
        drivers.release("st-stop-")
        second = await env.runs(attempt=2)
        savepoint = await env.get(SAVEPOINTS, name)
    assert [e.sql for e in env.ledger.ran("st")] == [TEXT, CHANGED]
    assert folders(env) == ["1", "1"]
    assert streaming_of(second)["queryId"] == streaming_of(first)["queryId"]
    hashes = [obj["status"]["sqlHash"] for obj in (first, savepoint, second)]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.usefixtures("_at_once")
async def test_upgrade_with_a_failed_savepoint_is_parked_until_the_savepoint_is_deleted(
    env: SavepointEnvironment,
) -> None:
    env.ledger.savepoints.messages["st-stop-"] = ["disk full"] * 4
    async with env.operator():
        await env.streams(streaming={"upgradeMode": "Savepoint"})
        await env.wish(sql=CHANGED)
        parked = await env.in_phase(STATEMENTS, "st", "Stopped", "SavepointFailed")
        name = await env.made_by_operator("-stop-")
        failed = await env.get(SAVEPOINTS, name)
        assert len(env.ledger.ran("st")) == 1
        await env.delete(SAVEPOINTS, name)
        await env.until("a Job", lambda: env.job_of(failed))
        await env.end_job(failed, "SuccessCriteriaMet", "Complete")
        await env.runs(attempt=2)
        again = await env.get(SAVEPOINTS, name)
    told = f"SqlSavepoint {name} is Failed: gave up after 4 attempts: disk full"
    assert message_of(parked).startswith(told)
    assert "delete that SqlSavepoint for another try" in message_of(parked)
    assert condition(parked, "Stalled") == "True"
    assert again["status"]["phase"] == "Completed"
    assert again["metadata"]["uid"] != failed["metadata"]["uid"]
    assert [e.sql for e in env.ledger.ran("st")] == [TEXT, CHANGED]


@pytest.mark.usefixtures("_at_once")
async def test_stream_stops_even_if_its_stop_savepoint_fails(env: SavepointEnvironment) -> None:
    env.ledger.savepoints.messages["st-stop-"] = ["disk full"] * 4
    async with env.operator():
        await env.streams(streaming={"upgradeMode": "Savepoint"})
        await env.wish(desiredState="Stopped")
        rests = await env.in_phase(STATEMENTS, "st", "Stopped", "StoppedByUser")
        await env.wish(desiredState="Running")
        await env.runs(attempt=2)
    assert "without a savepoint" in message_of(rests)
    assert "disk full" in message_of(rests)
    assert condition(rests, "Stalled") == "False"
    assert folders(env) == ["1", "1"]


# --- texts that the state does not fit


async def test_stopped_stream_with_incompatible_sql_is_parked_until_the_old_sql_is_back(
    env: SavepointEnvironment,
) -> None:
    async with env.operator():
        first = await env.streams()
        await env.wish(desiredState="Stopped")
        await env.in_phase(STATEMENTS, "st", "Stopped", "StoppedByUser")
        await env.wish(sql=UNFIT, desiredState="Running")
        parked = await env.in_phase(STATEMENTS, "st", "Stopped", "StateIncompatible")
        await env.wish(sql=TEXT)
        second = await env.runs(attempt=3)
    assert condition(parked, "Stalled") == "True"
    assert message_of(parked) == "operator 1: column k was int, is string"
    assert [e.sql for e in env.ledger.ran("st")] == [TEXT, TEXT]
    assert folders(env) == ["1", "1"]
    assert streaming_of(second)["queryId"] == streaming_of(first)["queryId"]


async def test_stream_with_incompatible_sql_begins_anew_with_start_fresh(env: SavepointEnvironment) -> None:
    async with env.operator():
        first = await env.streams()
        await env.wish(sql=UNFIT)
        await env.in_phase(STATEMENTS, "st", "Running", "StateIncompatible")
        await env.wish(streaming={"onIncompatible": "StartFresh"})
        second = await env.runs(attempt=3)
        await env.wish(sql=f"{UNFIT} WHERE true")
        third = await env.runs(attempt=5)
    assert [e.sql for e in env.ledger.ran("st")] == [TEXT, UNFIT, f"{UNFIT} WHERE true"]
    assert folders(env) == ["1", "1-1", "1-2"]
    assert len({streaming_of(each)["queryId"] for each in (first, second, third)}) == 3


# --- schedules and retention


async def test_schedule_makes_savepoints_and_retention_removes_them(env: SavepointEnvironment) -> None:
    rules = {"schedule": {"intervalSeconds": 1}, "retention": {"keepLast": 2}}
    async with env.operator(), cleaning(env):
        await env.streams()
        await env.save("mine")
        await env.saved("mine")
        await env.wish(streaming={"savepoints": rules})
        await env.until("two of them have gone", lambda: len(env.monitor.names()) - _living(env) >= 2)
        await env.wish(streaming={"savepoints": {"schedule": {"paused": True}}})
        await env.until("the rules are met", lambda: _settled(env))
        left = (await env.client.list(SAVEPOINTS, env.namespace)).items
        statement = await env.get(STATEMENTS, "st")
    made = [name for name in env.monitor.names() if name != "mine"]
    kept = sorted(obj["metadata"]["name"] for obj in left)
    assert kept == ["mine", *sorted(made)[-2:]]  # their names end in the time
    assert {obj["status"]["trigger"] for obj in left} == {"Manual", "Periodic"}
    assert streaming_of(statement)["lastSavepoint"]["name"] == max(made)
    assert statement["status"]["attempt"] == 1
    assert [copy.request.name for copy in env.ledger.savepoints.copied] == ["mine", *sorted(made)]


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
async def test_statement_deletion_treats_operator_made_savepoints_by_on_delete_policy(
    env: SavepointEnvironment, policy: str
) -> None:
    async with env.operator(), cleaning(env):
        await env.streams(streaming={"upgradeMode": "Savepoint", "savepoints": {"onDelete": policy}})
        await env.save("mine", reclaimPolicy="Delete")
        await env.saved("mine")
        await env.wish(desiredState="Stopped")
        await env.in_phase(STATEMENTS, "st", "Stopped")
        name = await env.made_by_operator("-stop-")
        await env.delete(STATEMENTS, "st")
        await env.gone(STATEMENTS, "st")
        if policy == "Delete":
            await env.gone(SAVEPOINTS, name)
        else:
            await env.wait(SAVEPOINTS, name, "is used by nobody", lambda o: not o["status"].get("usedBy"))
        left = (await env.client.list(SAVEPOINTS, env.namespace)).items
    assert [obj["metadata"]["name"] for obj in left] == (["mine"] if policy == "Delete" else ["mine", name])
    assert not any("deletionTimestamp" in obj["metadata"] for obj in left)


@contextlib.asynccontextmanager
async def cleaning(env: SavepointEnvironment) -> AsyncIterator[None]:
    """A controller of Jobs whose pods succeed at once."""

    async def work() -> None:
        while True:
            for name in env.monitor.names():
                savepoint = env.monitor.latest(SAVEPOINTS, name)
                job = await env.job_of(savepoint) if savepoint is not None else None
                if job is not None and not job.get("status", {}).get("conditions"):
                    await env.end_job(savepoint or {}, "SuccessCriteriaMet", "Complete")
            await asyncio.sleep(0.1)

    task = asyncio.create_task(work())
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _living(env: SavepointEnvironment) -> int:
    return sum(1 for name in env.monitor.names() if env.monitor.latest(SAVEPOINTS, name) is not None)


def _settled(env: SavepointEnvironment) -> bool:
    """Nothing is being taken or removed, and two of the operator's own are left."""
    found = [env.monitor.latest(SAVEPOINTS, name) for name in env.monitor.names()]
    living = [obj for obj in found if obj is not None]
    over = all(obj.get("status", {}).get("phase") == "Completed" for obj in living)
    return over and len(living) == 3 and not any("deletionTimestamp" in obj["metadata"] for obj in living)
