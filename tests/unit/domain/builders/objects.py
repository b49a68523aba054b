"""What objects of every kind share: the time, what a user does to an object, and what a controller does with a decision."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def ago(count: float) -> datetime:
    """`count` seconds before `NOW`."""
    return NOW - timedelta(seconds=count)


def with_status(obj: Any, decision: Any) -> Any:
    """The object with the status that was decided."""
    return obj.replace(status=decision.status)


def with_spec(obj: Any, **spec: Any) -> Any:
    """The object after its user has changed the spec (fields by API name)."""
    return obj.replace(spec=obj.spec.parse({**obj.spec.to_dict(), **spec}))


def annotated(obj: Any, **annotations: str) -> Any:
    """The object after somebody has annotated it."""
    return obj.replace(metadata=obj.metadata.replace(annotations={**obj.metadata.annotations, **annotations}))


def removed(obj: Any, at: datetime) -> Any:
    """The object after somebody has deleted it."""
    return obj.replace(metadata=obj.metadata.replace(deletion_timestamp=at))
