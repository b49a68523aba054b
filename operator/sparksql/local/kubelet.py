"""Stands in for scheduler and kubelet: each driver pod is a process with a loopback address of its own.

A pod's program is started once, by its restart policy. Its status is what a kubelet would write: running once the program
runs, ready by the same probe, terminated with the exit code of the program.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp

from sparksql.kube.errors import NotFound
from sparksql.kube.resources import BY_KIND, EVENTS, PODS
from sparksql.local import pod_spec, processes
from sparksql.local.instance import Instance
from sparksql.local.store import ObjectStore

NODE = "local"
_LOOPBACK = "127.{}.{}.{}"
_ADDRESS_ATTEMPTS = 100
_START_PROBE_SECONDS = 0.05
_MOUNT_RETRY_SECONDS = 1.0
_KILLED = 137

Object = dict[str, Any]


class NoAddressError(Exception):
    """No loopback address is free for a pod."""


@dataclass
class _Pod:
    """A pod that this process runs. `tasks` are its life and its end."""

    name: str
    namespace: str
    uid: str
    address: str = ""
    process: Process | None = None
    ready: bool = False
    started_at: str = ""
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class Kubelet:
    """Runs the pods of a store, below the folders of an instance. `environment` is what all of their programs have."""

    def __init__(self, store: ObjectStore, instance: Instance, environment: Mapping[str, str]) -> None:
        self._store = store
        self._instance = instance
        self._environment = environment
        self._pods: dict[str, _Pod] = {}
        self._disrupts = False
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
        self._disrupts = True
        for pod in self._store.list(PODS).items:
            metadata = pod["metadata"]
            with suppress(NotFound):
                self._store.delete(PODS, metadata["namespace"], metadata["name"], uid=metadata["uid"])
        await asyncio.gather(*(task for pod in self._pods.values() for task in pod.tasks), return_exceptions=True)
        self._stop_watching()

    async def close(self) -> None:
        """Ends the processes that still run, at once."""
        self._stop_watching()
        for pod in self._pods.values():
            for task in pod.tasks:
                task.cancel()
            await asyncio.gather(*pod.tasks, return_exceptions=True)
            _kill(pod.process)
        if self._http is not None:
            await self._http.close()

    # --- what the store shows

    def _recover(self, obj: Object) -> None:
        """Resumes a pod of an earlier run: its process is over."""
        metadata, status = obj["metadata"], obj.get("status", {})
        if metadata.get("deletionTimestamp"):
            self._delete(metadata)
        elif obj["spec"].get("nodeName") and status.get("phase") not in ("Failed", "Succeeded"):
            started = (status.get("containerStatuses") or [{}])[0].get("state", {}).get("running", {}).get("startedAt")
            ended = {"reason": "Error", "exitCode": _KILLED, "startedAt": started, "finishedAt": _now()}
            message = {"message": "the process that ran the instance ended before the pod"}
            self._report(metadata, pod_spec.status("Failed", {"terminated": {**ended, **message}}))
        elif not obj["spec"].get("nodeName"):
            self._run(obj)

    def _observe(self, kind: str, change: str, obj: Object) -> None:
        if kind != "Pod":
            return
        metadata = obj["metadata"]
        pod = self._pods.get(metadata["uid"])
        if change == "DELETED":
            if pod is not None:
                _kill(pod.process)
        elif pod is None and not self._disrupts and not obj["spec"].get("nodeName"):
            self._run(obj)
        elif pod is not None and metadata.get("deletionTimestamp") and len(pod.tasks) == 1:
            pod.tasks.append(asyncio.create_task(self._end(pod, metadata["deletionGracePeriodSeconds"])))

    def _run(self, obj: Object) -> None:
        metadata = obj["metadata"]
        pod = _Pod(metadata["name"], metadata["namespace"], metadata["uid"])
        self._pods[pod.uid] = pod
        pod.tasks.append(asyncio.create_task(self._live(pod), name=f"pod {pod.name}"))

    # --- a pod's life

    async def _live(self, pod: _Pod) -> None:
        try:
            await self._begin(pod)
        except NotFound:
            return  # deleted meanwhile
        except (OSError, pod_spec.UnsupportedPodError, NoAddressError) as failed:
            ended = {"terminated": {"reason": "StartError", "exitCode": 128, "message": str(failed)}}
            self._report(vars(pod), pod_spec.status("Failed", ended))
            return
        assert pod.process is not None
        probing = asyncio.create_task(self._probe(pod))
        code = pod_spec.exit_code(await pod.process.wait())
        probing.cancel()
        self._report(vars(pod), self._ended(pod, code))
        with suppress(NotFound):
            if self._store.get(PODS, pod.namespace, pod.name)["metadata"].get("deletionTimestamp"):
                self._delete(vars(pod))

    async def _begin(self, pod: _Pod) -> None:
        obj = self._store.bind(pod.namespace, pod.name, NODE)
        folder = self._instance.pods / pod.uid
        volumes, work = folder / "volumes", folder / "work"
        read = self._reader(pod.namespace)
        contents = await self._mounted(pod, obj)
        for path in (folder, volumes, work, *(volumes / name for name in contents)):
            path.mkdir(mode=0o700, exist_ok=True)
        for name, files in contents.items():
            for file, content in files.items():
                _write(volumes / name / file, content)
        pod.address = _free_address(self._ports(obj))
        obj["status"] = {**obj.get("status", {}), "podIP": pod.address}
        variables = {**_own_environment(), **self._environment, **pod_spec.environment(obj, volumes, read)}
        log = self._instance.logs / f"{pod.name}.log"
        pod.process = await processes.start(pod_spec.command(obj), variables, folder, log, work)
        pod.started_at = _now()
        self._report(vars(pod), self._running(pod))

    async def _mounted(self, pod: _Pod, obj: Object) -> dict[str, dict[str, bytes]]:
        """The files of the pod's volumes, once all of their sources exist. Raises NotFound if the pod is gone."""
        is_noted = False
        while True:
            try:
                return pod_spec.files(obj, self._reader(pod.namespace))
            except NotFound as missing:
                if not is_noted:
                    self._warn(obj, "FailedMount", missing.message)
                    is_noted = True
            await asyncio.sleep(_MOUNT_RETRY_SECONDS)
            self._store.get(PODS, pod.namespace, pod.name)

    async def _end(self, pod: _Pod, grace_seconds: int) -> None:
        if pod.process is None:
            pod.tasks[0].cancel()
            self._delete(vars(pod))
            return
        if pod.process.returncode is None:
            with suppress(ProcessLookupError):
                pod.process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(pod.process.wait(), grace_seconds)
        _kill(pod.process)

    async def _probe(self, pod: _Pod) -> None:
        """Reports when the pod becomes ready or stops being so, by its readiness probe."""
        obj = self._store.get(PODS, pod.namespace, pod.name)
        probe = pod_spec.container_of(obj)["readinessProbe"]
        request, failures = probe["httpGet"], 0
        url = f"{request['scheme'].lower()}://{pod.address}:{request['port']}{request['path']}"
        while True:
            failures = 0 if await self._answers(url, probe["timeoutSeconds"]) else failures + 1
            ready = failures == 0 if not pod.ready else failures < probe["failureThreshold"]
            if ready != pod.ready:
                pod.ready = ready
                self._report(vars(pod), self._running(pod))
            await asyncio.sleep(probe["periodSeconds"] if pod.ready else _START_PROBE_SECONDS)

    async def _answers(self, url: str, seconds: float) -> bool:
        assert self._http is not None
        try:
            # As a kubelet, it does not check the certificate: it sends nothing that is secret.
            async with self._http.get(url, ssl=False, timeout=aiohttp.ClientTimeout(total=seconds)) as response:
                return 200 <= response.status < 400
        except (aiohttp.ClientError, TimeoutError):
            return False

    # --- what is reported

    def _running(self, pod: _Pod) -> Object:
        state = {"running": {"startedAt": pod.started_at}}
        return pod_spec.status("Running", state, ready=pod.ready, address=pod.address)

    def _ended(self, pod: _Pod, code: int) -> Object:
        reason = "Completed" if code == 0 else "Error"
        ended = {"reason": reason, "exitCode": code, "startedAt": pod.started_at, "finishedAt": _now()}
        phase = "Succeeded" if code == 0 else "Failed"
        return pod_spec.status(phase, {"terminated": ended}, address=pod.address, disrupted=self._disrupts)

    def _report(self, pod: Object, status: Object) -> None:
        with suppress(NotFound):  # deleted meanwhile
            self._store.patch_merge(PODS, pod["namespace"], pod["name"], {"status": status}, "status")

    def _delete(self, pod: Object) -> None:
        with suppress(NotFound):
            self._store.delete(PODS, pod["namespace"], pod["name"], uid=pod["uid"], grace_seconds=0)
        shutil.rmtree(self._instance.pods / pod["uid"], ignore_errors=True)

    def _warn(self, obj: Object, reason: str, message: str) -> None:
        metadata = obj["metadata"]
        involved = {"kind": "Pod", **{key: metadata[key] for key in ("namespace", "name", "uid")}}
        body = {
            "metadata": {"generateName": f"{metadata['name']}."},
            "type": "Warning", "reason": reason, "message": message, "involvedObject": involved,
            "firstTimestamp": _now(), "lastTimestamp": _now(), "source": {"component": "kubelet"},
        }  # fmt: skip
        self._store.create(EVENTS, metadata["namespace"], body)

    def _reader(self, namespace: str) -> pod_spec.Read:
        return lambda kind, name: self._store.get(BY_KIND[kind], namespace, name)

    @staticmethod
    def _ports(obj: Object) -> list[int]:
        return [port["containerPort"] for port in pod_spec.container_of(obj).get("ports") or ()]


def _own_environment() -> dict[str, str]:
    """The variables of this process but for those that Spark or a pod would take for theirs."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("POD_", "PYSPARK_", "SPARK_"))}


def _free_address(ports: list[int]) -> str:
    """Returns a loopback address at which all ports are free. Raises NoAddressError."""
    for _ in range(_ADDRESS_ATTEMPTS):
        address = _LOOPBACK.format(random.randint(1, 254), random.randint(0, 255), random.randint(2, 254))  # noqa: S311
        if all(_is_free(address, port) for port in ports):
            return address
    raise NoAddressError(
        "no address of 127.0.0.0/8 is free: local mode needs Linux, where all of them are the machine's own"
    )


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def _write(path: os.PathLike[str], content: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "wb") as opened:
        opened.write(content)


def _kill(process: Process | None) -> None:
    if process is not None and process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
