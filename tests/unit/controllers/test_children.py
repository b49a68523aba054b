"""Children are created at most once, and not at all in a namespace that is being deleted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sparksql.cache.indexes import SAVEPOINT
from sparksql.controllers.children import create_watched
from sparksql.controllers.context import ControllerContext
from sparksql.engine.store import Store
from sparksql.kube.client import KubeClient
from sparksql.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound
from sparksql.kube.resources import SAVEPOINTS, Resource
from sparksql.kube.status import StatusWriter

Object = dict[str, Any]
BODY: Object = {"kind": SAVEPOINT, "metadata": {"namespace": "team-a", "name": "one"}, "spec": {}}
TERMINATING = Forbidden(403, "Forbidden", "no", {"causes": [{"reason": "NamespaceTerminating"}]})


class ApiServer:
    """Answers a create with `error` if there is one; `existing` is what is there under the name."""

    def __init__(self, error: ApiError | None = None, existing: Object | None = None) -> None:
        self._error, self._existing = error, existing

    async def create(self, resource: Resource, namespace: str, body: Object) -> Object:
        assert (resource, namespace) == (SAVEPOINTS, "team-a")
        if self._error is not None:
            raise self._error
        return _with_uid(body, "made")

    async def get(self, _: Resource, namespace: str, name: str) -> Object:
        if self._existing is None:
            raise NotFound(404, "NotFound", name)
        return self._existing


def _with_uid(body: Object, uid: str) -> Object:
    made = {"uid": uid, "resourceVersion": "1", "creationTimestamp": "2026-01-31T08:00:00Z"}
    spec = {"statementRef": {"name": "orders"}}
    return {**body, "metadata": {**body["metadata"], **made}, "spec": spec}


@pytest.mark.parametrize(
    ("server", "uid"),
    [
        (ApiServer(), "made"),
        (ApiServer(AlreadyExists(409, "AlreadyExists", "one"), _with_uid(BODY, "theirs")), "theirs"),
        (ApiServer(AlreadyExists(409, "AlreadyExists", "one")), None),  # and gone again
        (ApiServer(TERMINATING), None),
    ],
)
async def test_store_has_the_child_that_was_created_or_is_there(server: ApiServer, uid: str | None) -> None:
    store, client = Store(), cast(KubeClient, server)
    parts = SimpleNamespace(client=client, store=store, status=StatusWriter(client, store))
    await create_watched(cast(ControllerContext, parts), BODY)
    child = store.get(SAVEPOINT, "team-a", "one")
    assert (child["metadata"]["uid"] if child is not None else None) == uid


async def test_creation_that_is_forbidden_for_another_reason_fails() -> None:
    client = cast(KubeClient, ApiServer(Forbidden(403, "Forbidden", "exceeded quota")))
    with pytest.raises(Forbidden):
        await create_watched(cast(ControllerContext, SimpleNamespace(client=client)), BODY)
