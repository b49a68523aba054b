"""Stands in for scheduler and kubelet: each driver pod is a process with a loopback address of its own.

A pod's program is started once, by its restart policy. Its status is what a kubelet would write: running once the program
runs, ready by the same probe, terminated with the exit code of the program.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import aiohttp

from sparksql.kube.errors import NotFound
from sparksql.kube.resources import PODS
from sparksql.local.instance import Instance
from sparksql.local.objects.store import ObjectStore
from sparksql.local.pods import processes
from sparksql.local.pods.pod_run import PodRun
from sparksql.local.pods.reports import reports_of

_KILLED = 137
_ENDED_WITH_INSTANCE = "the process that ran the instance ended before the pod"

Object = dict[str, Any]


class Kubelet:
    """Runs the pods of a store, below the folders of an instance. `environment` is what all of their programs have."""

    def __init__(self, store: ObjectStore, instance: Instance, environment: Mapping[str, str]) -> None:
        self._store = store
        self._instance = instance
        self._environment = environment
        self._runs: dict[str, PodRun] = {}
        self._is_stopping = False
        self._stop_watching: Callable[[], None] = lambda: None
        self._http: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Ends what an earlier run left, reports it, and runs pods from now on. Raises StillRunningError."""
        await asyncio.to_thread(processes.end_left_over, self._instance.pods)
        self._http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))
        self._stop_watching = self._store.watch(self._observe)
        for pod in self._store.list(PODS).items:
            self._recover(pod)
        known = {pod["metadata"]["uid"] for pod in self._store.list(PODS).items}
        for folder in self._instance.pods.iterdir():
            if folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)

    async def stop(self) -> None:
        """Ends all pods as a node that is drained does: they receive SIGTERM, get their grace periods, and are deleted."""
        self._is_stopping = True
        for run in self._runs.values():
            run.disrupted = True
        for pod in self._store.list(PODS).items:
            metadata = pod["metadata"]
            with suppress(NotFound):
                self._store.delete(PODS, metadata["namespace"], metadata["name"], uid=metadata["uid"])
        await asyncio.gather(*(run.wait() for run in self._runs.values()))
        self._stop_watching()

    async def close(self) -> None:
        """Ends the processes that still run, at once."""
        self._stop_watching()
        await asyncio.gather(*(run.cancel() for run in self._runs.values()))
        if self._http is not None:
            await self._http.close()

    def _recover(self, obj: Object) -> None:
        """Resumes a pod of an earlier run: its process is over."""
        reports, status = reports_of(self._store, obj), obj.get("status", {})
        if obj["metadata"].get("deletionTimestamp"):
            reports.confirm_deletion()
        elif not obj["spec"].get("nodeName"):
            self._run(obj)
        elif status.get("phase") not in ("Failed", "Succeeded"):
            state = (status.get("containerStatuses") or [{}])[0].get("state", {})
            started = state.get("running", {}).get("startedAt")
            reports.ended(_KILLED, started, status.get("podIP"), message=_ENDED_WITH_INSTANCE)

    def _observe(self, kind: str, change: str, obj: Object) -> None:
        if kind != "Pod":
            return
        metadata = obj["metadata"]
        run = self._runs.get(metadata["uid"])
        if run is None:
            if change == "ADDED" and not self._is_stopping:
                self._run(obj)
        elif change == "DELETED":
            run.kill()
        elif metadata.get("deletionTimestamp"):
            run.end(metadata["deletionGracePeriodSeconds"])

    def _run(self, obj: Object) -> None:
        assert self._http is not None
        reports = reports_of(self._store, obj)
        self._runs[reports.uid] = PodRun(reports, self._instance, self._environment, self._http)
