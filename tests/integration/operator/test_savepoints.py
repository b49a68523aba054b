"""SqlSavepoints: taken once whatever goes wrong, adopted, tried again, given up, and deleted together with their data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from sparksql.drivers.client import GatewayClient
from sparksql.kube.resources import EVENTS, SAVEPOINTS, STATEMENTS
from sparksql.wire.control import GatewayInfo
from tests.integration.operator.contract_monitor import condition
from tests.integration.operator.environment import message_of
from tests.integration.operator.fake_savepoints import FILE_COUNT, SIZE_BYTES, SPARK_VERSION
from tests.integration.operator.fake_streams import Saved
from tests.integration.operator.savepoint_environment import SAVEPOINT_ROOT, TEXT, SavepointEnvironment, dies
from tests.support.apiserver import ApiServer

OLD = "file:///old/savepoint"


@pytest_asyncio.fixture
async def world(crds: ApiServer, namespace: str) -> AsyncIterator[SavepointEnvironment]:
    async with SavepointEnvironment.made(crds, namespace) as world:
        yield world


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt follows at once."""
    monkeypatch.setattr("sparksql.domain.savepoint.steps.FIRST_BACKOFF_SECONDS", 0.0)


# --- taken


async def test_savepoint_waits_for_the_first_batch_and_completes_with_full_status(world: SavepointEnvironment) -> None:
    drivers = world.ledger.savepoints
    drivers.held["sp"] = 1
    async with world.operator():
        await world.stream(sql=f"{TEXT} IDLE")
        await world.in_phase(STATEMENTS, "st", "Running")
        made = await world.save()
        waits = await world.in_phase(SAVEPOINTS, "sp", "Pending", "Pending")
        world.ledger.release("st")
        during = await world.saving()
        drivers.release("sp")
        await world.saved()
        statement = await world.wait(
            STATEMENTS, "st", "knows it", lambda o: "lastSavepoint" in o["status"]["streaming"]
        )
        done = await world.wait(SAVEPOINTS, "sp", "knows who uses it", lambda o: o["status"].get("usedBy") == ["st"])
    status, streaming = done["status"], statement["status"]["streaming"]
    assert message_of(waits) == "statement st has no state to save yet; waits for its first batch"
    assert status["location"] == f"{SAVEPOINT_ROOT}/{world.namespace}/st/sp-{made['metadata']['uid']}"
    assert during["status"]["location"] == status["location"]
    assert (status["batchId"], status["queryId"]) == (0, streaming["queryId"])
    assert (status["sqlHash"], status["sparkVersion"]) == (statement["status"]["sqlHash"], SPARK_VERSION)
    assert (status["sizeBytes"], status["fileCount"]) == (SIZE_BYTES, FILE_COUNT)
    assert (status["trigger"], status.get("failures", 0), status["observedGeneration"]) == ("Manual", 0, 1)
    assert status["completionTime"] >= status["startTime"]
    assert streaming["lastSavepoint"] == {"name": "sp", "time": status["completionTime"]}
    ways = [("Pending", "Pending"), ("InProgress", "InProgress"), ("Completed", "Completed")]
    assert world.witness.shown("sp") == ways
    (copy,) = drivers.copies("sp")
    asked = copy.request
    assert (asked.checkpoint, asked.target) == (streaming["checkpointLocation"], status["location"])
    assert (asked.uid, asked.namespace, asked.name) == (made["metadata"]["uid"], world.namespace, "sp")
    assert len(drivers.begun) == 1


async def test_savepoint_created_before_its_statement_waits_and_is_taken(world: SavepointEnvironment) -> None:
    async with world.operator():
        await world.save()
        waits = await world.in_phase(SAVEPOINTS, "sp", "Pending", "StatementNotFound")
        await world.stream()
        await world.saved()
    assert message_of(waits) == "spec.statementRef.name: there is no SqlStatement st"


async def test_savepoint_whose_statement_never_appears_fails(
    world: SavepointEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparksql.domain.savepoint.decide.STATEMENT_SECONDS", 0.0)
    async with world.operator():
        await world.save()
        failed = await world.in_phase(SAVEPOINTS, "sp", "Failed", "StatementNotFound")
    assert message_of(failed).endswith("there is no SqlStatement st; create it, then a new SqlSavepoint")


async def test_statement_that_is_no_stream_has_no_state(world: SavepointEnvironment) -> None:
    async with world.operator():
        await world.create_statement("st")
        await world.save()
        failed = await world.in_phase(SAVEPOINTS, "sp", "Failed", "StatementNotStreaming")
    assert "statement st is not a streaming one" in message_of(failed)


# --- at most once


@pytest.mark.parametrize(("side", "step"), [("after", "intent"), ("after", "save"), ("before", "end")])
async def test_operator_that_dies_on_the_way_copies_nothing_twice(
    world: SavepointEnvironment, monkeypatch: pytest.MonkeyPatch, side: str, step: str
) -> None:
    drivers = world.ledger.savepoints
    async with world.operator():
        await world.streams()
    await world.save()
    dies(monkeypatch, side, step)
    await world.operator_dies()
    asked = [each.id for each in drivers.begun]
    async with world.operator():
        done = await world.saved()
    assert len(drivers.begun) == len(drivers.copies("sp")) == 1
    assert asked in ([], [drivers.begun[0].id])
    assert (step in ("save", "end")) == bool(asked)
    assert done["status"].get("failures", 0) == 0


async def test_savepoint_is_taken_as_soon_as_a_new_operator_hears_of_the_driver(
    world: SavepointEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing in any object changes then: the gateway itself must wake it."""
    monkeypatch.setattr("sparksql.domain.savepoint.steps.WAITING_SECONDS", 3600.0)
    async with world.operator():
        await world.streams()
    heard, ask = asyncio.Event(), GatewayClient.info

    async def info(client: GatewayClient) -> GatewayInfo:
        await heard.wait()
        return await ask(client)

    monkeypatch.setattr(GatewayClient, "info", info)
    await world.save()
    async with world.operator():
        await world.in_phase(SAVEPOINTS, "sp", "Pending", "SessionNotReady")
        heard.set()
        await world.saved()


async def test_driver_whose_answer_is_lost_is_asked_again(world: SavepointEnvironment) -> None:
    drivers = world.ledger.savepoints
    async with world.operator():
        await world.streams()
        drivers.drop_answers = 1
        done = await world.save() and await world.saved()
    assert len(drivers.begun) == len(drivers.copies("sp")) == 1
    assert done["status"].get("failures", 0) == 0


# --- failures


async def test_failed_attempt_is_followed_by_another_one_after_a_while(world: SavepointEnvironment) -> None:
    world.ledger.savepoints.messages["sp"] = ["disk full"]
    async with world.operator():
        await world.streams()
        await world.save()
        waits = await world.in_phase(SAVEPOINTS, "sp", "Pending", "Retrying")
        await world.patch(SAVEPOINTS, "sp", {"backoffLimit": 0})
        failed = await world.in_phase(SAVEPOINTS, "sp", "Failed", "SavepointFailed")
    assert message_of(waits) == "attempt 2 of 4 in 10 s: disk full"
    assert (waits["status"]["failures"], "nextAttemptTime" in waits["status"]) == (1, True)
    assert "spec.backoffLimit is 0 now" in message_of(failed)
    assert "nextAttemptTime" not in failed["status"]


@pytest.mark.usefixtures("_at_once")
async def test_savepoint_fails_after_its_last_attempt(world: SavepointEnvironment) -> None:
    drivers = world.ledger.savepoints
    drivers.messages["sp"] = ["disk full"] * 2
    async with world.operator():
        await world.streams()
        await world.save(backoffLimit=1)
        failed = await world.in_phase(SAVEPOINTS, "sp", "Failed", "SavepointFailed")
        await world.until("an event", lambda: _has_event(world, "SavepointFailed"))
        await world.save("next")
        await world.saved("next")
    assert message_of(failed) == "gave up after 2 attempts: disk full"
    assert failed["status"]["failures"] == 2
    one, two = drivers.of("sp")
    assert (one.id != two.id, one.request) == (True, two.request)


@pytest.mark.usefixtures("_at_once")
async def test_attempt_that_takes_too_long_is_ended_and_made_again(world: SavepointEnvironment) -> None:
    drivers = world.ledger.savepoints
    drivers.held["sp"] = 1
    async with world.operator():
        await world.streams()
        await world.save(timeoutSeconds=1, backoffLimit=100)
        done = await world.saved()
    first, *_, last = drivers.of("sp")
    assert first.id != last.id
    assert first.id in drivers.cancelled
    assert done["status"]["failures"] >= 1
    assert [copy.id for copy in drivers.copies("sp")] == [last.id]
    assert ("InProgress", "SavepointTimeout") in world.witness.shown("sp")


@pytest.mark.usefixtures("_at_once")
async def test_driver_that_is_lost_is_followed_by_an_attempt_on_the_next_one(world: SavepointEnvironment) -> None:
    drivers = world.ledger.savepoints
    drivers.held["sp"] = 1
    async with world.operator():
        await world.streams()
        await world.save()
        await world.saving()
        await world.kubelet.crash_driver("s")
        done = await world.saved()
    one, two = drivers.of("sp")
    assert one.pod != two.pod
    assert one.id != two.id
    assert one.request.target == two.request.target == done["status"]["location"]
    assert done["status"]["failures"] == 1
    assert [copy.id for copy in drivers.copies("sp")] == [two.id]


async def test_unfinished_savepoint_of_a_deleted_statement_is_abandoned(world: SavepointEnvironment) -> None:
    drivers = world.ledger.savepoints
    drivers.held["sp"] = 1
    async with world.operator():
        await world.streams()
        await world.save()
        await world.saving()
        await world.delete(STATEMENTS, "st")
        given_up = await world.in_phase(SAVEPOINTS, "sp", "Abandoned", "Abandoned")
    assert "before the savepoint was complete" in message_of(given_up)
    assert drivers.begun[0].id in drivers.cancelled
    assert drivers.copied == []


# --- adopted


async def test_existing_one_is_adopted_with_what_the_driver_finds(world: SavepointEnvironment) -> None:
    drivers = world.ledger.savepoints
    world.ledger.checkpoints.saved[OLD] = Saved(7, "6f0c", owner="another", sql_hash="abc")
    async with world.operator():
        await world.streams()
        await world.save(source="Existing", location=OLD)
        done = await world.saved()
        await world.save("nothing", source="Existing", location="file:///old/nothing")
        failed = await world.in_phase(SAVEPOINTS, "nothing", "Failed", "LocationInvalid")
    status = done["status"]
    assert (status["location"], status["batchId"], status["queryId"], status["sqlHash"]) == (OLD, 7, "6f0c", "abc")
    assert (status["sizeBytes"], status["fileCount"], status["trigger"]) == (SIZE_BYTES, FILE_COUNT, "Manual")
    assert drivers.copied == []
    assert [each.request.checkpoint for each in drivers.begun] == [None, None]
    assert "no savepoint" in message_of(failed)


# --- deleted


async def test_deleted_savepoint_object_goes_only_after_its_data(world: SavepointEnvironment) -> None:
    async with world.operator() as operator:
        await world.streams()
        await world.save(reclaimPolicy="Delete")
        savepoint = await world.saved()
        await world.delete(SAVEPOINTS, "sp")
        await world.until("a Job", lambda: world.job_of(savepoint))
        message = "is being deleted: its data is being deleted"
        await world.wait(SAVEPOINTS, "sp", message, lambda o: o["status"].get("message") == message)
        await world.end_job(savepoint, "SuccessCriteriaMet", "Complete")
        await world.gone(SAVEPOINTS, "sp")
        forgotten = await world.wait(
            STATEMENTS, "st", "forgets it", lambda o: "lastSavepoint" not in o["status"]["streaming"]
        )
        assert "sparksql_finalizer_deadlines_total{" not in operator.metrics.render().decode()
    job = await world.job_of(savepoint)
    assert job is not None
    assert f"--target={savepoint['status']['location']}" in job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert forgotten["status"]["phase"] == "Running"


async def test_data_of_a_deleted_retained_or_adopted_savepoint_stays(world: SavepointEnvironment) -> None:
    world.ledger.checkpoints.saved[OLD] = Saved(7, "6f0c")
    async with world.operator():
        await world.streams()
        await world.save("kept")
        await world.save("adopted", source="Existing", location=OLD, reclaimPolicy="Delete")
        for name in ("kept", "adopted"):
            await world.saved(name)
            await world.delete(SAVEPOINTS, name)
            await world.gone(SAVEPOINTS, name)
    assert await world.jobs() == []


async def test_deleted_savepoint_is_held_while_a_statement_refers_to_it(world: SavepointEnvironment) -> None:
    async with world.operator():
        await world.streams()
        await world.save(reclaimPolicy="Delete")
        savepoint = await world.saved()
        start = {"startFrom": {"savepointRef": {"name": "sp"}}}
        await world.stream("other", streaming=start, desiredState="Stopped")
        await world.wait(SAVEPOINTS, "sp", "is used", lambda o: "other" in o["status"].get("usedBy", []))
        await world.delete(SAVEPOINTS, "sp")
        message = "is being deleted: statements refer to it: other"
        held = await world.wait(SAVEPOINTS, "sp", message, lambda o: o["status"].get("message") == message)
        await world.until("a warning", lambda: _has_event(world, "Deleting", "Warning"))
        assert await world.jobs() == []
        await world.wish("other", streaming={"startFrom": None})
        await world.until("a Job", lambda: world.job_of(savepoint))
        await world.end_job(savepoint, "SuccessCriteriaMet", "Complete")
        await world.gone(SAVEPOINTS, "sp")
    assert held["status"]["usedBy"] == ["other"]
    assert held["metadata"]["finalizers"]


async def test_deleted_savepoint_goes_with_a_warning_if_its_data_cannot_be_deleted(world: SavepointEnvironment) -> None:
    async with world.operator() as operator:
        await world.streams()
        await world.save(reclaimPolicy="Delete")
        savepoint = await world.saved()
        await world.delete(SAVEPOINTS, "sp")
        await world.until("a Job", lambda: world.job_of(savepoint))
        await world.end_job(savepoint, "FailureTarget", "Failed")
        await world.gone(SAVEPOINTS, "sp")
        await world.until("a warning", lambda: _has_event(world, "FinalizerDeadline", "Warning"))
        metrics = operator.metrics.render().decode()
    assert 'sparksql_finalizer_deadlines_total{kind="SqlSavepoint"} 1.0' in metrics


async def test_deletion_ends_a_copy_that_runs(world: SavepointEnvironment) -> None:
    drivers = world.ledger.savepoints
    drivers.held["sp"] = 1
    async with world.operator():
        await world.streams()
        await world.save()
        await world.saving()
        await world.delete(SAVEPOINTS, "sp")
        await world.gone(SAVEPOINTS, "sp")
        view = await world.runs()
    assert drivers.begun[0].id in drivers.cancelled
    assert drivers.copied == []
    assert condition(view, "Healthy") == "True"


async def test_savepoint_in_a_terminating_namespace_goes_without_a_cleanup_job(world: SavepointEnvironment) -> None:
    async with world.operator():
        await world.streams()
        await world.save(reclaimPolicy="Delete")
        await world.saved()
        await world.delete_namespace()
        await world.delete(SAVEPOINTS, "sp")
        await world.gone(SAVEPOINTS, "sp")
    assert await world.jobs() == []


async def _has_event(world: SavepointEnvironment, reason: str, type_: str = "Warning") -> bool:
    events = (await world.client.list(EVENTS, world.namespace)).items
    return any((e["reason"], e["type"], e["involvedObject"]["name"]) == (reason, type_, "sp") for e in events)
