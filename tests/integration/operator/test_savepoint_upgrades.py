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
async def world(crds: ApiServer, namespace: str) -> AsyncIterator[SavepointEnvironment]:
    async with SavepointEnvironment.made(crds, namespace) as world:
        yield world


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt of a savepoint follows at once."""
    monkeypatch.setattr("sparksql.domain.savepoint.steps.FIRST_BACKOFF_SECONDS", 0.0)


def options(world: SavepointEnvironment, name: str = "st") -> Iterator[StreamOptions]:
    """How the attempts ran."""
    for execution in world.ledger.ran(name):
        assert execution.request.streaming is not None
        yield execution.request.streaming


async def commits(world: SavepointEnvironment, batch: int, **wanted: Any) -> Object:
    """As soon as it runs well and has committed this batch: one that goes on has committed others before."""
    await world.wait(STATEMENTS, "st", f"commits {batch}", lambda o: _committed(o) == batch)
    return await world.runs(**wanted)


def _committed(statement: Object) -> object:
    return statement.get("status", {}).get("streaming", {}).get("committedBatchId")


def folders(world: SavepointEnvironment) -> list[str]:
    """Folders of the attempts' checkpoints, below the statement's own."""
    return [each.checkpoint.rsplit("/", 1)[-1] for each in options(world)]


def streaming_of(statement: Object) -> Object:
    status: Object = statement["status"]["streaming"]
    return status


# --- startFrom


async def test_stream_starts_from_a_savepoint_and_moves_to_another_by_restore_nonce(
    world: SavepointEnvironment,
) -> None:
    world.ledger.checkpoints.saved[OLD] = Saved(7, "6f0c", sql_hash="abc")
    async with world.operator():
        await world.stream(streaming=FROM)
        alone = await world.in_phase(STATEMENTS, "st", "Initialized", "WaitingForSavepoint")
        world.ledger.savepoints.held["sp"] = 1
        await world.save(source="Existing", location=OLD)
        await world.saving()
        assert reason_of(await world.get(STATEMENTS, "st")) == "WaitingForSavepoint"
        assert world.ledger.ran("st") == []
        world.ledger.savepoints.release("sp")
        first = await commits(world, 8)
        await world.wait(SAVEPOINTS, "sp", "is used", lambda o: o["status"].get("usedBy") == ["st"])
        await world.save("later")
        later = await world.saved("later")
        await world.wish(streaming={"startFrom": {"savepointRef": {"name": "later"}}})
        await world.wait(STATEMENTS, "st", "is seen", lambda o: o["status"]["observedGeneration"] == 2)
        assert len(world.ledger.ran("st")) == 1
        await world.wish(streaming={"restoreNonce": "back"})
        second = await world.runs(attempt=2)
    assert "there is no SqlSavepoint sp" in message_of(alone)
    one, two = options(world)
    assert one.restore is not None and two.restore is not None
    places = [OLD, later["status"]["location"]]
    assert [one.restore.location, two.restore.location] == places
    assert [streaming_of(o)["restoredFrom"] for o in (first, second)] == places
    ids = [streaming_of(o)["queryId"] for o in (first, second)]
    assert ids == [one.restore.query_id, two.restore.query_id]
    assert len({*ids, "6f0c"}) == 3
    assert folders(world) == ["1", "1-1"]
    assert (streaming_of(first).get("observedRestoreNonce", ""), streaming_of(second)["observedRestoreNonce"]) == (
        "",
        "back",
    )


async def test_restarted_stream_goes_on_from_its_checkpoint_not_its_first_savepoint(
    world: SavepointEnvironment,
) -> None:
    world.ledger.checkpoints.saved[OLD] = Saved(7, "6f0c")
    async with world.operator():
        await world.save(source="Existing", location=OLD)
        await world.streams(streaming=FROM)
        await world.kubelet.crash_driver("s")
        await commits(world, 9, attempt=2)
    assert folders(world) == ["1", "1"]


async def test_savepoint_that_cannot_be_had_ends_the_statement(world: SavepointEnvironment) -> None:
    async with world.operator():
        await world.save(source="Existing", location=OLD)
        await world.stream(streaming=FROM)
        done = await world.ended("st", "Error", "InvalidSpec")
    assert message_of(done) == (
        "spec.streaming.startFrom.savepointRef.name: SqlSavepoint sp is Failed; name a completed one"
    )
    assert world.ledger.ran("st") == []


# --- upgradeMode: Savepoint


async def test_stopped_stream_takes_a_savepoint_and_resumes_from_its_checkpoint(world: SavepointEnvironment) -> None:
    drivers = world.ledger.savepoints
    drivers.held["st-stop-"] = 1
    async with world.operator():
        await world.streams(streaming={"upgradeMode": "Savepoint"})
        await world.wish(desiredState="Stopped")
        name = await world.made_by_operator("-stop-")
        await world.saving(name)
        ending = await world.in_phase(STATEMENTS, "st", "Running", "TakingSavepoint")
        drivers.release("st-stop-")
        rests = await world.in_phase(STATEMENTS, "st", "Stopped", "StoppedByUser")
        savepoint = await world.get(SAVEPOINTS, name)
        await world.wish(desiredState="Running")
        await world.runs(attempt=2)
    assert "savepoint" in message_of(ending)
    assert (savepoint["status"]["phase"], savepoint["status"]["trigger"]) == ("Completed", "Upgrade")
    assert savepoint["spec"]["reclaimPolicy"] == "Delete"
    assert streaming_of(rests)["lastSavepoint"]["name"] == name
    assert len(drivers.copied) == 1
    assert folders(world) == ["1", "1"]
    assert [each.restore for each in options(world)] == [None, None]


async def test_changed_text_goes_on_after_a_savepoint(world: SavepointEnvironment) -> None:
    drivers = world.ledger.savepoints
    drivers.held["st-stop-"] = 1
    async with world.operator():
        first = await world.streams(streaming={"upgradeMode": "Savepoint"})
        await world.wish(sql=CHANGED)
        name = await world.made_by_operator("-stop-")
        await world.saving(name)
        assert len(world.ledger.ran("st")) == 1
        drivers.release("st-stop-")
        second = await world.runs(attempt=2)
        savepoint = await world.get(SAVEPOINTS, name)
    assert [e.sql for e in world.ledger.ran("st")] == [TEXT, CHANGED]
    assert folders(world) == ["1", "1"]
    assert streaming_of(second)["queryId"] == streaming_of(first)["queryId"]
    hashes = [obj["status"]["sqlHash"] for obj in (first, savepoint, second)]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.usefixtures("_at_once")
async def test_upgrade_with_a_failed_savepoint_is_parked_until_the_savepoint_is_deleted(
    world: SavepointEnvironment,
) -> None:
    world.ledger.savepoints.messages["st-stop-"] = ["disk full"] * 4
    async with world.operator():
        await world.streams(streaming={"upgradeMode": "Savepoint"})
        await world.wish(sql=CHANGED)
        parked = await world.in_phase(STATEMENTS, "st", "Stopped", "SavepointFailed")
        name = await world.made_by_operator("-stop-")
        failed = await world.get(SAVEPOINTS, name)
        assert len(world.ledger.ran("st")) == 1
        await world.delete(SAVEPOINTS, name)
        await world.until("a Job", lambda: world.job_of(failed))
        await world.end_job(failed, "SuccessCriteriaMet", "Complete")
        await world.runs(attempt=2)
        again = await world.get(SAVEPOINTS, name)
    told = f"SqlSavepoint {name} is Failed: gave up after 4 attempts: disk full"
    assert message_of(parked).startswith(told)
    assert "delete that SqlSavepoint for another try" in message_of(parked)
    assert condition(parked, "Stalled") == "True"
    assert again["status"]["phase"] == "Completed"
    assert again["metadata"]["uid"] != failed["metadata"]["uid"]
    assert [e.sql for e in world.ledger.ran("st")] == [TEXT, CHANGED]


@pytest.mark.usefixtures("_at_once")
async def test_stream_stops_even_if_its_stop_savepoint_fails(world: SavepointEnvironment) -> None:
    world.ledger.savepoints.messages["st-stop-"] = ["disk full"] * 4
    async with world.operator():
        await world.streams(streaming={"upgradeMode": "Savepoint"})
        await world.wish(desiredState="Stopped")
        rests = await world.in_phase(STATEMENTS, "st", "Stopped", "StoppedByUser")
        await world.wish(desiredState="Running")
        await world.runs(attempt=2)
    assert "without a savepoint" in message_of(rests)
    assert "disk full" in message_of(rests)
    assert condition(rests, "Stalled") == "False"
    assert folders(world) == ["1", "1"]


# --- texts that the state does not fit


async def test_stopped_stream_with_incompatible_sql_is_parked_until_the_old_sql_is_back(
    world: SavepointEnvironment,
) -> None:
    async with world.operator():
        first = await world.streams()
        await world.wish(desiredState="Stopped")
        await world.in_phase(STATEMENTS, "st", "Stopped", "StoppedByUser")
        await world.wish(sql=UNFIT, desiredState="Running")
        parked = await world.in_phase(STATEMENTS, "st", "Stopped", "StateIncompatible")
        await world.wish(sql=TEXT)
        second = await world.runs(attempt=3)
    assert condition(parked, "Stalled") == "True"
    assert message_of(parked) == "operator 1: column k was int, is string"
    assert [e.sql for e in world.ledger.ran("st")] == [TEXT, TEXT]
    assert folders(world) == ["1", "1"]
    assert streaming_of(second)["queryId"] == streaming_of(first)["queryId"]


async def test_stream_with_incompatible_sql_begins_anew_with_start_fresh(world: SavepointEnvironment) -> None:
    async with world.operator():
        first = await world.streams()
        await world.wish(sql=UNFIT)
        await world.in_phase(STATEMENTS, "st", "Running", "StateIncompatible")
        await world.wish(streaming={"onIncompatible": "StartFresh"})
        second = await world.runs(attempt=3)
        await world.wish(sql=f"{UNFIT} WHERE true")
        third = await world.runs(attempt=5)
    assert [e.sql for e in world.ledger.ran("st")] == [TEXT, UNFIT, f"{UNFIT} WHERE true"]
    assert folders(world) == ["1", "1-1", "1-2"]
    assert len({streaming_of(each)["queryId"] for each in (first, second, third)}) == 3


# --- schedules and retention


async def test_schedule_makes_savepoints_and_retention_removes_them(world: SavepointEnvironment) -> None:
    rules = {"schedule": {"intervalSeconds": 1}, "retention": {"keepLast": 2}}
    async with world.operator(), cleaning(world):
        await world.streams()
        await world.save("mine")
        await world.saved("mine")
        await world.wish(streaming={"savepoints": rules})
        await world.until("two of them have gone", lambda: len(world.witness.names()) - _living(world) >= 2)
        await world.wish(streaming={"savepoints": {"schedule": {"paused": True}}})
        await world.until("the rules are met", lambda: _settled(world))
        left = (await world.client.list(SAVEPOINTS, world.namespace)).items
        statement = await world.get(STATEMENTS, "st")
    made = [name for name in world.witness.names() if name != "mine"]
    kept = sorted(obj["metadata"]["name"] for obj in left)
    assert kept == ["mine", *sorted(made)[-2:]]  # their names end in the time
    assert {obj["status"]["trigger"] for obj in left} == {"Manual", "Periodic"}
    assert streaming_of(statement)["lastSavepoint"]["name"] == max(made)
    assert statement["status"]["attempt"] == 1
    assert [copy.request.name for copy in world.ledger.savepoints.copied] == ["mine", *sorted(made)]


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
async def test_statement_deletion_treats_operator_made_savepoints_by_on_delete_policy(
    world: SavepointEnvironment, policy: str
) -> None:
    async with world.operator(), cleaning(world):
        await world.streams(streaming={"upgradeMode": "Savepoint", "savepoints": {"onDelete": policy}})
        await world.save("mine", reclaimPolicy="Delete")
        await world.saved("mine")
        await world.wish(desiredState="Stopped")
        await world.in_phase(STATEMENTS, "st", "Stopped")
        name = await world.made_by_operator("-stop-")
        await world.delete(STATEMENTS, "st")
        await world.gone(STATEMENTS, "st")
        if policy == "Delete":
            await world.gone(SAVEPOINTS, name)
        else:
            await world.wait(SAVEPOINTS, name, "is used by nobody", lambda o: not o["status"].get("usedBy"))
        left = (await world.client.list(SAVEPOINTS, world.namespace)).items
    assert [obj["metadata"]["name"] for obj in left] == (["mine"] if policy == "Delete" else ["mine", name])
    assert not any("deletionTimestamp" in obj["metadata"] for obj in left)


@contextlib.asynccontextmanager
async def cleaning(world: SavepointEnvironment) -> AsyncIterator[None]:
    """A controller of Jobs whose pods succeed at once."""

    async def work() -> None:
        while True:
            for name in world.witness.names():
                savepoint = world.witness.latest(SAVEPOINTS, name)
                job = await world.job_of(savepoint) if savepoint is not None else None
                if job is not None and not job.get("status", {}).get("conditions"):
                    await world.end_job(savepoint or {}, "SuccessCriteriaMet", "Complete")
            await asyncio.sleep(0.1)

    task = asyncio.create_task(work())
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _living(world: SavepointEnvironment) -> int:
    return sum(1 for name in world.witness.names() if world.witness.latest(SAVEPOINTS, name) is not None)


def _settled(world: SavepointEnvironment) -> bool:
    """Nothing is being taken or removed, and two of the operator's own are left."""
    found = [world.witness.latest(SAVEPOINTS, name) for name in world.witness.names()]
    living = [obj for obj in found if obj is not None]
    over = all(obj.get("status", {}).get("phase") == "Completed" for obj in living)
    return over and len(living) == 3 and not any("deletionTimestamp" in obj["metadata"] for obj in living)
