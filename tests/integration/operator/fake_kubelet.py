"""Scheduler and kubelet for driver pods: each gets a loopback address of its own and a fake gateway behind it.

A pod is bound to a node that does not exist, so that the API server honours its grace period. What a session's pods do is
said by a `Plan`; without one they start, become ready and end gracefully.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sparksql.api.names import DRIVER_APP_NAME, LABEL_NAME, LABEL_SESSION
from sparksql.kube.client import KubeClient
from sparksql.kube.errors import Conflict, NotFound
from sparksql.kube.resources import EVENTS, PODS, SECRETS, Resource
from sparksql.wire import driver as wire
from sparksql.wire.driver import DriverConfig
from tests.integration.operator.fake_gateway import FakeGateway, Ledger
from tests.support.watching import INTERRUPTIONS, Watcher

Object = dict[str, Any]
NODE = "node-1"
CONTAINER = "spark"
START_ATTEMPTS = 20


@dataclass(frozen=True)
class Plan:
    """What happens to a session's pods; seconds are real ones."""

    unschedulable: bool = False
    image_problem: bool = False
    volume_problem: bool = False  # the kubelet tells of it in an Event alone
    never_ready: bool = False
    exits_at_start: bool = False
    init_failure: str | None = None
    drain_seconds: float = 0.0
    lingers_seconds: float = 0.0  # how long an ended pod is still there
    ignores_sigterm: bool = False  # killed after its grace period
    node_dead: bool = False  # nobody ends the pod


class FakeKubelet:
    """Runs the driver pods of `namespace`. `gateways` holds those that live, by pod name; `started` all pods ever."""

    def __init__(self, client: KubeClient, watcher: Watcher, namespace: str) -> None:
        self.namespace = namespace
        self.ledger = Ledger()
        self.plans: dict[str, Plan] = {}
        self.drivers: dict[str, FakeGateway] = {}
        self.started: list[str] = []
        self._evicted: set[str] = set()
        self._client = client
        self._watcher = watcher
        self._pods: dict[str, Object] = {}
        self._seen: set[str] = set()
        self._ending: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._folder = tempfile.TemporaryDirectory()

    @contextlib.asynccontextmanager
    async def running(self) -> Any:
        watching = asyncio.create_task(self._watch(), name="fake kubelet")
        try:
            yield self
        finally:
            for task in (watching, *self._tasks):
                task.cancel()
            ended = await asyncio.gather(watching, *self._tasks, return_exceptions=True)
            for gateway in self.drivers.values():
                await gateway.kill()
            self._folder.cleanup()
            for error in ended:
                if isinstance(error, Exception):
                    raise error

    def pod_of(self, session: str) -> str:
        """Name of the newest pod of a session that the API server still has."""
        names = [n for n, p in self._pods.items() if p["metadata"]["labels"].get(LABEL_SESSION) == session]
        assert names, f"no pod of session {session}; pods: {list(self._pods)}"
        return names[-1]

    def gateway_of(self, session: str) -> FakeGateway:
        return self.drivers[self.pod_of(session)]

    async def crash_driver(self, session: str) -> None:
        """The driver process dies: its pod stays, in phase Failed."""
        pod = self._pods[self.pod_of(session)]
        await self._exit(pod, "OOMKilled", 137)

    async def remove_pod(self, session: str) -> None:
        """The driver dies and its pod is gone at once."""
        pod = self._pods[self.pod_of(session)]
        self._ending.add(pod["metadata"]["uid"])
        await self._kill_gateway(pod["metadata"]["name"])
        await self._client.delete(PODS, self.namespace, pod["metadata"]["name"], grace_seconds=0)

    async def delete_driver(self, session: str) -> None:
        """A user deletes the driver's pod, which ends within its grace period."""
        await self._client.delete(PODS, self.namespace, self.pod_of(session))

    async def evict_driver(self, session: str) -> None:
        """The cluster takes the driver's pod away, as from a node that is drained: it says so and deletes the pod."""
        pod = self._pods[self.pod_of(session)]
        self._evicted.add(pod["metadata"]["uid"])
        await self._report(pod, conditions=self._conditions(pod))
        await self._client.delete(PODS, self.namespace, pod["metadata"]["name"])

    # --- watch

    async def _watch(self) -> None:
        selector = f"{LABEL_NAME}={DRIVER_APP_NAME}"
        while True:
            listed, version = await self._watcher.list(PODS, self.namespace, label_selector=selector)
            for pod in listed:
                self._take("MODIFIED", pod)
            with contextlib.suppress(*INTERRUPTIONS):
                async for change, pod in self._watcher.watch(
                    PODS, self.namespace, resource_version=version, label_selector=selector
                ):
                    self._take(change, pod)

    def _take(self, change: str, pod: Object) -> None:
        meta = pod["metadata"]
        if change == "DELETED":
            self._pods.pop(meta["name"], None)
            self._spawn(self._kill_gateway(meta["name"]))
            return
        self._pods[meta["name"]] = pod
        if meta["uid"] not in self._seen and not pod["spec"].get("schedulingGates"):
            self._seen.add(meta["uid"])
            self.started.append(meta["name"])
            self._spawn(self._start(pod))
        if meta.get("deletionTimestamp") and meta["uid"] not in self._ending:
            self._ending.add(meta["uid"])
            self._spawn(self._terminate(pod))

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(self._tolerant(work))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def _tolerant(self, work: Any) -> None:
        with contextlib.suppress(NotFound, Conflict):  # the pod went away meanwhile
            await work

    def _done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            self._tasks.discard(task)

    # --- start

    def _plan(self, pod: Object) -> Plan:
        return self.plans.get(pod["metadata"]["labels"].get(LABEL_SESSION, ""), Plan())

    async def _start(self, pod: Object) -> None:
        plan, name = self._plan(pod), pod["metadata"]["name"]
        if plan.unschedulable:
            message = "0/1 nodes are available: 1 Insufficient cpu."
            await self._report(pod, conditions=[_condition("PodScheduled", "False", "Unschedulable", message)])
            return
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": NODE}}
        await self._client.create(Resource("", "v1", f"pods/{name}/binding"), self.namespace, binding)
        if plan.image_problem:
            waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
            await self._report(pod, containerStatuses=[_container({"waiting": waiting})])
            return
        if plan.volume_problem:
            await self._tell(pod, "FailedMount", 'MountVolume.SetUp failed for volume "keys" : secret "keys" not found')
            return
        if plan.exits_at_start:
            await self._exit(pod, "Error", 1)
            return
        gateway = await self._start_gateway(pod, plan)
        ready = not plan.never_ready and plan.init_failure is None
        running = _container({"running": {"startedAt": _now()}}, ready=ready)
        conditions = [_condition("Ready", "True" if ready else "False")]
        await self._report(
            pod, phase="Running", podIP=gateway.host, podIPs=[{"ip": gateway.host}], containerStatuses=[running],
            conditions=conditions,
        )  # fmt: skip

    async def _tell(self, pod: Object, reason: str, message: str) -> None:
        metadata = pod["metadata"]
        involved = {"kind": "Pod", "namespace": self.namespace, "name": metadata["name"], "uid": metadata["uid"]}
        body = {
            "apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "kubelet-"}, "type": "Warning",
            "reason": reason, "message": message, "involvedObject": involved, "lastTimestamp": _now(),
        }  # fmt: skip
        await self._client.create(EVENTS, self.namespace, body)

    async def _start_gateway(self, pod: Object, plan: Plan) -> FakeGateway:
        files = await self._secret_files(pod)
        env = {e["name"]: e.get("value") for e in pod["spec"]["containers"][0]["env"]}
        assert env[wire.CONFIG_HASH_ENV] == wire.config_hash(files[wire.CONFIG_FILE])
        config = DriverConfig.model_validate_json(files[wire.CONFIG_FILE])
        tls = self._tls(files[wire.TLS_CERT_FILE], files[wire.TLS_KEY_FILE])
        for _ in range(START_ATTEMPTS):
            host = f"127.{random.randint(1, 250)}.{random.randint(0, 250)}.{random.randint(2, 250)}"
            gateway = FakeGateway(
                pod["metadata"]["name"], host, config, files[wire.TOKEN_FILE], self.ledger, plan.init_failure
            )
            try:
                await gateway.start(tls, becomes_ready=not plan.never_ready)
            except OSError:  # another test run has this address
                await gateway.kill()
                continue
            self.drivers[pod["metadata"]["name"]] = gateway
            return gateway
        raise AssertionError("no free loopback address")

    async def _secret_files(self, pod: Object) -> dict[str, str]:
        """What the pod's init container copies. As a real one, the pod does not start while one of its Secrets is missing."""
        [volume] = [volume for volume in pod["spec"]["volumes"] if "projected" in volume]
        data: dict[str, str] = {}
        for source in volume["projected"]["sources"]:
            data |= (await self._client.get(SECRETS, self.namespace, source["secret"]["name"]))["data"]
        return {file: base64.b64decode(content).decode("latin-1") for file, content in data.items()}

    def _tls(self, cert: str, key: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        cert_file, key_file = Path(self._folder.name, "tls.crt"), Path(self._folder.name, "tls.key")
        cert_file.write_text(cert)
        key_file.write_text(key)
        context.load_cert_chain(cert_file, key_file)
        return context

    # --- end

    async def _terminate(self, pod: Object) -> None:
        plan, meta = self._plan(pod), pod["metadata"]
        if plan.node_dead:
            return
        gateway = self.drivers.get(meta["name"])
        if plan.ignores_sigterm:
            await asyncio.sleep(meta.get("deletionGracePeriodSeconds", 0))
        elif gateway is not None:
            await gateway.drain(plan.drain_seconds)
        await self._exit(pod, "Completed", 0)
        await asyncio.sleep(plan.lingers_seconds)
        await self._client.delete(PODS, self.namespace, meta["name"], uid=meta["uid"], grace_seconds=0)

    async def _exit(self, pod: Object, reason: str, code: int) -> None:
        await self._kill_gateway(pod["metadata"]["name"])
        ended = {"terminated": {"reason": reason, "exitCode": code, "finishedAt": _now()}}
        await self._report(
            pod,
            phase="Succeeded" if code == 0 else "Failed",
            containerStatuses=[_container(ended)],
            conditions=self._conditions(pod),
        )

    def _conditions(self, pod: Object) -> list[Object]:
        """Those of a pod that ends."""
        is_evicted = pod["metadata"]["uid"] in self._evicted
        evicted = [_condition("DisruptionTarget", "True", "EvictionByEvictionAPI")] if is_evicted else []
        return [_condition("Ready", "False"), *evicted]

    async def _kill_gateway(self, name: str) -> None:
        gateway = self.drivers.pop(name, None)
        if gateway is not None:
            await gateway.kill()

    async def _report(self, pod: Object, **status: Any) -> None:
        meta = pod["metadata"]
        await self._client.patch_merge(PODS, self.namespace, meta["name"], {"status": status}, subresource="status")


def _condition(type_: str, status: str, reason: str = "", message: str = "") -> Object:
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": _now()}


def _container(state: Object, ready: bool = False) -> Object:
    return {
        "name": CONTAINER, "image": "session:1", "imageID": "", "ready": ready, "restartCount": 0, "state": state,
        "started": ready,
    }  # fmt: skip


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
