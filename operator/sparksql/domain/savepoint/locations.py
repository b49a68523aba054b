"""Where a savepoint's data lies, and whether what lies there may be deleted. Pure readings of locations."""

from __future__ import annotations

from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SqlSavepoint
from sparksql.domain.public_text import Message, compose
from sparksql.domain.savepoint.snapshot import SavepointStorage, Snapshot
from sparksql.domain.statement.stream.spec import streaming_of
from sparksql.domain.violation import Violation

MAX_LOCATION_LENGTH = 1024  # of the resource's `status.location`


def _folder(savepoint: SqlSavepoint) -> str:
    """Path below the root: no other object has it, since the UID is part of it."""
    metadata = savepoint.metadata
    return f"{metadata.namespace}/{savepoint.spec.statement_ref.name}/{metadata.name}-{metadata.uid}"


def target(savepoint: SqlSavepoint, storage: SavepointStorage) -> str | Violation:
    """Returns the location of the data.

    It is the one that was recorded, that of an existing savepoint, else a new one below the class's root.
    """
    known = savepoint.status.location or savepoint.spec.location
    if known is not None:
        return known
    field = f"class {storage.class_name}: spec.storage.savepointRoot"
    if storage.savepoint_root is None:
        message = f"{field} is not set: set it, or use a class that has it, and create the SqlSavepoint again"
        return Violation(Reason.INVALID_SPEC, message)
    location = f"{storage.savepoint_root.rstrip('/')}/{_folder(savepoint)}"
    if len(location) > MAX_LOCATION_LENGTH:
        message = (
            f"{field} is {len(storage.savepoint_root)} characters long: with a shorter one the location would have at most "
            f"{MAX_LOCATION_LENGTH} characters"
        )
        return Violation(Reason.INVALID_SPEC, message)
    return location


def recorded_root(savepoint: SqlSavepoint) -> str | None:
    """Returns the root that the recorded location was made from; None if that was not made for this object."""
    location = savepoint.status.location
    suffix = f"/{_folder(savepoint)}"
    if location is None or not savepoint.spec.source.owns_data or not savepoint.metadata.uid:
        return None
    root = location.removesuffix(suffix)
    is_plain = ":/" in root and not {".", ".."} & set(location.split("/"))
    return root if root != location and is_plain else None


def deletion_blocker(s: Snapshot) -> Message | None:
    """Tells why the data at the recorded location must not be deleted, whatever the reclaim policy says; None: it may be."""
    root = recorded_root(s.savepoint)
    if root is None:
        return compose("the location was not made for this object")
    configured = s.storage.savepoint_root if s.storage is not None else root
    if configured is None or configured.rstrip("/") != root:
        return compose("the location is not below the class's spec.storage.savepointRoot")
    checkpoint = streaming_of(s.statement).checkpoint_location if s.statement is not None else None
    if checkpoint is not None and _overlap(checkpoint, s.savepoint.status.location or ""):
        return compose("the statement's checkpoint lies there")
    return None


def _overlap(one: str, other: str) -> bool:
    one, other = f"{one.rstrip('/')}/", f"{other.rstrip('/')}/"
    return one.startswith(other) or other.startswith(one)
