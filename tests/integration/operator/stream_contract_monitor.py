"""The monitor of streaming statements: further ways than those of batch, and a checkpoint that stays.

The tables below are written from the contract, not taken from the code under test.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tests.integration.operator.contract_monitor import ENDED, TYPES, ContractMonitor, condition

Object = dict[str, Any]
ABNORMAL = ENDED - {"Finished"}
FORWARD = {
    "Initialized": {"Initialized", "Pending", "Stopped", *ABNORMAL},
    "Pending": {"Pending", "Running", "Stopped", *ENDED},
    "Running": {"Running", "Stopped", *ENDED},
    "Stopped": {"Stopped", *ABNORMAL},
}
WAITS = ("False", "True", "False", "Unknown", "False")  # Ready, Reconciling, Stalled, Succeeded, Finished
CONDITIONS = {
    "Initialized": {WAITS},
    "Pending": {WAITS},
    "Running": {
        WAITS,
        ("True", "False", "False", "Unknown", "False"),
        ("False", "False", "True", "Unknown", "False"),  # as it was before a change that is refused
    },
    "Stopped": {WAITS, ("True", "False", "False", "Unknown", "False"), ("False", "False", "True", "Unknown", "False")},
    "Finished": {("True", "False", "False", "True", "True")},
    "Canceled": {("True", "False", "False", "False", "True")},
    **{phase: {("False", "False", "True", "False", "True")} for phase in ("Closed", "Error", "TimedOut")},
}


def is_stream(obj: Object) -> bool:
    spec = obj["spec"]
    return spec.get("streaming") is not None and spec.get("mode", "Execute") == "Execute"


class StreamContractMonitor(ContractMonitor):
    """Holds streaming statements against the contract for them, everything else as `ContractMonitor` does."""

    def verify(self) -> None:
        everything = self._seen
        streams = {key: versions for key, versions in everything.items() if is_stream(versions[-1])}
        self._seen = {key: versions for key, versions in everything.items() if key not in streams}  # type: ignore[assignment]
        try:
            super().verify()
        finally:
            self._seen = everything
        wrong = [
            f"{name}: {fault}: {before.get('phase')} {before.get('streaming')} -> {after.get('phase')} {after.get('streaming')}"
            for (_, name, _), versions in streams.items()
            for before, after in pairwise([{}, *(obj.get("status", {}) for obj in versions)])
            for fault in _faults(before, after)
        ]
        assert not wrong, "\n".join([*wrong, self.story()])


def _faults(before: Object, after: Object) -> Iterator[str]:
    phase = after.get("phase")
    if phase is None:
        return
    if not _is_legal(before, after):
        yield "illegal transition"
    shown = {"status": after}
    if tuple(condition(shown, t) for t in TYPES) not in CONDITIONS[phase]:
        yield "wrong conditions"
    further = {condition(shown, t) for t in ("Healthy", "CheckpointFresh")}
    if phase == "Running" and None in further:
        yield "no conditions of its health"
    if phase != "Running" and further != {"Unknown"}:
        yield "health of a query that does not run"
    if (phase in ENDED) != ("completionTime" in after):
        yield "completion time"
    if _moved_its_checkpoint(before, after):
        yield "another checkpoint within a run"


def _is_legal(before: Object, after: Object) -> bool:
    old, new = before.get("phase"), after["phase"]
    if old is None:
        return True
    if before["run"] != after["run"]:
        return old in ENDED and after["run"] == before["run"] + 1
    if before["attempt"] != after["attempt"]:
        return (
            old in ("Pending", "Running", "Stopped") and new == "Initialized" and after["attempt"] > before["attempt"]
        )
    return old == new if old in ENDED else new in FORWARD[old]


def _moved_its_checkpoint(before: Object, after: Object) -> bool:
    old, new = before.get("streaming", {}), after.get("streaming", {})
    if before.get("run") != after.get("run") or "checkpointLocation" not in old:
        return False
    return old["checkpointLocation"] != new.get("checkpointLocation") and old["upgrades"] == new["upgrades"]
