"""Faults at the steps of a statement's way: the operator dies, somebody else writes the object, or an answer is lost.

The ports of an operator are wrapped where it makes them; everything else is the operator's own code. Each fault happens
once, so whatever follows must go on by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pytest

from sparksql.drivers.client import GatewayClient, GatewayUnreachable
from sparksql.kube.client import KubeClient
from sparksql.kube.errors import Unavailable
from sparksql.kube.resources import SESSIONS, STATEMENTS, Resource
from sparksql.wire.control import CancelRequest, OperationView, SubmitRequest
from tests.integration.operator.contract_monitor import ENDED

Object = dict[str, Any]
Action = Callable[[], Awaitable[None]]


class Step(StrEnum):
    """Requests of the operator, in the order in which a statement's way has them."""

    FINALIZER = "finalizer"  # put on
    INTENT = "intent"  # status Pending with the operation id
    SUBMIT = "submit"  # PUT to the gateway
    RUNNING = "running"  # status Running
    CANCEL = "cancel"  # POST to the gateway
    RESULT = "result"  # status with the end
    RELEASE = "release"  # finalizer taken off
    DRIVER = "driver"  # status of a session that announces a new incarnation


class Crash(BaseException):
    """The process ends here. No Exception, so that no handler of the operator can go on after it."""


@dataclass
class Faults:
    """At most one fault a step and side; `happened` is set by the first."""

    before: dict[Step, Action] = field(default_factory=dict)
    after: dict[Step, Action] = field(default_factory=dict)
    happened: asyncio.Event = field(default_factory=asyncio.Event)

    async def pass_by(self, side: dict[Step, Action], step: Step | None) -> None:
        action = side.pop(step, None) if step is not None else None
        if action is not None:
            self.happened.set()
            await action()


async def crash() -> None:
    raise Crash


async def lose_answer() -> None:
    """Of the API server: the request was carried out, but nobody knows."""
    raise Unavailable(0, "ServerDisconnectedError", "the connection broke")


async def lose_gateway_answer() -> None:
    raise GatewayUnreachable("the connection broke")


def inject(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """Operators started from now on pass by the faults that are set in the answer."""
    faults = Faults()

    class FaultyKube(KubeClient):
        async def patch_merge(
            self, resource: Resource, namespace: str, name: str, body: Object, subresource: str = ""
        ) -> Object:
            step = _step(resource, body, subresource)
            await faults.pass_by(faults.before, step)
            answer = await super().patch_merge(resource, namespace, name, body, subresource)
            await faults.pass_by(faults.after, step)
            return answer

    class FaultyGateway(GatewayClient):
        async def submit(self, operation_id: str, request: SubmitRequest) -> OperationView:
            await faults.pass_by(faults.before, Step.SUBMIT)
            view = await super().submit(operation_id, request)
            await faults.pass_by(faults.after, Step.SUBMIT)
            return view

        async def cancel(self, operation_id: str, request: CancelRequest) -> OperationView:
            await faults.pass_by(faults.before, Step.CANCEL)
            view = await super().cancel(operation_id, request)
            await faults.pass_by(faults.after, Step.CANCEL)
            return view

    monkeypatch.setattr("sparksql.operator.KubeClient", FaultyKube)
    monkeypatch.setattr("sparksql.drivers.tracker.GatewayClient", FaultyGateway)
    return faults


def _step(resource: Resource, body: Object, subresource: str) -> Step | None:
    status = body.get("status") or {}
    if resource == SESSIONS:
        return Step.DRIVER if (status.get("driver") or {}).get("incarnation") else None
    if resource != STATEMENTS:
        return None
    if subresource == "status":
        phase = status.get("phase")
        return {"Pending": Step.INTENT, "Running": Step.RUNNING}.get(phase, Step.RESULT if phase in ENDED else None)
    if "finalizers" in body["metadata"]:
        return Step.FINALIZER if body["metadata"]["finalizers"] else Step.RELEASE
    return None
