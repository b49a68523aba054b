"""A savepoint among few events: one driver at a time, requests that are lost or come late, an operator that dies in between.

What is proven here is about the drivers, not about the status: never two copies at once, and an end when the trouble is over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from sparksql.api.savepoint import SavepointPhase as Phase
from sparksql.api.savepoint import SqlSavepoint
from sparksql.domain.savepoint.decide import decide
from sparksql.domain.savepoint.snapshot import (
    Attempt,
    CancelCopy,
    Command,
    Failed,
    Observation,
    Running,
    Snapshot,
    StartCopy,
)
from sparksql.domain.statement.snapshot import Driver, Unobserved
from tests.unit.domain.builders.objects import NOW
from tests.unit.domain.builders.savepoints import PLACE, WHOLE, id_of, saved, savepoint


@dataclass
class Lifecycle:
    """`copies` are those of the driver that lives; a driver that dies takes its copies along."""

    savepoint: SqlSavepoint
    now: datetime = NOW
    boot: int = 1
    up: bool = True
    reachable: bool = True
    attempt: Attempt | None = None
    copies: dict[str, Observation] = field(default_factory=dict)
    late: list[Command] = field(default_factory=list)
    started: list[str] = field(default_factory=list)

    @property
    def driver(self) -> Driver:
        return Driver(f"s-{self.boot}", f"pod-{self.boot}", f"boot-{self.boot}")

    def word(self) -> Observation | None:
        """What the operator can learn of the attempt that its status speaks of."""
        if self.attempt is None:
            return None
        if not self.up or self.attempt.driver != self.driver:
            return Unobserved.DRIVER_GONE
        if not self.reachable:
            return Unobserved.UNREACHABLE
        return self.copies.get(id_of(self.savepoint.status.failures), Unobserved.UNKNOWN)

    def deliver(self, command: Command) -> None:
        """The driver keeps each id for its life, and refuses one whose cancel came first; another boot's it refuses too."""
        if not isinstance(command, StartCopy | CancelCopy) or not self.up or command.driver != self.driver:
            return
        if isinstance(command, StartCopy) and command.id not in self.copies:
            self.copies[command.id] = Running()
            self.started.append(command.id)
        if isinstance(command, CancelCopy) and self.copies.get(command.id, Running()) == Running():
            self.copies[command.id] = Failed("cancelled")

    def reconcile(self, deliver: str) -> float:
        """One pass of the operator; `deliver`: its commands come at once, late, or never."""
        ready = self.driver if self.up and self.reachable else None
        decision = decide(
            Snapshot(
                self.now,
                self.savepoint,
                saved(),
                storage=PLACE,
                driver=ready,
                attempt=self.attempt,
                observation=self.word(),
            )
        )
        self.savepoint = self.savepoint.replace(status=decision.status)
        self.attempt = decision.attempt
        for command in decision.commands:
            if deliver == "at once":
                self.deliver(command)
            elif deliver == "late":
                self.late.append(command)
        return decision.requeue_after if decision.requeue_after is not None else 60.0

    def running(self) -> int:
        return sum(word == Running() for word in self.copies.values())

    def finish(self, word: Observation) -> None:
        self.copies = {id_: word if known == Running() else known for id_, known in self.copies.items()}

    def happen(self, event: str) -> None:
        match event:
            case "dies":
                self.up, self.copies = False, {}
            case "starts" if not self.up:
                self.up, self.boot = True, self.boot + 1
            case "falls silent":
                self.reachable = False
            case "answers":
                self.reachable = True
            case "completes":
                self.finish(WHOLE)
            case "fails":
                self.finish(Failed("disk full"))
            case "late requests":
                arrived, self.late = self.late, []
                for command in arrived:
                    self.deliver(command)
            case _:
                pass


EVENTS = st.sampled_from(
    [
        "nothing",
        "nothing",
        "dies",
        "starts",
        "starts",
        "falls silent",
        "answers",
        "answers",
        "completes",
        "fails",
        "late requests",
    ]
)
STEPS = st.lists(
    st.tuples(
        EVENTS, st.sampled_from(["at once", "at once", "late", "never"]), st.sampled_from([0.1, 5.0, 30.0, 700.0])
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(STEPS, st.integers(0, 3))
def test_never_two_copies_and_an_end(steps: list[tuple[str, str, float]], limit: int) -> None:
    machine = Lifecycle(savepoint(backoffLimit=limit))
    for event, deliver, after in steps:
        machine.happen(event)
        machine.reconcile(deliver)
        machine.now += timedelta(seconds=after)
        assert machine.running() <= 1
        assert len(set(machine.started)) <= limit + 1
        assert machine.savepoint.status.phase is not Phase.COMPLETED or machine.running() == 0
    for event in ("starts", "answers", "late requests"):
        machine.happen(event)
    for _ in range(40):
        machine.happen("completes")
        wake = machine.reconcile("at once")
        machine.now += timedelta(seconds=wake)
        assert machine.running() <= 1
    status = machine.savepoint.status
    assert status.phase is not None and status.phase.is_terminal
    assert status.phase is Phase.COMPLETED or status.failures == limit + 1
    assert machine.running() == 0
