"""One namespace of a real API server with a fake kubelet, operators on demand, and a monitor of the contract.

The monitor watches every SqlStatement and SqlSession and holds what it sees against the contract: legal transitions only,
ended phases stay, and conditions as in the contract's table. It is asked at the end of each test.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from sparksql.api.names import DRIVER_APP_NAME, LABEL_NAME
from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.errors import NotFound
from sparksql.kube.resources import (
    BY_KIND,
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    PODS,
    SECRETS,
    SESSION_CLASSES,
    SESSIONS,
    STATEMENTS,
    Resource,
)
from sparksql.operator import Operator
from sparksql.process.config import OperatorConfig
from tests.integration.operator.contract_monitor import ContractMonitor, condition
from tests.integration.operator.fake_gateway import FakeGateway
from tests.integration.operator.fake_kubelet import FakeKubelet
from tests.integration.operator.faults import Crash
from tests.support.ports import free_port
from tests.support.watching import Watcher

Object = dict[str, Any]
WAIT_SECONDS = 90.0  # catches what hangs; nothing takes so long, on a loaded machine either
POLL_SECONDS = 0.03
IMAGE = "registry.example/session:1"
KINDS = {resource: kind for kind, resource in BY_KIND.items()}


class Environment:
    """Holds the operator, an API server and scripted drivers. All names are in `namespace`; the class of its sessions is `class_name`."""

    def __init__(self, client: KubeClient, watcher: Watcher, namespace: str, credentials: Credentials) -> None:
        self.client = client
        self.watcher = watcher
        self.namespace = namespace
        self.credentials = credentials
        self.class_name = f"class-{namespace}"
        self.kubelet = FakeKubelet(client, watcher, namespace)
        self.ledger = self.kubelet.ledger
        self.monitor = ContractMonitor(watcher, namespace)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Environment]:
        async with self.kubelet.running(), self.monitor.watching():
            yield self
            await self._clean_up()
        self.monitor.verify()

    async def _clean_up(self) -> None:
        """Only cluster-scoped objects are seen by other tests; a namespace is never used twice."""
        for name in (self.class_name, f"other-{self.namespace}"):
            with contextlib.suppress(NotFound):
                await self.client.delete(SESSION_CLASSES, "", name)

    # --- operators

    def config(self, **values: Any) -> OperatorConfig:
        """For this namespace only, with deadlines long enough never to matter unless a test says so."""
        defaults = {"watch_namespaces": (self.namespace,), "http_port": free_port(), "workers": 4}
        return OperatorConfig.model_validate({**defaults, **values})

    @contextlib.asynccontextmanager
    async def operator(self, **config: Any) -> AsyncIterator[Operator]:
        """A started operator; it must still be at work at the end."""
        operator = Operator(self.config(**config), self.credentials)
        task = asyncio.create_task(operator.run(), name="operator")
        try:
            await self.until("the operator starts", lambda: operator.health.started or task.done())
            yield operator
            if task.done():
                await task
                raise AssertionError("the operator ended by itself")
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def operator_dies(self, **config: Any) -> None:
        """Runs an operator until a `Crash` ends it."""
        operator = Operator(self.config(**config), self.credentials)
        async with asyncio.timeout(WAIT_SECONDS):
            with pytest.raises(BaseExceptionGroup) as died:
                await operator.run()
        assert died.value.subgroup(Crash) is not None, died.value

    # --- objects

    async def create(self, resource: Resource, name: str, spec: Object | None = None, **more: Any) -> Object:
        metadata = {"name": name, **more.pop("metadata", {})}
        body: Object = {"apiVersion": resource.api_version, "kind": KINDS[resource], "metadata": metadata, **more}
        if spec is not None:
            body["spec"] = spec
        return await self.client.create(resource, self.namespace, body)

    async def create_class(self, name: str = "", **spec: Any) -> Object:
        return await self.create(SESSION_CLASSES, name or self.class_name, {"image": IMAGE, **spec})

    async def create_session(self, name: str = "s", **spec: Any) -> Object:
        return await self.create(SESSIONS, name, {"className": self.class_name, **spec})

    async def create_statement(
        self, name: str, sql: str | None = "SELECT 1", session: str = "s", **spec: Any
    ) -> Object:
        where = {} if "session" in spec else {"sessionRef": {"name": session}}
        text = {} if sql is None else {"sql": sql}
        return await self.create(STATEMENTS, name, {**where, **text, **spec})

    async def dedicated(self, name: str, sql: str = "SELECT 1", template: Object | None = None, **spec: Any) -> Object:
        """A statement with a session of its own."""
        own = {"className": self.class_name, **(template or {})}
        return await self.create(STATEMENTS, name, {"session": own, "sql": sql, **spec})

    async def create_config_map(self, name: str, **data: str) -> Object:
        return await self.create(CONFIG_MAPS, name, data=data)

    async def create_secret(self, name: str, **data: str) -> Object:
        return await self.create(SECRETS, name, stringData=data)

    async def patch(self, resource: Resource, name: str, spec: Object) -> Object:
        return await self.client.patch_merge(resource, self.namespace, name, {"spec": spec})

    async def touch(self, resource: Resource, name: str) -> None:
        """Somebody else writes the object: nothing of it means anything, but its resourceVersion moves on."""
        annotations = {"example.org/touched": str(time.monotonic_ns())}
        await self.client.patch_merge(resource, self.namespace, name, {"metadata": {"annotations": annotations}})

    async def get(self, resource: Resource, name: str) -> Object:
        return await self.client.get(resource, self.namespace, name)

    async def delete(self, resource: Resource, name: str) -> None:
        await self.client.delete(resource, self.namespace, name)

    async def delete_namespace(self) -> None:
        """No namespace controller runs: it stays in Terminating."""
        await self.client.delete(NAMESPACES, "", self.namespace)

    async def empty_namespace(self) -> None:
        """What a namespace controller does next: delete all objects, and wait for their finalizers."""
        for resource in (STATEMENTS, SESSIONS, PODS):
            for obj in (await self.client.list(resource, self.namespace)).items:
                with contextlib.suppress(NotFound):
                    await self.delete(resource, obj["metadata"]["name"])

    async def driver_pods(self) -> list[Object]:
        return (await self.client.list(PODS, self.namespace, label_selector=f"{LABEL_NAME}={DRIVER_APP_NAME}")).items

    async def event_reasons(self, name: str) -> list[str]:
        events = (await self.client.list(EVENTS, self.namespace)).items
        return [e["reason"] for e in events if e["involvedObject"]["name"] == name]

    # --- waiting

    async def until(self, what: str, probe: Callable[[], Any], seconds: float = WAIT_SECONDS) -> Any:
        """The first true answer of a probe, which may be a coroutine; fails with the last one and all that was seen."""
        deadline = time.monotonic() + seconds
        while True:
            seen = probe()
            if isinstance(seen, Awaitable):
                seen = await seen
            if seen:
                return seen
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds:g} s: {what}; last seen {seen!r}\n{self.monitor.story()}")
            await asyncio.sleep(POLL_SECONDS)

    async def next_second(self, obj: Object) -> None:
        """Creation times have whole seconds: what is created after this is younger than `obj`."""
        created = obj["metadata"]["creationTimestamp"]
        await self.until("the next second", lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") > created)

    async def wait(
        self, resource: Resource, name: str, what: str, probe: Callable[[Object], Any], seconds: float = WAIT_SECONDS
    ) -> Object:
        """The statement or session as soon as `probe` is true for it, as a watch shows it."""

        def look() -> Object | None:
            obj = self.monitor.latest(resource, name)
            return obj if obj is not None and probe(obj) else None

        found: Object = await self._on_news(f"{name}: {what}", look, seconds)
        return found

    async def gone(self, resource: Resource, name: str, seconds: float = WAIT_SECONDS) -> None:
        """Waits for a statement or session that exists to be deleted, and for the monitor to know it."""

        async def is_missing() -> bool:
            try:
                await self.get(resource, name)
            except NotFound:
                return True
            return False

        # Asked as well: of an object that was made a moment ago the monitor may not have heard yet.
        await self._on_news(f"{name} is gone", lambda: self.monitor.latest(resource, name) is None, seconds)
        await self.until(f"{name} is gone", is_missing, seconds)
        await self._on_news(f"{name} is gone", lambda: self.monitor.latest(resource, name) is None, seconds)

    async def _on_news(self, what: str, probe: Callable[[], Any], seconds: float) -> Any:
        try:
            async with asyncio.timeout(seconds):
                while not (seen := probe()):
                    await self.monitor.news()
        except TimeoutError:
            raise AssertionError(f"not within {seconds:g} s: {what}\n{self.monitor.story()}") from None
        return seen

    async def ended(self, name: str, phase: str, reason: str, seconds: float = WAIT_SECONDS) -> Object:
        """Waits as `kubectl wait --for=condition=Finished` does, then tells how it ended."""
        obj = await self.wait(STATEMENTS, name, "ends", lambda o: condition(o, "Finished") == "True", seconds)
        ready = next(c for c in obj["status"]["conditions"] if c["type"] == "Ready")
        assert (obj["status"]["phase"], ready["reason"]) == (phase, reason), f"{obj['status']}\n{self.monitor.story()}"
        return obj

    async def finished(self, name: str, seconds: float = WAIT_SECONDS) -> Object:
        return await self.ended(name, "Finished", "Finished", seconds)

    async def all_finished(self, names: Iterable[str], seconds: float = WAIT_SECONDS) -> None:
        async with asyncio.timeout(seconds):
            for name in names:
                await self.finished(name, seconds)

    async def reaches(self, resource: Resource, name: str, *, seconds: float = WAIT_SECONDS, **wanted: Any) -> Object:
        """The object as soon as the fields of its status are as wanted."""

        def reached(obj: Object) -> bool:
            status = obj.get("status", {})
            return all(status.get(field) == value for field, value in wanted.items())

        return await self.wait(resource, name, f"has {wanted}", reached, seconds)

    async def in_phase(
        self, resource: Resource, name: str, phase: str, reason: str | None = None, seconds: float = WAIT_SECONDS
    ) -> Object:
        def reached(obj: Object) -> bool:
            status = obj.get("status", {})
            return status.get("phase") == phase and reason in (None, reason_of(obj))

        return await self.wait(resource, name, f"is {phase} {reason or ''}", reached, seconds)

    async def until_stalled(self, session: str, reason: str) -> Object:
        """Waits until the start of a session was given up for `reason`, for now."""

        def is_stalled(obj: Object) -> bool:
            conditions = obj.get("status", {}).get("conditions", ())
            return any((c["type"], c["status"], c["reason"]) == ("Stalled", "True", reason) for c in conditions)

        return await self.wait(SESSIONS, session, f"is stalled by {reason}", is_stalled)

    async def session_ready(self, name: str = "s", seconds: float = WAIT_SECONDS) -> FakeGateway:
        await self.in_phase(SESSIONS, name, "Ready", seconds=seconds)
        return self.kubelet.gateway_of(name)


def reason_of(obj: Object) -> str:
    return next((c["reason"] for c in obj.get("status", {}).get("conditions", ()) if c["type"] == "Ready"), "")


def message_of(obj: Object) -> str:
    return next((c["message"] for c in obj.get("status", {}).get("conditions", ()) if c["type"] == "Ready"), "")
