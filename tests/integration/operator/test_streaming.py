"""Streaming statements: they run until they are stopped, go on from their checkpoint, and hold nobody back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from sparksql.api.names import LABEL_SESSION, dedicated_session_name
from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.resources import PODS, SESSION_CLASSES, SESSIONS, STATEMENTS
from tests.integration.operator.contract_monitor import condition
from tests.integration.operator.environment import Environment, message_of
from tests.integration.operator.faults import Faults, Step, crash
from tests.integration.operator.stream_contract_monitor import StreamWitness
from tests.support.apiserver import ApiServer

Object = dict[str, Any]
TEXT = "INSERT INTO t SELECT * FROM STREAM s"
ROOT = "file:///data/checkpoints"


@pytest_asyncio.fixture
async def world(crds: ApiServer, namespace: str) -> AsyncIterator[Environment]:
    """A session of a class that has a place for checkpoints; at the end no two queries ever had the same one."""
    credentials = Credentials.from_kubeconfig(crds.kubeconfig)
    async with KubeClient(credentials) as client:
        world = Environment(client, namespace, credentials)
        world.witness = StreamWitness(client, namespace)
        async with world.running():
            await world.create_class(storage={"checkpointRoot": f"{ROOT}/"})
            await world.create_session(maxConcurrentStatements=1)
            yield world
        assert world.ledger.checkpoints.overlaps == []


async def stream(world: Environment, name: str = "st", sql: str = TEXT, **spec: Any) -> Object:
    return await world.create_statement(name, sql, **{"streaming": {"restart": {"backoffSeconds": 0}}, **spec})


async def runs(world: Environment, name: str = "st", **wanted: Any) -> Object:
    """As soon as it runs well and has committed a batch."""

    def well(obj: Object) -> bool:
        status = obj.get("status", {})
        is_as_wanted = all(status.get(field) == value for field, value in wanted.items())
        return is_as_wanted and condition(obj, "CheckpointFresh") == "True"

    return await world.wait(STATEMENTS, name, f"streams {wanted}", well)


async def wish(world: Environment, name: str = "st", **spec: Any) -> None:
    await world.patch(STATEMENTS, name, spec)


async def has_no_driver(world: Environment, session: str) -> bool:
    return all(pod["metadata"]["labels"][LABEL_SESSION] != session for pod in await world.driver_pods())


def locations(world: Environment, name: str = "st") -> list[str]:
    """Folders below the root of the attempts that ran, without the statement's own prefix."""
    options = [e.request.streaming for e in world.ledger.ran(name)]
    return [o.checkpoint.rsplit("/", 1)[-1] for o in options if o is not None]


# --- start, stop, resume, end


async def test_stream_runs_until_stopped_and_resumes_from_its_checkpoint(world: Environment) -> None:
    async with world.operator():
        made = await stream(world, streaming={"trigger": {"mode": "Interval", "intervalMillis": 500}})
        first = await runs(world)
        await wish(world, desiredState="Stopped")
        rests = await world.in_phase(STATEMENTS, "st", "Stopped", "StoppedByUser")
        await wish(world, desiredState="Running")
        second = await runs(world, attempt=2)
    streaming = first["status"]["streaming"]
    uid = made["metadata"]["uid"]
    assert streaming["checkpointLocation"] == f"{ROOT}/{world.namespace}/st-{uid}/1"
    assert (streaming["batchId"], streaming["committedBatchId"], streaming["inputRowsPerSecond"]) == (1, 0, "12.5")
    assert (condition(first, "Ready"), condition(first, "Healthy")) == ("True", "True")
    assert rests["status"]["streaming"]["committedBatchId"] == 0
    assert "inputRowsPerSecond" not in rests["status"]["streaming"]
    after = second["status"]["streaming"]
    assert (after["queryId"], after["checkpointLocation"]) == (streaming["queryId"], streaming["checkpointLocation"])
    assert after["runId"] != streaming["runId"]
    assert after["restarts"] == 0
    one, two = (e.request.streaming for e in world.ledger.ran("st"))
    assert one == two
    assert one is not None and (one.interval_millis, one.trigger) == (500, "Interval")
    assert {e.request.execution_seconds for e in world.ledger.ran("st")} == {0}


async def test_stream_created_as_stopped_starts_only_when_set_to_running(world: Environment) -> None:
    async with world.operator():
        await stream(world, desiredState="Stopped")
        await world.in_phase(STATEMENTS, "st", "Stopped", "StoppedByUser")
        assert world.ledger.ran("st") == []
        await wish(world, desiredState="Running")
        await runs(world)
    assert locations(world) == ["1"]


@pytest.mark.parametrize("way", ["running", "stopped"])
async def test_canceled_stream_ends_and_its_next_run_has_a_new_checkpoint(world: Environment, way: str) -> None:
    async with world.operator():
        await stream(world)
        await runs(world)
        if way == "stopped":
            await wish(world, desiredState="Stopped")
            await world.in_phase(STATEMENTS, "st", "Stopped")
        await wish(world, desiredState="Canceled")
        await world.ended("st", "Canceled", "CanceledByUser")
        await wish(world, desiredState="Running", runNonce="again", sql=f"{TEXT} WHERE true")
        await runs(world, run=2)
    assert locations(world) == ["1", "2"]


@pytest.mark.parametrize("way", ["running", "stopped"])
async def test_deleted_stream_is_canceled_in_the_driver(world: Environment, way: str) -> None:
    async with world.operator():
        await stream(world)
        await runs(world)
        if way == "stopped":
            await wish(world, desiredState="Stopped")
            await world.in_phase(STATEMENTS, "st", "Stopped")
        await world.delete(STATEMENTS, "st")
        await world.gone(STATEMENTS, "st")
        view = world.kubelet.gateway_of("s").view_of("st")
    assert view is not None and view.state == "Canceled"


async def test_available_now_finishes(world: Environment) -> None:
    async with world.operator():
        await stream(world, streaming={"trigger": {"mode": "AvailableNow"}})
        done = await world.finished("st")
    assert done["status"]["streaming"]["committedBatchId"] == 0


async def test_stream_is_limited_by_its_own_execution_timeout_and_not_its_class(world: Environment) -> None:
    await world.create_class(
        f"other-{world.namespace}", storage={"checkpointRoot": ROOT}, limits={"executionSeconds": 1}
    )
    await world.create_session("limited", className=f"other-{world.namespace}")
    async with world.operator():
        await stream(world, session="limited", timeouts={"executionSeconds": 600})
        await runs(world)
    assert [e.request.execution_seconds for e in world.ledger.ran("st")] == [600]


# --- failures


@pytest.mark.parametrize(("how", "is_seen"), [("crash_driver", True), ("remove_pod", False)])
async def test_lost_driver_is_followed_by_a_restart_from_the_checkpoint(
    world: Environment, how: str, is_seen: bool
) -> None:
    """The next driver is told of one that vanished without having been seen to end: it may still write the checkpoint."""
    async with world.operator():
        await stream(world)
        first = await runs(world)
        await getattr(world.kubelet, how)("s")
        again = await runs(world, attempt=2)
    boot = first["status"]["session"]["bootId"]
    told = [e.request.streaming.unconfirmed for e in world.ledger.ran("st") if e.request.streaming is not None]
    assert told == [(), () if is_seen else (boot,)]
    assert again["status"]["streaming"]["restarts"] == 1
    assert again["status"]["streaming"]["committedBatchId"] == 1
    assert locations(world) == ["1", "1"]


async def test_driver_that_was_shut_down_is_not_counted(world: Environment) -> None:
    async with world.operator():
        await stream(world, streaming={"restart": {"limit": 0}})
        await runs(world)
        await world.client.delete(PODS, world.namespace, world.kubelet.pod_of("s"))
        again = await runs(world, attempt=2)
    assert again["status"]["streaming"]["restarts"] == 0
    assert {e.request.streaming.unconfirmed for e in world.ledger.ran("st") if e.request.streaming is not None} == {()}


async def test_operator_restart_leaves_a_running_stream_alone(world: Environment) -> None:
    async with world.operator():
        await stream(world)
        await runs(world)
    async with world.operator():
        await wish(world, streaming={"restart": {"limit": 3}})  # takes effect without a restart
        seen = await world.wait(STATEMENTS, "st", "seen", lambda o: o["status"]["observedGeneration"] == 2)
        assert (seen["status"]["phase"], seen["status"]["attempt"]) == ("Running", 1)
        await wish(world, desiredState="Stopped")
        await world.in_phase(STATEMENTS, "st", "Stopped")
    assert len(world.ledger.ran("st")) == 1


async def test_failing_query_is_restarted_after_a_while_and_given_up_in_the_end(world: Environment) -> None:
    async with world.operator():
        await stream(world, sql=f"{TEXT} FAIL", streaming={"restart": {"limit": 2, "backoffSeconds": 1}})
        waits = await world.in_phase(STATEMENTS, "st", "Initialized", "Restarting")
        done = await world.ended("st", "Error", "SqlError")
    assert message_of(waits) == "restart 1 of 2 in 1 s: FAILED: it failed"
    assert waits["status"]["nextAttemptTime"] == waits["status"]["streaming"]["nextRestartTime"]
    assert message_of(done) == "gave up after 2 restarts: it failed"
    assert done["status"]["error"]["condition"] == "FAILED"
    assert (done["status"]["attempt"], done["status"]["streaming"]["restarts"]) == (3, 2)
    assert len(world.ledger.ran("st")) == 3


async def test_stream_stopped_during_its_restart_backoff_has_no_next_attempt(world: Environment) -> None:
    async with world.operator():
        await stream(world, sql=f"{TEXT} FAIL", streaming={"restart": {"backoffSeconds": 600}})
        await world.in_phase(STATEMENTS, "st", "Initialized", "Restarting")
        await wish(world, desiredState="Stopped")
        rests = await world.in_phase(STATEMENTS, "st", "Stopped", "StoppedByUser")
    assert "nextAttemptTime" not in rests["status"]


async def test_text_that_cannot_start_is_not_tried_again(world: Environment) -> None:
    async with world.operator():
        await stream(world, sql=f"{TEXT} BROKEN")
        done = await world.ended("st", "Error", "SqlError")
    assert (done["status"]["attempt"], done["status"]["error"]["message"]) == (1, "it failed")


@pytest.mark.parametrize("step", [Step.INTENT, Step.SUBMIT, Step.RUNNING, Step.CANCEL])
async def test_operator_that_dies_on_the_way_starts_nothing_twice(
    world: Environment, faults: Faults, step: Step
) -> None:
    async with world.operator():
        await world.session_ready()
    faults.after[step] = crash
    await stream(world, desiredState="Stopped" if step is Step.CANCEL else "Running")
    if step is Step.CANCEL:
        async with world.operator():
            await wish(world, desiredState="Running")
            await runs(world)
        await wish(world, desiredState="Stopped")
    await world.operator_dies()
    async with world.operator():
        if step is Step.CANCEL:
            await world.in_phase(STATEMENTS, "st", "Stopped")
        else:
            await runs(world, attempt=1)
    assert len(world.ledger.ran("st")) == 1


# --- changes


async def test_changed_text_goes_on_with_the_state_that_fits(world: Environment) -> None:
    other = f"{TEXT} WHERE true"
    async with world.operator():
        await stream(world)
        first = await runs(world)
        await wish(world, sql=other)
        again = await runs(world, attempt=2)
    assert again["status"]["streaming"]["queryId"] == first["status"]["streaming"]["queryId"]
    assert [e.sql for e in world.ledger.ran("st")] == [TEXT, other]
    assert locations(world) == ["1", "1"]


async def test_upgrade_without_state_begins_on_another_checkpoint(world: Environment) -> None:
    async with world.operator():
        await stream(world)
        first = await runs(world)
        await wish(world, sql=f"{TEXT} UNFIT")
        await world.in_phase(STATEMENTS, "st", "Running", "StateIncompatible")
        await wish(world, streaming={"upgradeMode": "Stateless"})
        second = await runs(world, attempt=2)
        await wish(world, sql=f"{TEXT} WHERE 2")
        third = await runs(world, attempt=3)
    ids = [obj["status"]["streaming"]["queryId"] for obj in (first, second, third)]
    assert len(set(ids)) == 3
    assert third["status"]["streaming"]["committedBatchId"] == 0
    assert locations(world) == ["1", "1-1", "1-2"]
    assert all(len(set(c.texts)) == 1 for c in world.ledger.checkpoints.known.values())


@pytest.mark.parametrize(
    "change", [{"conf": {"spark.sql.shuffle.partitions": "3"}}, {"streaming": {"outputMode": "Update"}}]
)
async def test_changed_settings_go_on_from_the_same_checkpoint(world: Environment, change: Object) -> None:
    async with world.operator():
        await stream(world)
        first = await runs(world)
        await wish(world, **change)
        second = await runs(world, attempt=2)
    assert second["status"]["streaming"]["queryId"] == first["status"]["streaming"]["queryId"]
    assert second["status"]["streaming"]["restarts"] == 0
    assert locations(world) == ["1", "1"]
    first_request, last_request = (e.request for e in world.ledger.ran("st"))
    assert (first_request.conf, first_request.streaming) != (last_request.conf, last_request.streaming)


async def test_stream_keeps_its_checkpoint_when_its_class_changes_checkpoint_root(world: Environment) -> None:
    async with world.operator():
        await stream(world)
        first = await runs(world)
        await world.client.patch_merge(
            SESSION_CLASSES, "", world.class_name, {"spec": {"storage": {"checkpointRoot": "file:///elsewhere"}}}
        )
        await wish(world, desiredState="Stopped")
        await world.in_phase(STATEMENTS, "st", "Stopped")
        await wish(world, desiredState="Running")
        second = await runs(world, attempt=2)
    place = "checkpointLocation"
    assert second["status"]["streaming"][place] == first["status"]["streaming"][place]


# --- refusals


async def test_schedule_that_cannot_be_followed_is_refused(world: Environment) -> None:
    async with world.operator():
        await stream(world, streaming={"savepoints": {"schedule": {"cron": "61 * * * *"}}})
        done = await world.ended("st", "Error", "InvalidSpec")
    assert message_of(done).startswith("spec.streaming.savepoints.schedule.cron: '61 * * * *': ")
    assert world.ledger.ran("st") == []


async def test_class_without_a_place_for_checkpoints_is_refused(world: Environment) -> None:
    name = f"other-{world.namespace}"
    await world.create_class(name)
    await world.create_session("bare", className=name)
    async with world.operator():
        await stream(world, session="bare")
        done = await world.ended("st", "Error", "InvalidSpec")
    wanted = f"spec.streaming: class {name} has no storage.checkpointRoot; checkpoints need a place"
    assert message_of(done) == wanted


async def test_validation_of_a_stream_is_a_batch_statement(world: Environment) -> None:
    async with world.operator():
        await stream(world, sql="SELECT 1", mode="Validate")
        done = await world.finished("st")
    assert {c["type"] for c in done["status"]["conditions"]}.isdisjoint({"Healthy", "CheckpointFresh"})
    assert world.ledger.ran("st")[0].request.streaming is None


# --- others


async def test_first_batch_meets_a_dependency(world: Environment) -> None:
    async with world.operator():
        await stream(world, sql=f"{TEXT} IDLE")
        await world.create_statement("next", dependsOn=[{"name": "st"}])
        await world.in_phase(STATEMENTS, "st", "Running")
        await world.in_phase(STATEMENTS, "next", "Initialized", "WaitingForDependencies")
        world.ledger.release("st")
        await world.finished("next")
        assert (await world.get(STATEMENTS, "st"))["status"]["phase"] == "Running"


async def test_streams_take_no_slot_and_hold_nobody_back(world: Environment) -> None:
    async with world.operator():
        for name in ("a", "b", "c"):
            await stream(world, name)
        for name in ("a", "b", "c"):
            await runs(world, name)
        await world.create_statement("batch", "INSERT HOLD")
        await world.in_phase(STATEMENTS, "batch", "Running")
        await stream(world, "d")
        await runs(world, "d")
        world.ledger.release("batch")
        await world.finished("batch")


async def test_drain_waits_for_batch_statements_only(world: Environment) -> None:
    async with world.operator():
        await stream(world)
        await runs(world)
        await world.create_statement("batch", "INSERT HOLD")
        await world.in_phase(STATEMENTS, "batch", "Running")
        await world.patch(SESSIONS, "s", {"restartNonce": "1"})
        await world.in_phase(SESSIONS, "s", "Draining", "RestartRequested")
        assert (await world.get(STATEMENTS, "st"))["status"]["attempt"] == 1
        world.ledger.release("batch")
        await world.finished("batch")
        again = await runs(world, attempt=2)
        session = await world.session_ready()
    assert again["status"]["streaming"]["restarts"] == 0
    assert session.config.incarnation == 2


async def test_stopped_session_leaves_its_streams_waiting(world: Environment) -> None:
    async with world.operator():
        await stream(world)
        await runs(world)
        await world.patch(SESSIONS, "s", {"desiredState": "Stopped"})
        await world.in_phase(SESSIONS, "s", "Stopped")
        await world.in_phase(STATEMENTS, "st", "Initialized", "SessionNotReady")
        await world.patch(SESSIONS, "s", {"desiredState": "Running"})
        await runs(world, attempt=2)
    assert locations(world) == ["1", "1"]


async def test_deleted_session_closes_its_running_and_stopped_streams(world: Environment) -> None:
    async with world.operator():
        await stream(world, "a")
        await stream(world, "b")
        await runs(world, "a")
        await runs(world, "b")
        await wish(world, "b", desiredState="Stopped")
        await world.in_phase(STATEMENTS, "b", "Stopped")
        await world.delete(SESSIONS, "s")
        await world.ended("a", "Closed", "SessionClosed")
        await world.ended("b", "Closed", "SessionClosed")
        await world.gone(SESSIONS, "s")


# --- at rest


async def test_stopped_stream_is_not_queued_and_does_not_keep_its_session_open(world: Environment) -> None:
    async with world.operator():
        await stream(world)
        await runs(world)
        await wish(world, desiredState="Stopped")
        rests = await world.in_phase(STATEMENTS, "st", "Stopped", "StoppedByUser")
        assert condition(rests, "Ready") == "True"
        await world.reaches(SESSIONS, "s", statements={"running": 0, "queued": 0})
        await world.patch(SESSIONS, "s", {"idle": {"timeoutSeconds": 1, "action": "Close"}})
        await world.in_phase(SESSIONS, "s", "Closed", "IdleTimeout")
        await wish(world, desiredState="Running")
        closed = await world.ended("st", "Closed", "SessionClosed")
        assert rests["status"]["streaming"]["checkpointLocation"] in message_of(closed)


async def test_stopped_stream_gives_its_dedicated_session_back(world: Environment) -> None:
    async with world.operator():
        made = await world.dedicated("own", TEXT, streaming={"restart": {"backoffSeconds": 0}})
        await runs(world, "own")
        session = dedicated_session_name("own", made["metadata"]["uid"])
        first = world.witness.latest(SESSIONS, session)
        await wish(world, "own", desiredState="Stopped")
        await world.in_phase(STATEMENTS, "own", "Stopped", "StoppedByUser")
        await world.gone(SESSIONS, session)
        await world.until("its driver is gone", lambda: has_no_driver(world, session))
        await wish(world, "own", desiredState="Running")
        await runs(world, "own", attempt=2)
        second = world.witness.latest(SESSIONS, session)
        assert first is not None and second is not None
        assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert locations(world, "own") == ["1", "1"]
