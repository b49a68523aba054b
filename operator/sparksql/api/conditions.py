"""Status conditions in the shape that kstatus, `kubectl wait`, Argo CD and Flux understand.

A writer always states all of its conditions, with the generation it looked at; a condition's time moves only with its
status.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from sparksql.api.base import ApiModel, Timestamp, clipped, map_list
from sparksql.api.fields import SAFE_INT_MAX


class ConditionType(StrEnum):
    """`Ready`, `Reconciling`, `Stalled` as in kstatus; `Succeeded` and `Finished` for bounded work; then our own."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    SUCCEEDED = "Succeeded"
    FINISHED = "Finished"
    HEALTHY = "Healthy"
    CHECKPOINT_FRESH = "CheckpointFresh"
    COMPATIBLE = "Compatible"
    SESSION_STATE_LOST = "SessionStateLost"
    HIBERNATION = "Hibernation"
    WARM_POOL = "WarmPool"
    VERSION_SKEW = "VersionSkew"
    EXECUTORS_READY = "ExecutorsReady"
    EXECUTORS_FAILING = "ExecutorsFailing"
    LOCAL_MODE = "LocalMode"


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    type: Annotated[str, Field(min_length=1, max_length=316)] = Field(description="Type of the condition.")
    status: ConditionStatus = Field(description="Whether it holds: True, False or Unknown.")
    reason: str = Field("", max_length=1024, description="CamelCase constant for programs.")
    message: Annotated[str, *clipped(4096)] = Field("", description="Explanation for people.")
    observed_generation: int = Field(
        -1, ge=-1, le=SAFE_INT_MAX, description="Generation of the spec that this is about."
    )
    last_transition_time: Timestamp | None = Field(None, description="When the status last changed.")


Conditions = Annotated[tuple[Condition, ...], Field(max_length=16, json_schema_extra=map_list("type"))]


def merge_conditions(
    current: Sequence[Condition], desired: Iterable[Condition], *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The desired conditions, in order, as of `generation`: each keeps its time if `current` has it with that status.

    Conditions that are not desired any more are gone from the result. Times and generations of `desired` are ignored.
    """
    known = {condition.type: condition for condition in current}

    def since(condition: Condition) -> datetime:
        before = known.get(condition.type)
        unchanged = before is not None and before.status == condition.status
        return before.last_transition_time or now if before is not None and unchanged else now

    return tuple(
        condition.replace(observed_generation=generation, last_transition_time=since(condition))
        for condition in desired
    )


def find_condition(conditions: Iterable[Condition], type: str) -> Condition | None:
    """Returns the condition of this type, None if there is none."""
    return next((condition for condition in conditions if condition.type == type), None)


def is_true(conditions: Iterable[Condition], type: str) -> bool:
    """Tells whether the condition of this type is there and True."""
    condition = find_condition(conditions, type)
    return condition is not None and condition.status is ConditionStatus.TRUE
