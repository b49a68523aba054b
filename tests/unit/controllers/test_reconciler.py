"""The generic reconcile, with a kind made for it: the order of writes, what follows from each error, and how often it looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sparksql.api.names import FINALIZER
from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase, SqlSavepoint, SqlSavepointStatus
from sparksql.cache.indexes import SAVEPOINT
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.reconciler import (
    GATEWAY_RETRY_SECONDS,
    MAX_PASSES,
    YIELD_SECONDS,
    Again,
    Controller,
    Done,
    Outcome,
    Reconciler,
)
from sparksql.domain.event import Event
from sparksql.domain.violation import Violation
from sparksql.drivers.client import GatewayRefused, GatewayUnreachable, OtherBoot
from sparksql.engine.errors import Transient, Waiting
from sparksql.engine.key import Key
from sparksql.engine.store import Store
from sparksql.kube.client import KubeClient
from sparksql.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, TooManyRequests, Unavailable
from sparksql.kube.resources import Resource
from sparksql.kube.status import StatusWriter
from sparksql.process.metrics import Metrics

Object = dict[str, Any]
KEY = Key(SAVEPOINT, "team-a", "one")
EVENT = Event("Normal", Reason.IN_PROGRESS, "begins")
BLOCKED = Violation(Reason.QUOTA_EXCEEDED, "no room")
DELETED = "2026-01-31T08:00:00Z"


@dataclass(frozen=True)
class FakeDecision:
    status: SqlSavepointStatus
    commands: tuple[str, ...] = ()
    finalizer: bool = True
    events: tuple[Event, ...] = ()
    requeue_after: float | None = None


def decision(phase: str = "InProgress", *commands: str, **more: Any) -> FakeDecision:
    return FakeDecision(SqlSavepointStatus(phase=SavepointPhase(phase)), commands, **more)


@dataclass
class ApiServer:
    """One object and the requests for it; `before` are raised in turn by requests that write, None lets one pass."""

    obj: Object | None
    journal: list[str]
    before: list[ApiError | None] = field(default_factory=list)

    async def patch_merge(self, _: Resource, namespace: str, name: str, body: Object, subresource: str = "") -> Object:
        error = self.before.pop(0) if self.before else None
        if error is not None:
            raise error
        assert self.obj is not None and self.obj["metadata"]["resourceVersion"] == body["metadata"]["resourceVersion"]
        metadata = {**self.obj["metadata"], "resourceVersion": str(int(self.obj["metadata"]["resourceVersion"]) + 1)}
        if subresource:
            self.journal.append("status")
            self.obj = {**self.obj, "metadata": metadata, "status": {**self.obj["status"], **body["status"]}}
        else:
            finalizers = body["metadata"]["finalizers"]
            self.journal.append("finalizer on" if FINALIZER in finalizers else "finalizer off")
            self.obj = {**self.obj, "metadata": {**metadata, "finalizers": finalizers}}
        return self.obj

    async def get(self, _: Resource, namespace: str, name: str) -> Object:
        self.journal.append("read")
        if self.obj is None:
            raise NotFound(404, "NotFound", "gone")
        return self.obj

    def change(self) -> None:
        """Somebody else writes."""
        assert self.obj is not None
        version = str(int(self.obj["metadata"]["resourceVersion"]) + 10)
        self.obj = {**self.obj, "metadata": {**self.obj["metadata"], "resourceVersion": version}}


class FakeController(Controller[SqlSavepoint, SqlSavepointStatus, str]):
    """Gives scripted decisions and outcomes, the last ones for ever, and writes down what it is asked."""

    kind = SAVEPOINT

    def __init__(self, journal: list[str], decisions: list[FakeDecision], outcomes: list[Outcome | Exception]) -> None:
        self.refusals: list[Violation | None] = []
        self._journal = journal
        self._decisions, self._outcomes = _repeating(decisions), _repeating(outcomes)

    def parse(self, obj: Object) -> SqlSavepoint:
        return SqlSavepoint.parse(obj)

    async def decide(self, obj: Object, parsed: SqlSavepoint, refusal: Violation | None) -> FakeDecision:
        self._journal.append("decide")
        self.refusals.append(refusal)
        return next(self._decisions)

    async def act(self, command: str, parsed: SqlSavepoint) -> Outcome:
        self._journal.append(f"{command} in {parsed.status.phase}")
        outcome = next(self._outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def observe(self, before: SqlSavepoint, status: SqlSavepointStatus, events: tuple[Event, ...]) -> None:
        self._journal.append(f"observe {before.status.phase} -> {status.phase}")

    def forget(self, key: Key) -> None:
        self._journal.append("forget")


def _repeating(items: list[Any]) -> Iterator[Any]:
    yield from items[:-1]
    while True:
        yield items[-1]


@dataclass
class Scene:
    journal: list[str]
    server: ApiServer
    store: Store
    controller: FakeController
    metrics: Metrics
    reconciler: Reconciler[SqlSavepoint, SqlSavepointStatus, str]

    async def reconcile(self) -> float | None:
        return await self.reconciler.reconcile(KEY)

    def orphans(self) -> float | None:
        return self.metrics.registry.get_sample_value("sparksql_finalizer_deadlines_total", {"kind": SAVEPOINT})


def scene(*decisions: FakeDecision, outcomes: tuple[Outcome | Exception, ...] = (Done(),), **metadata: Any) -> Scene:
    journal: list[str] = []
    obj = {
        "metadata": {"namespace": "team-a", "name": "one", "uid": "uid-1", "resourceVersion": "1", **metadata},
        "spec": {"statementRef": {"name": "orders"}},
        "status": {},
    }
    server, store, metrics = ApiServer(obj, journal), Store(), Metrics()
    store.apply(SAVEPOINT, obj)
    client = cast(KubeClient, server)
    recorder = SimpleNamespace(emit=lambda _, type_, reason, message: journal.append(f"event {reason}"))
    parts = SimpleNamespace(
        client=client, store=store, status=StatusWriter(client, store), events=recorder, metrics=metrics
    )
    controller = FakeController(journal, [*decisions], [*outcomes])
    reconciler = Reconciler(cast(ControllerContext, parts), controller)
    return Scene(journal, server, store, controller, metrics, reconciler)


def gone() -> NotFound:
    return NotFound(404, "NotFound", "gone")


def conflict() -> Conflict:
    return Conflict(409, "Conflict", "it has changed")


# --- order


async def test_finalizer_and_status_are_written_before_a_command_is_carried_out() -> None:
    one = scene(decision("InProgress", "copy", events=(EVENT,), requeue_after=60.0))
    assert await one.reconcile() == 60.0
    assert one.journal == [
        "decide",
        "finalizer on",
        "status",
        "event InProgress",
        "observe None -> InProgress",
        "copy in InProgress",
    ]


async def test_finalizer_is_taken_off_after_the_commands_and_the_object_is_forgotten() -> None:
    one = scene(
        decision("Failed", "cancel", "delete", finalizer=False, requeue_after=60.0),
        outcomes=(Again(), Done()),
        finalizers=[FINALIZER, "other"],
        deletionTimestamp=DELETED,
    )
    assert await one.reconcile() is None
    wanted = ["decide", "status", "observe None -> Failed", "cancel in Failed", "delete in Failed", "finalizer off"]
    assert one.journal == [*wanted, "forget"]


@pytest.mark.parametrize("finalizers", [[], [FINALIZER]], ids=["never on", "taken off"])
async def test_object_that_needs_no_finalizer_and_is_not_deleted_is_looked_at_again_in_time(
    finalizers: list[str],
) -> None:
    one = scene(decision("InProgress", "copy", finalizer=False, requeue_after=60.0), finalizers=finalizers)
    assert await one.reconcile() == 60.0
    assert "forget" not in one.journal


async def test_object_that_needs_no_finalizer_has_another_pass_when_a_command_changed_the_facts() -> None:
    once, done = (decision("InProgress", *commands, finalizer=False) for commands in (("copy",), ()))
    one = scene(once, done, outcomes=(Again(BLOCKED),))
    assert await one.reconcile() is None
    assert one.controller.refusals == [None, BLOCKED]


async def test_finalizer_stays_on_when_a_command_fails() -> None:
    one = scene(
        decision("Failed", "cancel", finalizer=False),
        outcomes=(Unavailable(503, "Unavailable", "no answer"),),
        finalizers=[FINALIZER],
        deletionTimestamp=DELETED,
    )
    with pytest.raises(Transient):
        await one.reconcile()
    assert "finalizer off" not in one.journal and "forget" not in one.journal


async def test_finalizer_is_not_put_on_an_object_that_is_being_deleted() -> None:
    one = scene(decision("Pending"), deletionTimestamp=DELETED)
    await one.reconcile()
    assert one.journal == ["decide", "status", "observe None -> Pending"]


async def test_unchanged_object_is_not_written() -> None:
    one = scene(decision("Pending"), finalizers=[FINALIZER])
    await one.reconcile()
    one.journal.clear()
    assert await one.reconcile() is None
    assert one.journal == ["decide", "observe Pending -> Pending"]


async def test_finalizer_deadline_event_counts_an_orphan() -> None:
    event = Event("Warning", Reason.FINALIZER_DEADLINE, "let go")
    one = scene(decision("Failed", finalizer=False, events=(event, EVENT)), deletionTimestamp=DELETED)
    await one.reconcile()
    assert one.orphans() == 1.0


# --- the next look


@pytest.mark.parametrize(
    ("requeue_after", "outcomes", "seconds"),
    [
        (None, (Done(), Done()), None),
        (60.0, (Done(), Done()), 60.0),
        (60.0, (Done(0.25), Done()), 0.25),
        (0.1, (Done(0.25), Done(5.0)), 0.1),
        (None, (Done(), Done(5.0)), 5.0),
        (0.0, (Done(), Done(5.0)), 0.0),
    ],
)
async def test_earliest_look_that_decision_or_commands_ask_for_is_taken(
    requeue_after: float | None, outcomes: tuple[Outcome, ...], seconds: float | None
) -> None:
    one = scene(decision("InProgress", "one", "two", requeue_after=requeue_after), outcomes=outcomes)
    assert await one.reconcile() == seconds


async def test_command_that_changed_the_facts_is_followed_by_another_pass() -> None:
    one = scene(
        decision("InProgress", "copy", "more", requeue_after=60.0), decision("Completed"), outcomes=(Again(), Done())
    )
    assert await one.reconcile() is None
    assert one.journal.count("decide") == 2
    assert one.journal[-3:] == ["decide", "status", "observe InProgress -> Completed"]
    assert one.controller.refusals == [None, None]


async def test_refusal_of_a_command_is_told_to_the_next_decision_and_only_to_that() -> None:
    commands = decision("InProgress", "start")
    one = scene(commands, commands, decision("Pending"), outcomes=(Again(BLOCKED), Again()))
    await one.reconcile()
    assert one.controller.refusals == [None, BLOCKED, None]


async def test_refusal_of_a_command_outlives_a_conflict() -> None:
    one = scene(decision("InProgress", "start"), decision("Pending"), outcomes=(Again(BLOCKED),))
    one.server.before = [None, None, conflict()]
    await one.reconcile()
    assert one.controller.refusals == [None, BLOCKED, BLOCKED]


async def test_reconcile_whose_commands_always_change_the_facts_yields_after_its_passes() -> None:
    one = scene(decision("InProgress", "copy"), outcomes=(Again(),))
    assert await one.reconcile() == YIELD_SECONDS
    assert one.journal.count("decide") == one.journal.count("copy in InProgress") == MAX_PASSES


# --- errors


@pytest.mark.parametrize("at", ["finalizer", "status"])
async def test_conflict_leads_to_another_decision_on_the_object_as_it_is(at: str) -> None:
    one = scene(decision("InProgress", "copy", events=(EVENT,)))
    one.server.before = [conflict()] if at == "finalizer" else [None, conflict()]
    one.server.change()
    if at == "status":
        one.store.apply(SAVEPOINT, cast(Object, one.server.obj))
    assert await one.reconcile() is None
    first = ["decide"] if at == "finalizer" else ["decide", "finalizer on"]
    rest = one.journal[len(first) :]
    assert one.journal[: len(first)] == first
    assert rest[:2] == ["read", "decide"]
    assert [rest.count(step) for step in ("status", "event InProgress", "copy in InProgress")] == [1, 1, 1]


async def test_reconcile_of_an_object_that_others_keep_writing_yields_after_its_passes() -> None:
    one = scene(decision("InProgress", "copy", events=(EVENT,)))
    one.server.before = [conflict() for _ in range(MAX_PASSES)]
    assert await one.reconcile() == YIELD_SECONDS
    assert one.journal == ["decide", "read"] * MAX_PASSES


@pytest.mark.parametrize("writes", [0, 1])
async def test_object_that_is_gone_at_a_write_is_forgotten(writes: int) -> None:
    one = scene(decision("InProgress", "copy", events=(EVENT,)))
    one.server.before = [*[None] * writes, gone()]
    real = one.server.patch_merge

    async def patch_merge(*args: Any, **kwargs: Any) -> Object:
        try:
            return await real(*args, **kwargs)
        except NotFound:
            one.server.obj = None
            raise

    one.server.patch_merge = patch_merge  # type: ignore[method-assign]
    assert await one.reconcile() is None
    assert one.journal[-2:] == ["read", "forget"]
    assert "copy in InProgress" not in one.journal and "event InProgress" not in one.journal


async def test_object_that_the_store_does_not_have_is_forgotten() -> None:
    one = scene(decision("InProgress"))
    one.store.delete(SAVEPOINT, "team-a", "one")
    assert await one.reconcile() is None
    assert one.journal == ["forget"]


def _waiting(error: BaseException) -> bool:
    return isinstance(error, Waiting) and error.after == GATEWAY_RETRY_SECONDS


def _transient(at_least: float) -> Callable[[BaseException], bool]:
    return lambda error: isinstance(error, Transient) and error.at_least == at_least


@pytest.mark.parametrize(
    ("error", "is_expected"),
    [
        (GatewayUnreachable("no answer"), _waiting),
        (GatewayRefused(503, "it drains"), _waiting),
        (OtherBoot("another one"), _waiting),
        (Unavailable(0, "ClientError", "no connection"), _transient(0.0)),
        (Unavailable(503, "Unavailable", "not now", {"retryAfterSeconds": 7}), _transient(7.0)),
        (TooManyRequests(429, "TooManyRequests", "slowly"), _transient(1.0)),
        (AlreadyExists(409, "AlreadyExists", "there is one"), _transient(0.0)),
        (gone(), _transient(0.0)),  # something else does not exist: the object itself is there
        (Waiting(3.0), lambda error: isinstance(error, Waiting) and error.after == 3.0),
        (ValueError("a defect"), lambda error: isinstance(error, ValueError)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_error_of_a_command_decides_when_the_object_is_looked_at_again(
    error: Exception, is_expected: Callable[[BaseException], bool]
) -> None:
    one = scene(decision("InProgress", "copy", "more"), outcomes=(error,))
    with pytest.raises(Exception) as raised:  # noqa: PT011 - which one, the table says
        await one.reconcile()
    assert is_expected(raised.value)
    assert "more in InProgress" not in one.journal
    assert one.journal.count("decide") == 1
