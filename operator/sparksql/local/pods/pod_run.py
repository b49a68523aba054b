"""The life of one pod: its files, its program, its probe, its end."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
from asyncio.subprocess import Process
from collections.abc import Mapping
from contextlib import suppress

import aiohttp

from sparksql.kube.errors import NotFound
from sparksql.local.instance import Instance
from sparksql.local.pods import pod_spec, processes
from sparksql.local.pods.reports import PodReports, now

NODE = "local"
_LOOPBACK = "127.{}.{}.{}"
_ADDRESS_ATTEMPTS = 100
_START_PROBE_SECONDS = 0.05
_MOUNT_RETRY_SECONDS = 1.0
_START_ERROR = 128  # as container runtimes report a program that cannot be started


class NoAddressError(Exception):
    """No loopback address is free for a pod."""


class PodRun:
    """Runs one pod from now on. `environment` is what all programs have; `disrupted` is set before an end in order."""

    def __init__(
        self, reports: PodReports, instance: Instance, environment: Mapping[str, str], http: aiohttp.ClientSession
    ) -> None:
        self.disrupted = False
        self._reports = reports
        self._instance = instance
        self._environment = environment
        self._http = http
        self._address: str | None = None
        self._process: Process | None = None
        self._started = ""
        self._life = asyncio.create_task(self._live(), name=f"pod {reports.name}")
        self._end: asyncio.Task[None] | None = None

    def end(self, grace_seconds: int) -> None:
        """Begins to end the program: SIGTERM, and SIGKILL after the grace period. Repeatable."""
        if self._end is None:
            self._end = asyncio.create_task(self._terminate(grace_seconds))

    def kill(self) -> None:
        """Ends the program at once."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def wait(self) -> None:
        """Waits until the pod is over."""
        await asyncio.gather(*filter(None, (self._life, self._end)), return_exceptions=True)

    async def cancel(self) -> None:
        """Ends the program and everything that is done for the pod."""
        self.kill()
        for task in filter(None, (self._life, self._end)):
            task.cancel()
        await self.wait()

    async def _live(self) -> None:
        try:
            process, obj = await self._begin()
        except NotFound:
            return  # deleted meanwhile
        except (OSError, pod_spec.UnsupportedPodError, NoAddressError) as failed:
            self._reports.ended(_START_ERROR, None, None, message=str(failed))
            return
        probing = asyncio.create_task(self._probe(obj))
        code = pod_spec.exit_code(await process.wait())
        probing.cancel()
        self._reports.ended(code, self._started, self._address, disrupted=self.disrupted)
        with suppress(NotFound):
            if self._reports.pod()["metadata"].get("deletionTimestamp"):
                self._remove()

    async def _begin(self) -> tuple[Process, pod_spec.Object]:
        obj = self._reports.bind(NODE)
        folder = self._instance.pods / self._reports.uid
        volumes, work = folder / "volumes", folder / "work"
        contents = await self._mounted(obj)
        for path in (folder, volumes, work, *(volumes / name for name in contents)):
            path.mkdir(mode=0o700, exist_ok=True)
        for name, files in contents.items():
            for file, content in files.items():
                _write(volumes / name / file, content)
        ports = [port["containerPort"] for port in pod_spec.container_of(obj).get("ports") or ()]
        self._address = _free_address(ports)
        obj["status"] = {**obj.get("status", {}), "podIP": self._address}
        own = pod_spec.environment(obj, volumes, self._reports.read)
        log = self._instance.logs / f"{self._reports.name}.log"
        variables = {**_own_environment(), **self._environment, **own}
        self._process = await processes.start(pod_spec.command(obj), variables, folder, log, work)
        self._started = now()
        self._reports.running(self._started, self._address, ready=False)
        return self._process, obj

    async def _mounted(self, obj: pod_spec.Object) -> dict[str, dict[str, bytes]]:
        """The files of the pod's volumes, once all of their sources exist. Raises NotFound if the pod is gone."""
        is_noted = False
        while True:
            try:
                return pod_spec.files(obj, self._reports.read)
            except NotFound as missing:
                if not is_noted:
                    self._reports.warn("FailedMount", missing.message)
                    is_noted = True
            await asyncio.sleep(_MOUNT_RETRY_SECONDS)
            self._reports.pod()

    async def _terminate(self, grace_seconds: int) -> None:
        if self._process is None:
            self._life.cancel()
            self._remove()
            return
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), grace_seconds)
        self.kill()

    async def _probe(self, obj: pod_spec.Object) -> None:
        """Reports when the pod becomes ready or stops being so, by its readiness probe."""
        probe = pod_spec.container_of(obj)["readinessProbe"]
        request, failures, was_ready = probe["httpGet"], 0, False
        assert self._address is not None
        url = f"{request['scheme'].lower()}://{self._address}:{request['port']}{request['path']}"
        while True:
            failures = 0 if await self._answers(url, probe["timeoutSeconds"]) else failures + 1
            ready = failures < probe["failureThreshold"] if was_ready else failures == 0
            if ready != was_ready:
                was_ready = ready
                self._reports.running(self._started, self._address, ready=ready)
            await asyncio.sleep(probe["periodSeconds"] if ready else _START_PROBE_SECONDS)

    async def _answers(self, url: str, seconds: float) -> bool:
        try:
            # As a kubelet, it does not check the certificate: it sends nothing that is secret.
            async with self._http.get(url, ssl=False, timeout=aiohttp.ClientTimeout(total=seconds)) as response:
                return 200 <= response.status < 400
        except (aiohttp.ClientError, TimeoutError):
            return False

    def _remove(self) -> None:
        self._reports.confirm_deletion()
        shutil.rmtree(self._instance.pods / self._reports.uid, ignore_errors=True)


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
