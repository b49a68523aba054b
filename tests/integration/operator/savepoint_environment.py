"""A session whose class has a place for checkpoints and savepoints, and a monitor of the contract for SqlSavepoint.

The tables below are written from the contract, not taken from the code under test.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from sparksql.api.names import child_base
from sparksql.drivers.client import GatewayClient
from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.errors import NotFound
from sparksql.kube.resources import JOBS, SAVEPOINTS, STATEMENTS, Resource
from sparksql.wire.savepoints import SavepointRequest, SavepointView
from tests.integration.operator.contract_monitor import TYPES, condition
from tests.integration.operator.environment import Environment
from tests.integration.operator.faults import crash
from tests.integration.operator.stream_contract_monitor import StreamContractMonitor
from tests.support.apiserver import ApiServer
from tests.support.watching import watching

Object = dict[str, Any]
TEXT = "INSERT INTO t SELECT * FROM STREAM s"
ROOT, SAVEPOINT_ROOT = "file:///data/checkpoints", "file:///data/savepoints"
FORWARD = {
    "Pending": {"Pending", "InProgress", "Completed", "Failed", "Abandoned"},  # a watcher may miss what lies between
    "InProgress": {"Pending", "InProgress", "Completed", "Failed", "Abandoned"},
    "Completed": {"Completed"},
    "Failed": {"Failed"},
    "Abandoned": {"Abandoned"},
}
CONDITIONS = {  # Ready, Reconciling, Stalled, Succeeded, Finished
    "Pending": ("False", "True", "False", "Unknown", "False"),
    "InProgress": ("False", "True", "False", "Unknown", "False"),
    "Completed": ("True", "False", "False", "True", "True"),
    "Failed": ("False", "False", "True", "False", "True"),
    "Abandoned": ("False", "False", "True", "False", "True"),
}
IN_THE_MANIFEST = ("batchId", "queryId", "sparkVersion", "sizeBytes", "fileCount", "completionTime")


class SavepointContractMonitor(StreamContractMonitor):
    """Watches SqlSavepoints as well, and holds them against the contract for them."""

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        async with super().watching():
            task = asyncio.create_task(self._watch(SAVEPOINTS))
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def names(self) -> list[str]:
        """Savepoints that ever were, in the order seen."""
        return [name for plural, name, _ in self._seen if plural == SAVEPOINTS.plural]

    def shown(self, name: str) -> list[tuple[str, str]]:
        """Phases and reasons of a savepoint in the order seen, without repeats."""
        versions = (
            v for (plural, n, _), all_ in self._seen.items() if (plural, n) == (SAVEPOINTS.plural, name) for v in all_
        )
        steps = [(v["status"]["phase"], _reason(v)) for v in versions if "phase" in v.get("status", {})]
        return [step for i, step in enumerate(steps) if i == 0 or step != steps[i - 1]]

    def verify(self) -> None:
        everything = self._seen
        ours = {key: versions for key, versions in everything.items() if key[0] == SAVEPOINTS.plural}
        self._seen = {key: versions for key, versions in everything.items() if key not in ours}  # type: ignore[assignment]
        try:
            super().verify()
        finally:
            self._seen = everything
        wrong = [
            f"{name}: {fault}: {before} -> {after}"
            for (_, name, _), versions in ours.items()
            for before, after in pairwise([{}, *(obj.get("status", {}) for obj in versions)])
            for fault in _faults(before, after)
        ]
        assert not wrong, "\n".join([*wrong, self.story()])


def _reason(obj: Object) -> str:
    return next(c["reason"] for c in obj["status"]["conditions"] if c["type"] == "Ready")


def _faults(before: Object, after: Object) -> Iterator[str]:
    old, phase = before.get("phase"), after.get("phase")
    if phase is None:
        return
    if old is not None and phase not in FORWARD[old]:
        yield "illegal transition"
    if tuple(condition({"status": after}, type_) for type_ in TYPES) != CONDITIONS[phase]:
        yield "wrong conditions"
    if "location" in before and before["location"] != after.get("location"):
        yield "the data moved"
    if before.get("failures", 0) > after.get("failures", 0):
        yield "a failure is forgotten"
    if phase == "InProgress" and not {"location", "attempt", "startTime"} <= after.keys():
        yield "nobody knows who was asked for what"
    if phase == "Completed" and not set(IN_THE_MANIFEST) <= after.keys():
        yield "the manifest is not shown"
    if (phase in ("Completed", "Failed", "Abandoned")) != ("completionTime" in after):
        yield "completion time"


class SavepointEnvironment(Environment):
    """An environment with one session, `s`; statements and savepoints have short names."""

    @classmethod
    @contextlib.asynccontextmanager
    async def made(cls, server: ApiServer, namespace: str) -> AsyncIterator[SavepointEnvironment]:
        """At the end no two queries ever had the same checkpoint."""
        credentials = Credentials.from_kubeconfig(server.kubeconfig)
        async with KubeClient(credentials) as client, watching(server.kubeconfig) as watcher:
            env = cls(client, watcher, namespace, credentials)
            env.monitor = SavepointContractMonitor(watcher, namespace)
            async with env.running():
                await env.create_class(storage={"checkpointRoot": ROOT, "savepointRoot": f"{SAVEPOINT_ROOT}/"})
                await env.create_session()
                yield env
            assert env.ledger.checkpoints.overlaps == []

    # --- statements

    async def stream(self, name: str = "st", sql: str = TEXT, streaming: Object | None = None, **spec: Any) -> Object:
        options = {"restart": {"backoffSeconds": 0}, **(streaming or {})}
        return await self.create_statement(name, sql, streaming=options, **spec)

    async def runs(self, name: str = "st", **wanted: Any) -> Object:
        """As soon as it runs well and has committed a batch."""

        def well(obj: Object) -> bool:
            status = obj.get("status", {})
            is_as_wanted = all(status.get(field) == value for field, value in wanted.items())
            return is_as_wanted and condition(obj, "CheckpointFresh") == "True"

        return await self.wait(STATEMENTS, name, f"streams {wanted}", well)

    async def streams(self, name: str = "st", sql: str = TEXT, **spec: Any) -> Object:
        await self.stream(name, sql, **spec)
        return await self.runs(name)

    async def wish(self, name: str = "st", **spec: Any) -> None:
        await self.patch(STATEMENTS, name, spec)

    # --- savepoints

    async def save(self, name: str = "sp", statement: str = "st", **spec: Any) -> Object:
        return await self.create(SAVEPOINTS, name, {"statementRef": {"name": statement}, **spec})

    async def saving(self, name: str = "sp") -> Object:
        """As soon as a driver works on it."""
        await self.until(f"a driver works on {name}", lambda: self.ledger.savepoints.of(name))
        return await self.in_phase(SAVEPOINTS, name, "InProgress")

    async def saved(self, name: str = "sp") -> Object:
        obj = await self.wait(SAVEPOINTS, name, "ends", lambda o: condition(o, "Finished") == "True")
        assert obj["status"]["phase"] == "Completed", f"{obj['status']}\n{self.monitor.story()}"
        return obj

    async def made_by_operator(self, suffix: str, statement: str = "st") -> str:
        """Name of the savepoint that the operator made of a statement."""

        def found() -> str | None:
            names = self.monitor.names()
            return next((name for name in names if name.startswith(f"{statement}{suffix}")), None)

        return str(await self._on_news(f"a savepoint {statement}{suffix}", found, 90.0))

    # --- clean-up Jobs: no controller runs, their ends are written by hand

    async def job_of(self, savepoint: Object) -> Object | None:
        meta = savepoint["metadata"]
        try:
            return await self.get(JOBS, child_base(meta["name"], meta["uid"]))
        except NotFound:
            return None

    async def jobs(self) -> list[str]:
        return [job["metadata"]["name"] for job in (await self.client.list(JOBS, self.namespace)).items]

    async def end_job(self, savepoint: Object, *types: str) -> None:
        """Conditions as a Job's controller writes them: ("SuccessCriteriaMet", "Complete"), or ("FailureTarget", "Failed")."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        times = {"startTime": now, **({"completionTime": now} if "Complete" in types else {})}
        ends = [{"type": t, "status": "True", "lastTransitionTime": now, "lastProbeTime": now} for t in types]
        name = child_base(savepoint["metadata"]["name"], savepoint["metadata"]["uid"])
        body = {"status": {"conditions": ends, **times}}
        await self.client.patch_merge(JOBS, self.namespace, name, body, subresource="status")


def dies_after_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next operator ends once it has created a Job, before it records its UID."""

    class FaultyKube(KubeClient):
        async def create(self, resource: Resource, namespace: str, body: Object) -> Object:
            created = await super().create(resource, namespace, body)
            if resource == JOBS:
                await crash()
            return created

    monkeypatch.setattr("sparksql.operator.KubeClient", FaultyKube)


def dies(monkeypatch: pytest.MonkeyPatch, side: str, step: str) -> None:
    """Operators started from now on end once `before` or `after` a step: `intent`, `save`, `cancel` or `end`."""
    left = [(side, step)]

    async def pass_by(*here: str) -> None:  # side and step
        if left == [here]:
            left.clear()
            await crash()

    class FaultyKube(KubeClient):
        async def patch_merge(
            self, resource: Resource, namespace: str, name: str, body: Object, subresource: str = ""
        ) -> Object:
            phase = (body.get("status") or {}).get("phase") if resource == SAVEPOINTS else None
            at = {"InProgress": "intent", "Completed": "end", "Failed": "end", "Abandoned": "end"}.get(phase or "", "")
            await pass_by("before", at)
            answer = await super().patch_merge(resource, namespace, name, body, subresource)
            await pass_by("after", at)
            return answer

    class FaultyGateway(GatewayClient):
        async def save(self, attempt_id: str, request: SavepointRequest) -> SavepointView:
            await pass_by("before", "save")
            view = await super().save(attempt_id, request)
            await pass_by("after", "save")
            return view

        async def cancel_save(self, attempt_id: str) -> SavepointView:
            await pass_by("before", "cancel")
            view = await super().cancel_save(attempt_id)
            await pass_by("after", "cancel")
            return view

    monkeypatch.setattr("sparksql.operator.KubeClient", FaultyKube)
    monkeypatch.setattr("sparksql.drivers.tracker.GatewayClient", FaultyGateway)
