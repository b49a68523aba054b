"""Watches statements and sessions from outside, as a user would, and holds what it saw against the contract.

The tables below are written from the contract, not taken from the code under test.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from typing import Any

from sparksql.kube.resources import SESSIONS, STATEMENTS, Resource
from tests.support.watching import INTERRUPTIONS, Watcher

Object = dict[str, Any]
ENDED = {"Finished", "Canceled", "Closed", "Error", "TimedOut"}
FORWARD = {
    "Initialized": {"Initialized", "Pending", "Running", *ENDED},
    "Pending": {"Pending", "Running", *ENDED},
    "Running": {"Running", *ENDED},
}
STATEMENT_CONDITIONS = {  # Ready, Reconciling, Stalled, Succeeded, Finished
    "Initialized": ("False", "True", "False", "Unknown", "False"),
    "Pending": ("False", "True", "False", "Unknown", "False"),
    "Running": ("False", "True", "False", "Unknown", "False"),
    "Finished": ("True", "False", "False", "True", "True"),
    "Canceled": ("True", "False", "False", "False", "True"),  # by wish, as all that these tests cancel
    "Closed": ("False", "False", "True", "False", "True"),
    "Error": ("False", "False", "True", "False", "True"),
    "TimedOut": ("False", "False", "True", "False", "True"),
}
SESSION_CONDITIONS = {  # Ready, Reconciling, Stalled; None where the reason decides
    "Pending": ("False", "True", None),
    "Starting": ("False", "True", None),
    "Draining": ("False", "True", None),
    "Ready": ("True", "False", "False"),
    "Hibernated": ("True", "False", "False"),
    "Stopped": ("True", "False", "False"),
    "Closed": ("True", "False", "False"),
    "Failed": ("False", "False", "True"),
}
NEEDS_A_PERSON = {"ClassNotFound", "NotAllowed", "LimitExceeded", "StorageNotReady", "NotImplemented", "InvalidSpec"}
STORY_LINES = 30
TYPES = ("Ready", "Reconciling", "Stalled", "Succeeded", "Finished")


def condition(obj: Object, type_: str) -> str | None:
    return next((c["status"] for c in obj.get("status", {}).get("conditions", ()) if c["type"] == type_), None)


class ContractMonitor:
    """Every version of every statement and session of a namespace that a watch shows."""

    def __init__(self, watcher: Watcher, namespace: str) -> None:
        self._watcher = watcher
        self._namespace = namespace
        self._seen: dict[tuple[str, str, str], list[Object]] = defaultdict(list)  # plural, name, uid
        self._latest: dict[tuple[str, str], Object] = {}
        self._bare: list[str] = []  # living objects that lost the finalizer
        self._news = asyncio.Event()

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._watch(resource)) for resource in (STATEMENTS, SESSIONS)]
        try:
            yield
        finally:
            blind = [task for task in tasks if task.done()]  # each watches until it is cancelled
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for task in blind:
                task.result()  # raises why

    async def _watch(self, resource: Resource) -> None:
        listed, version = await self._watcher.list(resource, self._namespace)
        for obj in listed:
            self._note(resource, "ADDED", obj)
        while True:
            with contextlib.suppress(*INTERRUPTIONS):
                async for change, obj in self._watcher.watch(resource, self._namespace, resource_version=version):
                    self._note(resource, change, obj)
                    version = obj["metadata"]["resourceVersion"]
                    await asyncio.sleep(0)  # of several that have come at once, who waits for one must see each

    def _note(self, resource: Resource, change: str, obj: Object) -> None:
        meta = obj["metadata"]
        before = self._latest.get((resource.plural, meta["name"]), {"metadata": {"uid": ""}})["metadata"]
        lost = set(before.get("finalizers", ())) - set(meta.get("finalizers", ()))
        if before["uid"] == meta["uid"] and lost and not meta.get("deletionTimestamp"):
            self._bare.append(f"{resource.plural} {meta['name']}: lost {lost} while it lives")
        if change == "DELETED":
            self._latest.pop((resource.plural, meta["name"]), None)
        else:
            self._seen[resource.plural, meta["name"], meta["uid"]].append(obj)
            self._latest[resource.plural, meta["name"]] = obj
        self._news.set()
        self._news = asyncio.Event()

    def latest(self, resource: Resource, name: str) -> Object | None:
        """The object as last seen, None while it does not exist."""
        return self._latest.get((resource.plural, name))

    async def news(self) -> None:
        """Returns when something has changed since the call."""
        await self._news.wait()

    def phases(self, name: str) -> list[str]:
        """Phases of a statement in the order seen, without repeats."""
        found: list[str] = []
        for (plural, seen_name, _), versions in self._seen.items():
            if plural == STATEMENTS.plural and seen_name == name:
                for obj in versions:
                    phase = obj.get("status", {}).get("phase")
                    if phase and (not found or found[-1] != phase):
                        found.append(phase)
        return found

    def writes(self, name: str) -> int:
        return sum(len(v) for (_, seen_name, _), v in self._seen.items() if seen_name == name)

    def story(self) -> str:
        """What happened, for the message of a failed test."""
        lines = []
        for (plural, name, _), versions in self._seen.items():
            told = [_summary(obj) for obj in versions]
            steps = [step for i, step in enumerate(told) if i == 0 or step != told[i - 1]]
            lines.append(f"{plural} {name}: " + " -> ".join(steps[-12:]))
        return "\n".join(lines[:STORY_LINES])

    def verify(self) -> None:
        """Raises AssertionError for everything that the contract does not allow."""
        wrong = [*self._bare]
        wrong += [
            f"{plural} {name}: {fault}: {_summary({'status': before})} -> {_summary({'status': after})}"
            for (plural, name, _), versions in self._seen.items()
            for before, after in pairwise([{}, *(obj.get("status", {}) for obj in versions)])
            for fault in (_statement_faults if plural == STATEMENTS.plural else _session_faults)(before, after)
        ]
        assert not wrong, "\n".join([*wrong, self.story()])


def _statement_faults(before: Object, after: Object) -> Iterator[str]:
    if not _is_legal(before, after):
        yield "illegal transition"
    if not _statement_conditions(after):
        yield "wrong conditions"


def _session_faults(before: Object, after: Object) -> Iterator[str]:
    if not _session_conditions(after):
        yield "wrong conditions"
    if _incarnation(before) > _incarnation(after):
        yield "the incarnation went back"
    if before.get("phase") == "Closed" and after.get("phase") not in ("Closed", "Draining"):
        yield "Closed is final"


def _is_legal(before: Object, after: Object) -> bool:
    old, new = before.get("phase"), after.get("phase")
    if old is None:
        return True
    if new is None:
        return False
    if before.get("run") != after.get("run"):
        return old in ENDED and after["run"] == before["run"] + 1
    if before.get("attempt") != after.get("attempt"):
        # A watcher may miss phases, so the new attempt may have gone on already.
        return old in ("Pending", "Running") and after["attempt"] > before["attempt"]
    if old in ENDED:
        return bool(old == new and _without_times(before) == _without_times(after))
    return new in FORWARD[old]


def _without_times(status: Object) -> Object:
    """An ended status may still follow the object's generation, nothing else."""
    dropped = ("observedGeneration", "conditions")
    return {key: value for key, value in status.items() if key not in dropped}


def _statement_conditions(status: Object) -> bool:
    phase = status.get("phase")
    if phase is None:
        return True
    return tuple(condition({"status": status}, t) for t in TYPES) == STATEMENT_CONDITIONS[phase]


def _session_conditions(status: Object) -> bool:
    phase = status.get("phase")
    if phase is None:
        return True
    ready, reconciling, stalled = (condition({"status": status}, t) for t in TYPES[:3])
    wanted = SESSION_CONDITIONS[phase]
    reason = next(c["reason"] for c in status["conditions"] if c["type"] == "Ready")
    if (ready, reconciling) != wanted[:2]:
        return False
    if wanted[2] is not None:
        return stalled == wanted[2]
    return reason not in NEEDS_A_PERSON or stalled == "True"


def _incarnation(status: Object) -> int:
    return int(status.get("driver", {}).get("incarnation", 0))


def _summary(obj: Object) -> str:
    status = obj.get("status", {})
    reason = next((c["reason"] for c in status.get("conditions", ()) if c["type"] == "Ready"), "")
    message = next((c.get("message", "") for c in status.get("conditions", ()) if c["type"] == "Ready"), "")
    run = f" run {status['run']}.{status['attempt']}" if "run" in status else ""
    return f"{status.get('phase')}/{reason}{run} ({message[:60]})"
