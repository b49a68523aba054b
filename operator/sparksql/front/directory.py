"""The sessions and classes of the cluster as the front needs them, kept up to date by watches. Belongs to the event loop."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sparksql.api import names
from sparksql.api.session import SessionDesiredState, SessionPhase
from sparksql.api.session_class import Front, Share
from sparksql.cache.views import ObjectView
from sparksql.front.model import SessionKey
from sparksql.wire.control import ClientProtocol
from sparksql.wire.front import handle_prefix, prefix_of

SESSION, CLASS = "SqlSession", "SqlSessionClass"
WATCHED = (SESSION, CLASS)
ANNOTATION_SHARE = f"{names.GROUP}/front-share"  # of a session that the front has made for one connection


@dataclass(frozen=True)
class SessionEntry:
    """What the front knows of a session. `host` and `certificate` are those of the driver that it has, or had last.

    `version` is the object's resourceVersion, which grows with each change of it.
    """

    key: SessionKey
    uid: str
    version: int
    phase: SessionPhase | None
    reason: str
    message: str
    is_wanted: bool
    is_stalled: bool
    user: str | None
    is_of_connection: bool
    host: str | None
    certificate: str | None
    protocols: frozenset[ClientProtocol]

    @property
    def state(self) -> str:
        """Returns where the session is, for people."""
        told = f"{self.phase or 'new'} ({self.reason})" if self.reason else str(self.phase or "new")
        return f"{told}: {self.message}" if self.message else told


@dataclass(frozen=True)
class FrontPolicy:
    """Says how clients share sessions of the default class. `class_name` is None where the cluster has none."""

    class_name: str | None = None
    share: Share = Share.USER
    max_sessions_per_user: int = 0


class Directory:
    """Finds sessions by name and by handle, and tells when one changes."""

    def __init__(self) -> None:
        self._sessions: dict[SessionKey, SessionEntry] = {}
        self._by_prefix: dict[str, SessionKey] = {}
        self._defaults: dict[str, tuple[str, FrontPolicy]] = {}  # by name: when it was made, and its policy
        self._waiting: defaultdict[SessionKey, set[asyncio.Event]] = defaultdict(set)

    def find(self, key: SessionKey) -> SessionEntry | None:
        """Returns a session by its name."""
        return self._sessions.get(key)

    @property
    def keys(self) -> frozenset[SessionKey]:
        """Returns the names of all sessions."""
        return frozenset(self._sessions)

    def drop(self, keys: Iterable[SessionKey]) -> None:
        """Forgets sessions that are not there any more."""
        for key in keys:
            entry = self._sessions.pop(key, None)
            if entry is not None:
                self._by_prefix.pop(handle_prefix(entry.uid), None)
            self._tell(key)

    def by_handle(self, handle: str) -> SessionEntry | None:
        """Returns the session whose driver has given a handle to a client."""
        key = self._by_prefix.get(prefix_of(handle))
        return None if key is None else self._sessions.get(key)

    @property
    def policy(self) -> FrontPolicy:
        """Returns the default class's policy; of several the newest is the default, as for every session."""
        if not self._defaults:
            return FrontPolicy()
        return max(self._defaults.items(), key=lambda each: (each[1][0], each[0]))[1][1]

    @contextmanager
    def watching(self, key: SessionKey) -> Iterator[asyncio.Event]:
        """Yields an event that is set whenever the session changes."""
        changed = asyncio.Event()
        self._waiting[key].add(changed)
        try:
            yield changed
        finally:
            self._waiting[key].discard(changed)
            if not self._waiting[key]:
                del self._waiting[key]

    def take(self, kind: str, change: str | None, obj: Mapping[str, Any]) -> SessionEntry | None:
        """Takes an object as a watch tells of it; returns the entry of a session that is there."""
        if kind == CLASS:
            self._take_class(change, obj)
            return None
        entry = _entry(obj)
        key = entry.key
        before = self._sessions.get(key)
        if before is not None and before.uid == entry.uid and before.version > entry.version:
            return None  # a listing may tell of what was before a watch's last word
        if change == "DELETED":
            if before is not None and before.uid == entry.uid:
                del self._sessions[key]
                self._by_prefix.pop(handle_prefix(entry.uid), None)
        else:
            if before is not None and before.uid != entry.uid:
                self._by_prefix.pop(handle_prefix(before.uid), None)
            self._sessions[key] = entry
            self._by_prefix[handle_prefix(entry.uid)] = key
        self._tell(key)
        return None if change == "DELETED" else entry

    def _tell(self, key: SessionKey) -> None:
        for waiting in self._waiting.get(key, ()):
            waiting.set()

    def _take_class(self, change: str | None, obj: Mapping[str, Any]) -> None:
        view = ObjectView(dict(obj))
        if change == "DELETED" or view.annotations.get(names.DEFAULT_CLASS_ANNOTATION) != "true":
            self._defaults.pop(view.name, None)
            return
        front = Front.model_validate(obj.get("spec", {}).get("front") or {})
        policy = FrontPolicy(view.name, front.share, front.max_sessions_per_user)
        self._defaults[view.name] = view.created, policy


def _entry(obj: Mapping[str, Any]) -> SessionEntry:
    view = ObjectView(dict(obj))
    status = obj.get("status") or {}
    endpoints, driver = status.get("endpoints") or {}, status.get("driver") or {}
    served = {
        protocol
        for protocol in (ClientProtocol.REST, ClientProtocol.THRIFT, ClientProtocol.CONNECT)
        if endpoints.get(protocol.value)
    }
    wanted = obj.get("spec", {}).get("desiredState", SessionDesiredState.RUNNING) == SessionDesiredState.RUNNING
    return SessionEntry(
        key=SessionKey(view.namespace, view.name),
        uid=obj["metadata"]["uid"],
        version=int(obj["metadata"].get("resourceVersion") or 0),
        phase=SessionPhase(view.phase) if view.phase else None,
        reason=view.ready_reason,
        message=str(status.get("message") or ""),
        is_wanted=wanted and not view.is_deleting,
        is_stalled=view.is_stalled,
        user=view.annotations.get(names.ANNOTATION_FRONT_USER),
        is_of_connection=view.annotations.get(ANNOTATION_SHARE) == Share.CONNECTION,
        host=driver.get("podIP"),
        certificate=driver.get("certificate"),
        protocols=frozenset(served),
    )
