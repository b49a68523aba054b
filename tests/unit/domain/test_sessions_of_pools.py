"""What a session does with a driver of a warm pool that it has taken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparksql.api.conditions import find_condition
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.api.settings import SessionSettings
from sparksql.domain.session.decide import decide
from sparksql.domain.session.resolve import Resolved
from sparksql.domain.session.snapshot import Command, Deadlines, WarmDriver
from sparksql.domain.session.warm import misfits, pool_resolution
from tests.unit.domain.builders.classes import session_class
from tests.unit.domain.builders.conditions import reason_of
from tests.unit.domain.builders.objects import NOW, seconds, with_status
from tests.unit.domain.builders.sessions import gateway, pod, ready, resolved, session, session_snapshot


def test_a_driver_of_a_pool_has_its_time_since_it_was_taken() -> None:
    new, created, started = session(), NOW - seconds(3600), NOW - seconds(3590)
    obj = with_status(
        new, decide(session_snapshot(new, now=NOW, warm=WarmDriver("warm-standard-1", "pod-uid", "member")))
    )
    taken = obj.status.driver
    assert taken is not None and (taken.pod_name, taken.pool_uid) == ("warm-standard-1", "member")
    waits = decide(session_snapshot(obj, now=NOW + seconds(1), pod=replace(pod(obj), created=created, started=started)))
    assert (waits.status.phase, reason_of(waits.status)) == (Phase.STARTING, Reason.DRIVER_STARTING)
    assert waits.commands == (Command.START_DRIVER,)  # bound until it answers
    over = decide(
        session_snapshot(
            obj,
            now=NOW + seconds(Deadlines().driver_start_seconds + 1),
            pod=replace(pod(obj), created=created, started=started),
        )
    )
    assert (over.status.phase, reason_of(over.status)) == (Phase.PENDING, Reason.DRIVER_NOT_READY)


def misfits_of(**spec: Any) -> tuple[str, ...]:
    pool = pool_resolution(session_class(), "team-a", "", {}, SessionSettings())
    own = resolved(session(**spec))
    assert isinstance(pool, Resolved) and isinstance(own, Resolved)
    return misfits(own, pool)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"executors": {"memory": "2Gi"}}, ("spec.executors.memory is 2Gi, the pool has 1Gi",)),
        ({"executors": {"cpuLimit": "2"}}, ("spec.executors.cpuLimit is 2, the pool has none",)),
        (
            {"executors": {"min": 0, "max": 3}},
            (
                "spec.executors.instances is not set, the pool has 1",
                "spec.executors.max is 3, the pool has none",
                "spec.executors.min is 0, the pool has none",
            ),
        ),
        ({"driver": {"cpu": "2"}}, ("spec.driver.cpu is 2, the pool has 1",)),
    ],
)
def test_session_that_no_driver_of_the_pool_fits_has_the_fields_with_both_values(
    spec: dict[str, Any], told: tuple[str, ...]
) -> None:
    assert misfits_of(**spec) == told


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"conf": {"spark.sql.shuffle.partitions": "3"}},
        {"database": "sales"},
        {"endpoints": {"thrift": True}},
        {"init": [{"sql": "SET a = 1"}], "idle": {"timeoutSeconds": 9}},
    ],
)
def test_session_whose_differences_are_set_at_the_binding_fits(spec: dict[str, Any]) -> None:
    assert misfits_of(**spec) == ()


def test_session_that_fits_no_pool_says_so_in_a_condition() -> None:
    obj, why = ready(), "spec.executors.memory is 2Gi, the pool has 1Gi"
    facts = {"now": NOW + seconds(9), "pod": pod(obj), "gateway": gateway()}
    shown = decide(session_snapshot(obj, pool_misfits=(why,), **facts)).status.conditions
    found = find_condition(shown, "WarmPool")
    assert found is not None
    assert (found.status, found.reason) == ("False", Reason.DOES_NOT_FIT_POOL)
    assert found.message.endswith(why)
    assert find_condition(decide(session_snapshot(obj, **facts)).status.conditions, "WarmPool") is None
