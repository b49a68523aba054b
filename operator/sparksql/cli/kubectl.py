"""Every access to the API server goes through the user's own `kubectl`.

So contexts, exec credential plugins and rights are the user's, and the plugin holds no credentials. Invariants:
commands are argument arrays and never see a shell; object data goes by standard input; no child outlives the call that
started it.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from sparksql.cli.cells import printable
from sparksql.cli.errors import CliError

MAX_LINE_BYTES = 16 * 1024 * 1024  # an object is at most etcd's 1.5 MiB, more once JSON escapes it
WATCH_SECONDS = 60
_ERROR = re.compile(
    r"error\b|unable to |the connection |the \w+ \".*\" is invalid", re.IGNORECASE
)  # how kubectl begins the text of a failure
# How kubectl begins the text of an API server's answer (CheckErr in k8s.io/kubectl of Kubernetes 1.34): with its reason.
_ANSWER = re.compile(r"Error from server \((\w+)\):|error: You must be logged in to the server \((\w+)\)")
_KLOG = re.compile(r"[IWEF]\d{4} \d\d:")  # client library's log lines: the error follows in plain words


class KubectlError(CliError):
    """kubectl ended with an error; the message is its own."""

    @property
    def is_not_found(self) -> bool:
        """Tells whether the object, or its whole resource, does not exist."""
        return self._answer == "NotFound"

    @property
    def is_forbidden(self) -> bool:
        """Tells whether the user may not do this, or is not known to the cluster."""
        return self._answer in ("Forbidden", "Unauthorized")

    @property
    def _answer(self) -> str | None:
        """Reason of the API server's Status, None if it is no answer of its. The rest of the text may quote anything."""
        found = _ANSWER.match(str(self))
        return found and (found[1] or found[2])


class Child:
    """A running kubectl. Warnings and log-in prompts of credential plugins are shown at once, errors are kept."""

    def __init__(self, process: Process, arguments: tuple[str, ...]) -> None:
        self.process = process
        self._verb = arguments[0]
        self._errors: list[str] = []
        self._reader = asyncio.create_task(self._read_errors())

    async def _read_errors(self) -> None:
        assert self.process.stderr is not None
        async for raw in self.process.stderr:
            line = raw.decode(errors="replace").rstrip("\n")
            if not line or _KLOG.match(line):
                continue
            if self._errors or _ERROR.match(line):
                self._errors.append(line)
            else:
                print(printable(line), file=sys.stderr)

    async def lines(self) -> AsyncGenerator[str, None]:
        """Lines of standard output as they come, without their end."""
        assert self.process.stdout is not None
        async for raw in self.process.stdout:
            yield raw.decode(errors="replace").rstrip("\n")

    async def finish(self) -> None:
        """Waits for the end; raises KubectlError unless it was a good one."""
        code = await self.process.wait()
        await self._reader
        if code != 0:
            raise KubectlError("\n".join(self._errors) or f"kubectl {self._verb} ended with code {code}")

    async def stop(self) -> None:
        """Ends kubectl if it still runs, and waits for it."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.terminate()
            await self.process.wait()
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)


@dataclass(frozen=True)
class Kubectl:
    """`flags` go with every command (context, kubeconfig); `namespace` None is that of the context."""

    flags: tuple[str, ...] = ()
    namespace: str | None = None
    program: str = "kubectl"

    @asynccontextmanager
    async def start(self, *arguments: str, namespace: str | None = None, stdin: bool = False) -> AsyncIterator[Child]:
        """A child that is stopped when the block is left.

        One that is given data makes objects: a Ctrl-C typed on the terminal reaches all of its processes, and must not
        leave it open whether the object was made. Such a child ignores it; the plugin itself decides what it means.
        """
        chosen = namespace or self.namespace
        scope = () if chosen is None else (f"--namespace={chosen}",)
        try:
            process = await asyncio.create_subprocess_exec(
                self.program, *self.flags, *scope, *arguments,
                stdin=PIPE if stdin else None, stdout=PIPE, stderr=PIPE, limit=MAX_LINE_BYTES,
                preexec_fn=_ignore_interrupts if stdin else None,
            )  # fmt: skip
        except FileNotFoundError:
            raise CliError(f"{self.program} is not on the PATH: the plugin needs it to reach the cluster") from None
        child = Child(process, arguments)
        try:
            yield child
        finally:
            await child.stop()

    async def run(self, *arguments: str, namespace: str | None = None, data: str | None = None) -> str:
        """Standard output of a command that ends by itself; `data` is its standard input."""
        async with self.start(*arguments, namespace=namespace, stdin=data is not None) as child:
            process = child.process
            assert process.stdout is not None
            if process.stdin is not None and data is not None:
                process.stdin.write(data.encode())
                with suppress(BrokenPipeError, ConnectionResetError):  # it ended early: `finish` says why
                    await process.stdin.drain()
                process.stdin.close()
            output = await process.stdout.read()
            await child.finish()
            return output.decode()

    async def get(self, resource: str, name: str, namespace: str | None = None) -> dict[str, Any]:
        """Returns one object. Raises KubectlError, with `is_not_found` if there is none."""
        text = await self.run("get", resource, name, "--output=json", namespace=namespace)
        return next(iter(documents(text)))

    async def create(self, manifest: str) -> list[dict[str, Any]]:
        """Creates the objects of a manifest and returns them."""
        return documents(await self.run("create", "--filename=-", "--output=json", data=manifest))

    async def parsed(self, manifest: str) -> list[dict[str, Any]]:
        """Returns the objects of a manifest as `create` would send them; creates nothing."""
        return documents(await self.run("create", "--filename=-", "--dry-run=client", "--output=json", data=manifest))

    async def list(self, resource: str, namespace: str | None = None, field_selector: str = "") -> list[dict[str, Any]]:
        """Returns all objects of the namespace that the field selector names, all without one."""
        selector = (f"--field-selector={field_selector}",) if field_selector else ()
        return documents(await self.run("get", resource, *selector, "--output=json", namespace=namespace))

    async def patch(self, resource: str, name: str, body: dict[str, Any], namespace: str) -> None:
        """Writes a JSON merge patch. Raises KubectlError."""
        await self.run("patch", resource, name, "--type=merge", f"--patch={json.dumps(body)}", namespace=namespace)

    async def logs(self, pod: str, namespace: str | None, *, follow: bool) -> AsyncGenerator[str, None]:
        """Lines of a pod's log, with `follow` until the pod ends. Raises KubectlError."""
        arguments = ("logs", f"pod/{pod}", *(("--follow",) if follow else ()))
        async with self.start(*arguments, namespace=namespace) as child:
            async with aclosing(child.lines()) as lines:
                async for line in lines:
                    yield line
            await child.finish()

    async def watch(self, resource: str, name: str, namespace: str) -> AsyncGenerator[dict[str, Any], None]:
        """Watch events (`type`, `object`) of one object for at most a minute, the first with its present state.

        It lists with a field selector: kubectl's watch of a single name drops the watch's first event, and with it a
        change made between its read and its watch. An object already gone therefore shows as no event at all.
        """
        async with self.start(
            "get", resource, f"--field-selector=metadata.name={name}", "--watch", "--output-watch-events",
            "--output=json", f"--request-timeout={WATCH_SECONDS}s", namespace=namespace,
        ) as child:  # fmt: skip
            async with aclosing(child.lines()) as lines:
                async for line in lines:
                    yield json.loads(line)
            await child.finish()


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def documents(text: str) -> list[dict[str, Any]]:
    """Returns the objects of `-o json` output: kubectl prints them one after the other or as a List."""
    decoder = json.JSONDecoder()
    objects: list[dict[str, Any]] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        document, position = decoder.raw_decode(text, position)
        objects += document["items"] if document.get("kind") == "List" else [document]
    return objects
