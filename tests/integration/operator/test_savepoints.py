"""SqlSavepoints: taken once whatever goes wrong, adopted, tried again, given up, and deleted together with their data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from sparksql.drivers.client import GatewayClient
from sparksql.kube.resources import EVENTS, SAVEPOINTS, STATEMENTS
from sparksql.wire.control import GatewayInfo
from sparksql.wire.savepoints import SavepointPlace, StateQuery
from tests.integration.operator.contract_monitor import condition
from tests.integration.operator.environment import message_of
from tests.integration.operator.fake_savepoints import FILE_COUNT, SIZE_BYTES, SPARK_VERSION
from tests.integration.operator.fake_streams import Saved
from tests.integration.operator.savepoint_environment import (
    SAVEPOINT_ROOT,
    TEXT,
    SavepointEnvironment,
    dies,
    dies_after_a_job,
)
from tests.support.apiserver import ApiServer

OLD = "file:///old/savepoint"


@pytest_asyncio.fixture
async def env(crds: ApiServer, namespace: str) -> AsyncIterator[SavepointEnvironment]:
    async with SavepointEnvironment.made(crds, namespace) as env:
        yield env


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt follows at once."""
    monkeypatch.setattr("sparksql.domain.savepoint.steps.FIRST_BACKOFF_SECONDS", 0.0)


# --- taken


async def test_savepoint_waits_for_the_first_batch_and_completes_with_full_status(env: SavepointEnvironment) -> None:
    drivers = env.ledger.savepoints
    drivers.held["sp"] = 1
    async with env.operator():
        await env.stream(sql=f"{TEXT} IDLE")
        await env.in_phase(STATEMENTS, "st", "Running")
        made = await env.save()
        waits = await env.in_phase(SAVEPOINTS, "sp", "Pending", "Pending")
        env.ledger.release("st")
        during = await env.saving()
        drivers.release("sp")
        await env.saved()
        statement = await env.wait(STATEMENTS, "st", "knows it", lambda o: "lastSavepoint" in o["status"]["streaming"])
        done = await env.wait(SAVEPOINTS, "sp", "knows who uses it", lambda o: o["status"].get("usedBy") == ["st"])
    status, streaming = done["status"], statement["status"]["streaming"]
    assert message_of(waits) == "statement st has no state to save yet; waits for its first batch"
    assert status["location"] == f"{SAVEPOINT_ROOT}/{env.namespace}/st/sp-{made['metadata']['uid']}"
    assert during["status"]["location"] == status["location"]
    assert (status["batchId"], status["queryId"]) == (0, streaming["queryId"])
    assert (status["sqlHash"], status["sparkVersion"]) == (statement["status"]["sqlHash"], SPARK_VERSION)
    assert (status["sizeBytes"], status["fileCount"]) == (SIZE_BYTES, FILE_COUNT)
    assert (status["trigger"], status.get("failures", 0), status["observedGeneration"]) == ("Manual", 0, 1)
    assert status["completionTime"] >= status["startTime"]
    assert streaming["lastSavepoint"] == {"name": "sp", "time": status["completionTime"]}
    ways = [("Pending", "Pending"), ("InProgress", "InProgress"), ("Completed", "Completed")]
    assert env.monitor.shown("sp") == ways
    (copy,) = drivers.copies("sp")
    asked = copy.request
    assert (asked.checkpoint, asked.target) == (streaming["checkpointLocation"], status["location"])
    assert (asked.uid, asked.namespace, asked.name) == (made["metadata"]["uid"], env.namespace, "sp")
    assert len(drivers.begun) == 1


async def test_a_savepoint_of_a_query_waits_for_the_one_that_it_reads_and_is_made_of_it(
    env: SavepointEnvironment,
) -> None:
    drivers = env.ledger.savepoints
    drivers.held["sp"] = 1
    sql = "SELECT * FROM savepoint_state('sp', 'aggregate', 'kept')"
    async with env.operator():
        await env.stream()
        await env.save()
        await env.saving()
        await env.save("made", source="Query", sql=sql, operator="aggregate")
        waits = await env.in_phase(SAVEPOINTS, "made", "Pending", "Pending")
        drivers.release("sp")
        read = await env.saved()
        await env.saved("made")
        statement = await env.wait(STATEMENTS, "st", "knows it", lambda o: "lastSavepoint" in o["status"]["streaming"])
    assert message_of(waits) == "waits for SqlSavepoint sp, whose name is in spec.sql"
    (made,) = drivers.copies("made")
    place = SavepointPlace(name="sp", phase="Completed", location=read["status"]["location"], statement="st")
    assert made.request.query == StateQuery(sql=sql, statement="st", operator="aggregate", savepoints=(place,))
    assert statement["status"]["streaming"]["lastSavepoint"]["name"] == "sp"


async def test_savepoint_created_before_its_statement_waits_and_is_taken(env: SavepointEnvironment) -> None:
    async with env.operator():
        await env.save()
        waits = await env.in_phase(SAVEPOINTS, "sp", "Pending", "StatementNotFound")
        await env.stream()
        await env.saved()
    assert message_of(waits) == "spec.statementRef.name: there is no SqlStatement st"


async def test_savepoint_whose_statement_never_appears_fails(
    env: SavepointEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparksql.domain.savepoint.decide.STATEMENT_SECONDS", 0.0)
    async with env.operator():
        await env.save()
        failed = await env.in_phase(SAVEPOINTS, "sp", "Failed", "StatementNotFound")
    assert message_of(failed).endswith("there is no SqlStatement st; create it, then a new SqlSavepoint")


async def test_statement_that_is_no_stream_has_no_state(env: SavepointEnvironment) -> None:
    async with env.operator():
        await env.create_statement("st")
        await env.save()
        failed = await env.in_phase(SAVEPOINTS, "sp", "Failed", "StatementNotStreaming")
    assert "statement st is not a streaming one" in message_of(failed)


# --- at most once


@pytest.mark.parametrize(("side", "step"), [("after", "intent"), ("after", "save"), ("before", "end")])
async def test_operator_that_dies_on_the_way_copies_nothing_twice(
    env: SavepointEnvironment, monkeypatch: pytest.MonkeyPatch, side: str, step: str
) -> None:
    drivers = env.ledger.savepoints
    async with env.operator():
        await env.streams()
    await env.save()
    dies(monkeypatch, side, step)
    await env.operator_dies()
    asked = [each.id for each in drivers.begun]
    async with env.operator():
        done = await env.saved()
    assert len(drivers.begun) == len(drivers.copies("sp")) == 1
    assert asked in ([], [drivers.begun[0].id])
    assert (step in ("save", "end")) == bool(asked)
    assert done["status"].get("failures", 0) == 0


async def test_savepoint_is_taken_as_soon_as_a_new_operator_hears_of_the_driver(
    env: SavepointEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing in any object changes then: the gateway itself must wake it."""
    monkeypatch.setattr("sparksql.domain.savepoint.steps.WAITING_SECONDS", 3600.0)
    async with env.operator():
        await env.streams()
    heard, ask = asyncio.Event(), GatewayClient.info

    async def info(client: GatewayClient) -> GatewayInfo:
        await heard.wait()
        return await ask(client)

    monkeypatch.setattr(GatewayClient, "info", info)
    await env.save()
    async with env.operator():
        await env.in_phase(SAVEPOINTS, "sp", "Pending", "SessionNotReady")
        heard.set()
        await env.saved()


async def test_driver_whose_answer_is_lost_is_asked_again(env: SavepointEnvironment) -> None:
    drivers = env.ledger.savepoints
    async with env.operator():
        await env.streams()
        drivers.drop_answers = 1
        done = await env.save() and await env.saved()
    assert len(drivers.begun) == len(drivers.copies("sp")) == 1
    assert done["status"].get("failures", 0) == 0


# --- failures


async def test_failed_attempt_is_followed_by_another_one_after_a_while(env: SavepointEnvironment) -> None:
    env.ledger.savepoints.messages["sp"] = ["disk full"]
    async with env.operator():
        await env.streams()
        await env.save()
        waits = await env.in_phase(SAVEPOINTS, "sp", "Pending", "Retrying")
        await env.patch(SAVEPOINTS, "sp", {"backoffLimit": 0})
        failed = await env.in_phase(SAVEPOINTS, "sp", "Failed", "SavepointFailed")
    assert message_of(waits) == "attempt 2 of 4 in 10 s: disk full"
    assert (waits["status"]["failures"], "nextAttemptTime" in waits["status"]) == (1, True)
    assert "spec.backoffLimit is 0 now" in message_of(failed)
    assert "nextAttemptTime" not in failed["status"]


@pytest.mark.usefixtures("_at_once")
async def test_savepoint_fails_after_its_last_attempt(env: SavepointEnvironment) -> None:
    drivers = env.ledger.savepoints
    drivers.messages["sp"] = ["disk full"] * 2
    async with env.operator():
        await env.streams()
        await env.save(backoffLimit=1)
        failed = await env.in_phase(SAVEPOINTS, "sp", "Failed", "SavepointFailed")
        await env.until("an event", lambda: _has_event(env, "SavepointFailed"))
        await env.save("next")
        await env.saved("next")
    assert message_of(failed) == "gave up after 2 attempts: disk full"
    assert failed["status"]["failures"] == 2
    one, two = drivers.of("sp")
    assert (one.id != two.id, one.request) == (True, two.request)


@pytest.mark.usefixtures("_at_once")
async def test_attempt_that_takes_too_long_is_ended_and_made_again(env: SavepointEnvironment) -> None:
    drivers = env.ledger.savepoints
    drivers.held["sp"] = 1
    async with env.operator():
        await env.streams()
        await env.save(timeoutSeconds=1, backoffLimit=100)
        done = await env.saved()
    first, *_, last = drivers.of("sp")
    assert first.id != last.id
    assert first.id in drivers.cancelled
    assert done["status"]["failures"] >= 1
    assert [copy.id for copy in drivers.copies("sp")] == [last.id]
    assert ("InProgress", "SavepointTimeout") in env.monitor.shown("sp")


@pytest.mark.usefixtures("_at_once")
async def test_driver_that_is_lost_is_followed_by_an_attempt_on_the_next_one(env: SavepointEnvironment) -> None:
    drivers = env.ledger.savepoints
    drivers.held["sp"] = 1
    async with env.operator():
        await env.streams()
        await env.save()
        await env.saving()
        await env.kubelet.crash_driver("s")
        done = await env.saved()
    one, two = drivers.of("sp")
    assert one.pod != two.pod
    assert one.id != two.id
    assert one.request.target == two.request.target == done["status"]["location"]
    assert done["status"]["failures"] == 1
    assert [copy.id for copy in drivers.copies("sp")] == [two.id]


async def test_unfinished_savepoint_of_a_deleted_statement_is_abandoned(env: SavepointEnvironment) -> None:
    drivers = env.ledger.savepoints
    drivers.held["sp"] = 1
    async with env.operator():
        await env.streams()
        await env.save()
        await env.saving()
        await env.delete(STATEMENTS, "st")
        given_up = await env.in_phase(SAVEPOINTS, "sp", "Abandoned", "Abandoned")
    assert "before the savepoint was complete" in message_of(given_up)
    assert drivers.begun[0].id in drivers.cancelled
    assert drivers.copied == []


# --- adopted


async def test_existing_savepoint_is_adopted_with_what_the_driver_finds(env: SavepointEnvironment) -> None:
    drivers = env.ledger.savepoints
    env.ledger.checkpoints.saved[OLD] = Saved(7, "6f0c", owner="another", sql_hash="abc")
    async with env.operator():
        await env.streams()
        await env.save(source="Existing", location=OLD)
        done = await env.saved()
        await env.save("nothing", source="Existing", location="file:///old/nothing")
        failed = await env.in_phase(SAVEPOINTS, "nothing", "Failed", "LocationInvalid")
    status = done["status"]
    assert (status["location"], status["batchId"], status["queryId"], status["sqlHash"]) == (OLD, 7, "6f0c", "abc")
    assert (status["sizeBytes"], status["fileCount"], status["trigger"]) == (SIZE_BYTES, FILE_COUNT, "Manual")
    assert drivers.copied == []
    assert [each.request.checkpoint for each in drivers.begun] == [None, None]
    assert "no savepoint" in message_of(failed)


# --- deleted


async def test_deleted_savepoint_object_goes_only_after_its_data(env: SavepointEnvironment) -> None:
    async with env.operator() as operator:
        await env.streams()
        await env.save(reclaimPolicy="Delete")
        savepoint = await env.saved()
        await env.delete(SAVEPOINTS, "sp")
        await env.until("a Job", lambda: env.job_of(savepoint))
        message = "is being deleted: its data is being deleted"
        await env.wait(SAVEPOINTS, "sp", message, lambda o: o["status"].get("message") == message)
        await env.end_job(savepoint, "SuccessCriteriaMet", "Complete")
        await env.gone(SAVEPOINTS, "sp")
        forgotten = await env.wait(
            STATEMENTS, "st", "forgets it", lambda o: "lastSavepoint" not in o["status"]["streaming"]
        )
        assert "sparksql_finalizer_deadlines_total{" not in operator.metrics.render().decode()
    job = await env.job_of(savepoint)
    assert job is not None
    assert f"--target={savepoint['status']['location']}" in job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert forgotten["status"]["phase"] == "Running"


async def test_deletion_job_without_a_recorded_uid_is_replaced_after_a_restart(
    env: SavepointEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with env.operator():
        await env.streams()
        await env.save(reclaimPolicy="Delete")
        savepoint = await env.saved()
    await env.delete(SAVEPOINTS, "sp")
    with monkeypatch.context() as patch:
        dies_after_a_job(patch)
        await env.operator_dies()
    unrecorded = await env.job_of(savepoint)
    assert unrecorded is not None
    assert "deletionJobUID" not in (await env.get(SAVEPOINTS, "sp"))["status"]
    async with env.operator() as operator:
        recorded = await env.wait(SAVEPOINTS, "sp", "a Job of its own", lambda o: "deletionJobUID" in o["status"])
        job = await env.job_of(savepoint)
        assert job is not None
        assert job["metadata"]["uid"] == recorded["status"]["deletionJobUID"] != unrecorded["metadata"]["uid"]
        await env.end_job(savepoint, "SuccessCriteriaMet", "Complete")
        await env.gone(SAVEPOINTS, "sp")
        assert "sparksql_finalizer_deadlines_total{" not in operator.metrics.render().decode()


async def test_data_of_a_deleted_retained_or_adopted_savepoint_stays(env: SavepointEnvironment) -> None:
    env.ledger.checkpoints.saved[OLD] = Saved(7, "6f0c")
    async with env.operator():
        await env.streams()
        await env.save("kept")
        await env.save("adopted", source="Existing", location=OLD, reclaimPolicy="Delete")
        for name in ("kept", "adopted"):
            await env.saved(name)
            await env.delete(SAVEPOINTS, name)
            await env.gone(SAVEPOINTS, name)
    assert await env.jobs() == []


async def test_deleted_savepoint_is_held_while_a_statement_refers_to_it(env: SavepointEnvironment) -> None:
    async with env.operator():
        await env.streams()
        await env.save(reclaimPolicy="Delete")
        savepoint = await env.saved()
        start = {"startFrom": {"savepointRef": {"name": "sp"}}}
        await env.stream("other", streaming=start, desiredState="Stopped")
        await env.wait(SAVEPOINTS, "sp", "is used", lambda o: "other" in o["status"].get("usedBy", []))
        await env.delete(SAVEPOINTS, "sp")
        message = "is being deleted: statements refer to it: other"
        held = await env.wait(SAVEPOINTS, "sp", message, lambda o: o["status"].get("message") == message)
        await env.until("a warning", lambda: _has_event(env, "Deleting", "Warning"))
        assert await env.jobs() == []
        await env.wish("other", streaming={"startFrom": None})
        await env.until("a Job", lambda: env.job_of(savepoint))
        await env.end_job(savepoint, "SuccessCriteriaMet", "Complete")
        await env.gone(SAVEPOINTS, "sp")
    assert held["status"]["usedBy"] == ["other"]
    assert held["metadata"]["finalizers"]


async def test_deleted_savepoint_goes_with_a_warning_if_its_data_cannot_be_deleted(env: SavepointEnvironment) -> None:
    async with env.operator() as operator:
        await env.streams()
        await env.save(reclaimPolicy="Delete")
        savepoint = await env.saved()
        await env.delete(SAVEPOINTS, "sp")
        await env.until("a Job", lambda: env.job_of(savepoint))
        await env.end_job(savepoint, "FailureTarget", "Failed")
        await env.gone(SAVEPOINTS, "sp")
        await env.until("a warning", lambda: _has_event(env, "FinalizerDeadline", "Warning"))
        metrics = operator.metrics.render().decode()
    assert 'sparksql_finalizer_deadlines_total{kind="SqlSavepoint"} 1.0' in metrics


async def test_deletion_ends_a_copy_that_runs(env: SavepointEnvironment) -> None:
    drivers = env.ledger.savepoints
    drivers.held["sp"] = 1
    async with env.operator():
        await env.streams()
        await env.save()
        await env.saving()
        await env.delete(SAVEPOINTS, "sp")
        await env.gone(SAVEPOINTS, "sp")
        view = await env.runs()
    assert drivers.begun[0].id in drivers.cancelled
    assert drivers.copied == []
    assert condition(view, "Healthy") == "True"


async def test_savepoint_in_a_terminating_namespace_goes_without_a_cleanup_job(env: SavepointEnvironment) -> None:
    async with env.operator():
        await env.streams()
        await env.save(reclaimPolicy="Delete")
        await env.saved()
        await env.delete_namespace()
        await env.delete(SAVEPOINTS, "sp")
        await env.gone(SAVEPOINTS, "sp")
    assert await env.jobs() == []


async def _has_event(env: SavepointEnvironment, reason: str, type_: str = "Warning") -> bool:
    events = (await env.client.list(EVENTS, env.namespace)).items
    return any((e["reason"], e["type"], e["involvedObject"]["name"]) == (reason, type_, "sp") for e in events)
