"""One reconcile, the same for every kind: gather, decide, write, act.

The order of the writes, and what follows from errors, is here and nowhere else. The order is the exactly-once protocol:
finalizer on, then the status (the intent) guarded by resourceVersion, and only when that write has succeeded the
commands. The finalizer goes last. Any step may be repeated after a crash.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

from sparksql.api.base import ApiModel, ApiObject
from sparksql.api.reasons import Reason
from sparksql.controllers.context import ControllerContext
from sparksql.domain.event import Event
from sparksql.domain.violation import Violation
from sparksql.drivers.client import GatewayError, GatewayRefused
from sparksql.engine.errors import Transient, Waiting
from sparksql.engine.key import Key, log_extra
from sparksql.kube.client import Object
from sparksql.kube.errors import ApiError, Conflict, NotFound
from sparksql.kube.finalizers import add_finalizer, remove_finalizer

MAX_PASSES = 4  # in one reconcile: a pass that changed the facts, or met a conflict, is followed by another at once
YIELD_SECONDS = (
    0.1  # until the next look once the passes are used up: other keys go first, and whoever writes has time to end
)
GATEWAY_RETRY_SECONDS = 1.0  # until the next look when a driver did not take a request

logger = logging.getLogger(__name__)

O = TypeVar("O", bound=ApiObject)  # noqa: E741 - the object
S = TypeVar("S", bound=ApiModel)
C = TypeVar("C")
S_co = TypeVar("S_co", bound=ApiModel, covariant=True)
C_co = TypeVar("C_co", covariant=True)


class Decision(Protocol[S_co, C_co]):
    """States what every decision says, whatever the kind."""

    @property
    def status(self) -> S_co:
        """Returns the status that is to be written."""

    @property
    def commands(self) -> tuple[C_co, ...]:
        """Returns the commands that are carried out once the status is written, in this order."""

    @property
    def finalizer(self) -> bool:
        """Tells whether the operator's finalizer is to be on."""

    @property
    def events(self) -> tuple[Event, ...]:
        """Returns the Events that are recorded once the status is written."""

    @property
    def requeue_after(self) -> float | None:
        """Returns the seconds until the next look, None when only a change can make a difference."""


@dataclass(frozen=True)
class Done:
    """Nothing is left to do now. `requeue_after` in seconds; None when only a change can make a difference."""

    requeue_after: float | None = None


@dataclass(frozen=True)
class Again:
    """Asks for another pass at once: the command has changed what decisions are made from.

    `refusal` tells why a command was not carried out, if it was not; the next decision is told.
    """

    refusal: Violation | None = None


Outcome = Done | Again
"""How a command, or a whole pass, ended."""


class Controller(ABC, Generic[O, S, C]):
    """Adds to a reconcile what is one kind's own: its object `O`, the object's status `S`, the commands `C` of its decisions."""

    kind: ClassVar[str]

    @abstractmethod
    def parse(self, obj: Object) -> O:
        """Returns the model of a raw object. Raises ValueError if the CRD would refuse it."""

    @abstractmethod
    async def decide(self, obj: Object, parsed: O, refusal: Violation | None) -> Decision[S, C]:
        """Gathers what a decision needs and makes it. Raises ApiError.

        `refusal` is what the pass before could not do, None in a first one.
        """

    @abstractmethod
    async def act(self, command: C, parsed: O) -> Outcome:
        """Carries out a command of a decision whose status `parsed` has. Repeatable. Raises ApiError, GatewayError, Waiting."""

    def observe(self, before: O, status: S, events: tuple[Event, ...]) -> None:
        """Counts and logs the status that was written over that of `before`, with the events that were recorded."""

    def forget(self, key: Key) -> None:
        """Drops what is kept in memory of an object that is gone, or let go."""


class Reconciler(Generic[O, S, C]):
    """Reconciles the objects of one kind.

    | what happened | what follows |
    |---|---|
    | the decision is carried out | done; the next look when decision or command say |
    | an object that is being deleted is let go | done |
    | a command changed what decisions are made from | another pass at once |
    | the object has changed since it was read (Conflict) | it is read live; another pass |
    | the object is gone | done |
    | a driver did not take a request (GatewayError) | Waiting, GATEWAY_RETRY_SECONDS |
    | any other error of the API server | Transient, with the wait that the server asks for |
    | the passes are used up | the next look after YIELD_SECONDS |
    """

    def __init__(self, context: ControllerContext, controller: Controller[O, S, C]) -> None:
        self._context = context
        self._controller = controller
        self._kind = controller.kind

    async def reconcile(self, key: Key) -> float | None:
        """Returns the seconds until the next look, None when only a change can make a difference. Raises Waiting, Transient."""
        try:
            return await self._passes(key)
        except GatewayError as error:
            status = str(error.status) if isinstance(error, GatewayRefused) else ""
            fields = log_extra(key, error=type(error).__name__, status=status)
            logger.warning("gateway does not take the request", extra=fields)
            raise Waiting(GATEWAY_RETRY_SECONDS) from error
        except ApiError as error:
            raise Transient(error, error.retry_after) from error

    async def _passes(self, key: Key) -> float | None:
        refusal: Violation | None = None
        for _ in range(MAX_PASSES):
            obj = self._context.store.get(key.kind, key.namespace, key.name)
            if obj is None:
                self._controller.forget(key)
                return None
            try:
                outcome = await self._pass(key, obj, refusal)
            except Conflict:
                await self._refresh(key)
                continue
            except NotFound:
                if await self._refresh(key) is not None:
                    raise  # it was something else that does not exist
                continue
            match outcome:
                case Done(requeue_after):
                    return requeue_after
                case Again(refusal):
                    continue
        return YIELD_SECONDS

    async def _pass(self, key: Key, obj: Object, refusal: Violation | None) -> Outcome:
        context, before = self._context, self._controller.parse(obj)
        decision = await self._controller.decide(obj, before, refusal)
        if decision.finalizer and not before.metadata.is_deleting:
            obj = await add_finalizer(context.client, context.store, self._kind, obj)
        obj = await context.status.write(self._kind, obj, decision.status.to_dict())
        self._record(obj, decision.events)
        self._controller.observe(before, decision.status, decision.events)
        outcome: Outcome = Done(decision.requeue_after)
        for command in decision.commands:
            outcome = _joined(outcome, await self._controller.act(command, self._controller.parse(obj)))
        if decision.finalizer:
            return outcome
        await remove_finalizer(context.client, context.store, self._kind, obj)
        if not before.metadata.is_deleting:
            return outcome
        self._controller.forget(key)
        return Done()

    def _record(self, obj: Object, events: tuple[Event, ...]) -> None:
        for event in events:
            self._context.events.emit(obj, event.type, event.reason, event.message)
            if event.reason is Reason.FINALIZER_DEADLINE:
                self._context.metrics.orphans.labels(self._kind).inc()

    async def _refresh(self, key: Key) -> Object | None:
        return await self._context.status.refresh(self._kind, key.namespace, key.name)


def _joined(first: Outcome, second: Outcome) -> Outcome:
    """Another pass if either asks for it, else the earlier of the next looks."""
    match first, second:
        case Again(), _:
            return first
        case _, Again():
            return second
        case Done(one), Done(other):
            return Done(min((seconds for seconds in (one, other) if seconds is not None), default=None))
