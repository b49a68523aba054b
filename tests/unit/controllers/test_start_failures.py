"""Errors of the API server and of admission webhooks while a driver is created, for sessions and for warm pools."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sparksql.api.names import driver_pod_name, pool_member_name
from sparksql.api.reasons import Reason
from sparksql.api.session_class import WarmPoolMember
from sparksql.cache.indexes import INDEXES
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.session.driver import SessionChildren
from sparksql.controllers.session_class import SessionClassController
from sparksql.controllers.start_failures import violation_of
from sparksql.domain.session.resolve import Resolved
from sparksql.domain.session_class import StartDriver
from sparksql.domain.violation import Violation
from sparksql.engine.store import Store
from sparksql.kube.errors import ApiError, Conflict, NotFound, error_from
from sparksql.kube.resources import NETWORK_POLICIES, PODS, SECRETS, Resource
from sparksql.process.config import OperatorConfig
from tests.unit.domain.builders.classes import session_class
from tests.unit.domain.builders.objects import NOW
from tests.unit.domain.builders.sessions import resolved, starting

Object = dict[str, Any]

WEBHOOK_DOWN = 'failed calling webhook "validate.example": connection refused'
UNREAD_POLICY = "failed to configure policy: failed to configure binding: paramKind not found"


def answer(status: int, reason: str, message: str, causes: tuple[Object, ...] = ()) -> ApiError:
    body = {"reason": reason, "message": message, "details": {"causes": list(causes)}}
    return error_from(status, json.dumps(body).encode())


def test_quota_on_cpu_limits_has_the_fields_that_meet_it() -> None:
    error = answer(403, "Forbidden", "pods is forbidden: failed quota: q: must specify limits.cpu for: spark")
    violation = violation_of(error, "standard")
    assert "spec.driver.cpuLimit and spec.executors.cpuLimit" in violation.message


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (answer(403, "Forbidden", "pods is forbidden: exceeded quota: compute"), Reason.QUOTA_EXCEEDED),
        (answer(403, "Forbidden", "no", ({"reason": "NamespaceTerminating"},)), Reason.NAMESPACE_TERMINATING),
        (answer(403, "Forbidden", "policy says no"), Reason.NOT_ALLOWED),
        (answer(422, "Invalid", "bad", ({"field": "spec.containers[0].image", "message": "b"},)), Reason.INVALID_SPEC),
        (answer(422, "Invalid", UNREAD_POLICY, ({"message": UNREAD_POLICY},)), Reason.FAILED_CREATE),
        (answer(422, "Invalid", UNREAD_POLICY), Reason.FAILED_CREATE),
        (answer(400, "BadRequest", "denied by a rule"), Reason.FAILED_CREATE),
        (answer(404, "NotFound", "namespaces team-a not found"), Reason.FAILED_CREATE),
        (answer(429, "TooManyRequests", "later"), Reason.FAILED_CREATE),
        (answer(500, "InternalError", WEBHOOK_DOWN), Reason.FAILED_CREATE),
        (answer(504, "Timeout", "context deadline exceeded"), Reason.FAILED_CREATE),
    ],
)
def test_failed_creation_has_a_reason_and_the_servers_words(error: ApiError, reason: Reason) -> None:
    violation = violation_of(error, "standard")
    assert violation.reason is reason
    assert error.message in violation.message or reason is Reason.NAMESPACE_TERMINATING


class ApiServer:
    """Has what was created, and answers the creation of pods with `error` although they exist afterwards."""

    def __init__(self, error: ApiError) -> None:
        self._error = error
        self.deleted: list[tuple[Resource, str]] = []
        self._objects: dict[tuple[Resource, str], Object] = {}

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        if (found := self._objects.get((resource, name))) is None:
            raise NotFound(404, "NotFound", name)
        return found

    async def create(self, resource: Resource, namespace: str, body: Object) -> Object:
        metadata = body["metadata"]
        self._objects[resource, metadata["name"]] = {**body, "metadata": {**metadata, "uid": metadata["name"]}}
        if resource is PODS:
            raise self._error
        return body

    async def apply(self, resource: Resource, namespace: str, name: str, body: Object) -> Object:
        return body

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str) -> None:
        assert self._objects.pop((resource, name))["metadata"]["uid"] == uid
        self.deleted.append((resource, name))


def context(server: ApiServer) -> ControllerContext:
    config = OperatorConfig()
    parts = {"store": Store(INDEXES), "config": config, "front_key": None, "pod_namespace": "sparksql"}
    return cast(ControllerContext, SimpleNamespace(client=server, clock=lambda: NOW, **parts))


async def start(error: ApiError) -> Violation | None:
    obj, klass = starting(), session_class()
    resolution = resolved(obj, klass)
    assert isinstance(resolution, Resolved)
    return await SessionChildren(context(ApiServer(error))).start_driver(obj, klass, resolution)


@pytest.mark.parametrize(
    "error", [answer(400, "BadRequest", "denied by a rule"), answer(500, "InternalError", WEBHOOK_DOWN)]
)
async def test_session_start_with_a_failing_webhook_is_blocked_with_its_words(error: ApiError) -> None:
    violation = await start(error)
    assert violation is not None and violation.reason is Reason.FAILED_CREATE
    assert error.message in violation.message


async def test_session_start_with_a_conflict_leaves_it_to_the_reconciler() -> None:
    with pytest.raises(Conflict):
        await start(Conflict(409, "Conflict", "changed"))


@pytest.mark.parametrize("error", [answer(500, "InternalError", WEBHOOK_DOWN), answer(422, "Invalid", UNREAD_POLICY)])
async def test_pool_start_with_a_failing_webhook_is_a_problem_of_the_pool(error: ApiError) -> None:
    server = ApiServer(error)
    parts, klass = context(server), session_class(warmPool={"size": 1, "namespaces": ["team-a"]})
    controller = SessionClassController(parts)
    pod_name = driver_pod_name(pool_member_name(klass.metadata.name), "m", 1)
    intent = WarmPoolMember(namespace="team-a", uid="m", pod_name=pod_name, key="k")
    await controller.act(StartDriver(intent), klass)
    decision = await controller.decide({}, klass, None)
    assert any(error.message in condition.message for condition in decision.status.conditions)
    deleted = [resource for resource, _ in server.deleted]  # after an error the pod may exist all the same
    assert sorted(map(repr, deleted)) == sorted(map(repr, [PODS, SECRETS, SECRETS, NETWORK_POLICIES])), deleted
