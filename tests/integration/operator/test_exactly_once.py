"""At most once, whatever goes wrong between the operator's steps; and exactly once when a driver is there to finish it.

Each test breaks one step of the way of an INSERT. The ledger of the fake gateways tells how often it ran, the monitor that
no status ever went back.
"""

from __future__ import annotations

import asyncio

import pytest

from sparksql.kube.resources import CONFIG_MAPS, SESSION_CLASSES, SESSIONS, STATEMENTS
from tests.integration.operator.environment import Environment
from tests.integration.operator.faults import Faults, Step, crash, lose_answer, lose_gateway_answer

WRITES = (Step.FINALIZER, Step.INTENT, Step.RUNNING, Step.RESULT)
SIDES = [(side, step) for step in (*WRITES, Step.SUBMIT) for side in ("before", "after")]


@pytest.fixture
async def ready(env: Environment) -> Environment:
    """A class and a session that is ready, no operator at work."""
    await env.create_class()
    await env.create_session()
    async with env.operator():
        await env.session_ready()
    return env


async def _finishes_once(env: Environment) -> None:
    """The held INSERT is seen running, released, and ends well; nothing else of it ever ran."""
    await env.in_phase(STATEMENTS, "effect", "Running")
    env.ledger.release("effect")
    done = await env.finished("effect")
    assert done["status"]["attempt"] == 1
    assert [e.operation_id for e in env.ledger.ran("effect")] == [done["status"]["operationId"]]


def _release_at_the_end(env: Environment, step: Step) -> None:
    """A fault at the result needs the end to come; one before it needs the statement to go on running."""
    if step is Step.RESULT:
        env.ledger.release("effect")


@pytest.mark.parametrize(("side", "step"), SIDES)
async def test_operator_that_dies_at_a_step_is_followed_by_one_that_goes_on(
    ready: Environment, faults: Faults, side: str, step: Step
) -> None:
    getattr(faults, side)[step] = crash
    await ready.create_statement("effect", "INSERT HOLD")
    _release_at_the_end(ready, step)
    await ready.operator_dies()
    async with ready.operator():
        if step is not Step.RESULT:
            await ready.in_phase(STATEMENTS, "effect", "Running")
            ready.ledger.release("effect")
        done = await ready.finished("effect")
    assert done["status"]["attempt"] == 1
    assert [e.operation_id for e in ready.ledger.ran("effect")] == [done["status"]["operationId"]]


@pytest.mark.parametrize("step", WRITES)
async def test_somebody_elses_write_at_a_step_changes_nothing(ready: Environment, faults: Faults, step: Step) -> None:
    faults.before[step] = lambda: ready.touch(STATEMENTS, "effect")
    await ready.create_statement("effect", "INSERT HOLD")
    _release_at_the_end(ready, step)
    async with ready.operator():
        if step is not Step.RESULT:
            await ready.in_phase(STATEMENTS, "effect", "Running")
        ready.ledger.release("effect")
        done = await ready.finished("effect")
        await ready.until("the fault happened", faults.happened.is_set)
    assert [e.operation_id for e in ready.ledger.ran("effect")] == [done["status"]["operationId"]]


@pytest.mark.parametrize("step", WRITES)
@pytest.mark.parametrize("side", ["before", "after"])
async def test_api_server_whose_answer_is_lost_is_asked_again(
    ready: Environment, faults: Faults, side: str, step: Step
) -> None:
    getattr(faults, side)[step] = lose_answer
    await ready.create_statement("effect", "INSERT HOLD")
    _release_at_the_end(ready, step)
    async with ready.operator():
        if step is not Step.RESULT:
            await ready.in_phase(STATEMENTS, "effect", "Running")
        ready.ledger.release("effect")
        done = await ready.finished("effect")
        await ready.until("the fault happened", faults.happened.is_set)
    assert [e.operation_id for e in ready.ledger.ran("effect")] == [done["status"]["operationId"]]


@pytest.mark.parametrize("side", ["before", "after"])
async def test_gateway_whose_answer_is_lost_is_asked_again(ready: Environment, faults: Faults, side: str) -> None:
    getattr(faults, side)[Step.SUBMIT] = lose_gateway_answer
    await ready.create_statement("effect", "INSERT HOLD")
    async with ready.operator():
        await _finishes_once(ready)
        await ready.until("the fault happened", faults.happened.is_set)


async def test_gateway_that_breaks_connections_runs_nothing_twice(ready: Environment) -> None:
    ready.kubelet.gateway_of("s").drop_answers = 5
    names = [f"effect-{i}" for i in range(5)]
    for name in names:
        await ready.create_statement(name, "INSERT INTO t")
    async with ready.operator():
        await ready.all_finished(names)
    assert sorted(ready.ledger.order()) == names


@pytest.mark.parametrize(("side", "step"), [s for s in SIDES if s[1] is not Step.RESULT])
async def test_cancel_at_any_step_ends_canceled_and_runs_at_most_once(
    ready: Environment, faults: Faults, side: str, step: Step
) -> None:
    async def cancel() -> None:
        await ready.patch(STATEMENTS, "effect", {"desiredState": "Canceled"})

    getattr(faults, side)[step] = cancel
    await ready.create_statement("effect", "INSERT HOLD")
    async with ready.operator():
        await ready.ended("effect", "Canceled", "CanceledByUser")
        await ready.until("the fault happened", faults.happened.is_set)
        await ready.create_statement("after")
        await ready.finished("after")
    assert len(ready.ledger.ran("effect")) <= 1


async def test_cancel_that_comes_with_the_result_leaves_the_result(ready: Environment, faults: Faults) -> None:
    async def cancel() -> None:
        await ready.patch(STATEMENTS, "effect", {"desiredState": "Canceled"})

    faults.before[Step.RESULT] = cancel
    await ready.create_statement("effect", "INSERT INTO t")
    async with ready.operator():
        await ready.finished("effect")
    assert len(ready.ledger.ran("effect")) == 1


async def test_statement_cancel_interrupted_by_an_operator_crash_is_completed(
    ready: Environment, faults: Faults
) -> None:
    faults.before[Step.CANCEL] = crash
    await ready.create_statement("effect", "INSERT HOLD")
    async with asyncio.TaskGroup() as group:
        group.create_task(ready.operator_dies())
        await ready.in_phase(STATEMENTS, "effect", "Running")
        await ready.patch(STATEMENTS, "effect", {"desiredState": "Canceled"})
    async with ready.operator():
        await ready.ended("effect", "Canceled", "CanceledByUser")


@pytest.mark.parametrize("side", ["before", "after"])
async def test_statement_deletion_interrupted_by_an_operator_crash_is_completed(
    ready: Environment, faults: Faults, side: str
) -> None:
    getattr(faults, side)[Step.RELEASE] = crash
    await ready.create_statement("effect", "INSERT HOLD")
    async with asyncio.TaskGroup() as group:
        group.create_task(ready.operator_dies())
        await ready.in_phase(STATEMENTS, "effect", "Running")
        await ready.delete(STATEMENTS, "effect")
    async with ready.operator():
        await ready.gone(STATEMENTS, "effect")
        await ready.create_statement("after")
        await ready.finished("after")
    view = ready.kubelet.gateway_of("s").view_of("effect")
    assert view is not None and view.state == "Canceled"


@pytest.mark.parametrize("side", ["before", "after"])
async def test_operator_crash_while_creating_a_driver_leaves_exactly_one_driver(
    env: Environment, faults: Faults, side: str
) -> None:
    getattr(faults, side)[Step.DRIVER] = crash
    await env.create_class()
    await env.create_session()
    await env.operator_dies()
    async with env.operator():
        session = await env.in_phase(SESSIONS, "s", "Ready")
    assert session["status"]["driver"]["incarnation"] == 1
    assert len(env.kubelet.started) == 1


async def test_statement_lost_with_its_driver_while_no_operator_was_there_is_not_run_again(ready: Environment) -> None:
    await ready.create_statement("effect", "INSERT HOLD")
    async with ready.operator():
        await ready.in_phase(STATEMENTS, "effect", "Running")
    await ready.kubelet.remove_pod("s")
    async with ready.operator():
        await ready.ended("effect", "Error", "SessionLost")
    assert len(ready.ledger.ran("effect")) == 1


async def test_end_that_came_while_no_operator_was_there_is_seen_afterwards(ready: Environment) -> None:
    await ready.create_statement("effect", "INSERT HOLD")
    async with ready.operator():
        await ready.in_phase(STATEMENTS, "effect", "Running")
    ready.ledger.release("effect")
    async with ready.operator():
        await ready.finished("effect")
    assert len(ready.ledger.ran("effect")) == 1


async def test_statement_whose_sql_changed_between_intent_and_submission_is_refused(
    ready: Environment, faults: Faults
) -> None:
    """What was recorded must be what runs: the gateway's tombstone ends it."""
    faults.before[Step.SUBMIT] = crash
    await ready.create_config_map("text", sql="INSERT 1")
    await ready.create_statement("effect", None, sqlFrom={"configMapKeyRef": {"name": "text", "key": "sql"}})
    await ready.operator_dies()
    await ready.client.patch_merge(CONFIG_MAPS, ready.namespace, "text", {"data": {"sql": "INSERT 2"}})
    async with ready.operator():
        await ready.ended("effect", "Error", "InvalidSpec")
    assert ready.ledger.executions == []


async def test_statement_whose_sql_source_is_gone_before_submission_is_refused(
    ready: Environment, faults: Faults
) -> None:
    faults.before[Step.SUBMIT] = crash
    await ready.create_config_map("text", sql="INSERT 1")
    await ready.create_statement("effect", None, sqlFrom={"configMapKeyRef": {"name": "text", "key": "sql"}})
    await ready.operator_dies()
    await ready.client.delete(CONFIG_MAPS, ready.namespace, "text")
    async with ready.operator():
        await ready.ended("effect", "Error", "InvalidSpec")
    assert ready.ledger.executions == []


async def test_intent_that_the_class_no_longer_allows_is_refused(ready: Environment, faults: Faults) -> None:
    faults.before[Step.SUBMIT] = crash
    await ready.create_statement("effect", "INSERT 1", conf={"spark.sql.ansi.enabled": "true"})
    await ready.operator_dies()
    await ready.client.patch_merge(SESSION_CLASSES, "", ready.class_name, {"spec": {"allow": {"conf": []}}})
    async with ready.operator():
        await ready.ended("effect", "Error", "NotAllowed")
    assert ready.ledger.executions == []


async def test_restored_statement_without_status_is_a_new_one(ready: Environment) -> None:
    """As from a backup: the same manifest, another UID, no status."""
    async with ready.operator():
        await ready.create_statement("effect", "INSERT INTO t")
        await ready.finished("effect")
        await ready.delete(STATEMENTS, "effect")
        await ready.gone(STATEMENTS, "effect")
        await ready.create_statement("effect", "INSERT INTO t")
        await ready.finished("effect")
    ids = [e.operation_id for e in ready.ledger.ran("effect")]
    assert len(ids) == len(set(ids)) == 2


async def test_two_operators_at_once_submit_nothing_twice(env: Environment) -> None:
    names = [f"effect-{i:02}" for i in range(30)]
    await env.create_class()
    async with env.operator(), env.operator():
        await env.create_session()
        for name in names:
            await env.create_statement(name, "INSERT INTO t")
        await env.all_finished(names, seconds=180)
        await env.create_statement("held", "INSERT HOLD")
        await env.in_phase(STATEMENTS, "held", "Running")
        await env.patch(STATEMENTS, "held", {"desiredState": "Canceled"})
        await env.ended("held", "Canceled", "CanceledByUser")
    assert sorted(env.ledger.order()) == [*names, "held"]
    assert len(env.kubelet.started) == 1
