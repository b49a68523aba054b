"""A small Kubernetes client for the tool's own needs: requests, and a mirror of a resource kept by list and watch.

A mirror survives every hiccup of the API server: it keeps what it last knew and lists again.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .config import API_SERVER
from .shell import say

Object = dict[str, Any]

WATCH_SECONDS = 240
RETRY_SECONDS = 0.5
COALESCE_SECONDS = 0.05


class ApiError(Exception):
    """The API server answered with something other than success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


TROUBLE = (OSError, http.client.HTTPException, ApiError, ValueError)


class Api:
    """The cluster's API server, as the administrator."""

    def __init__(self, pki: Path) -> None:
        self._context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._context.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def request(self, method: str, path: str, body: Object | None = None, *, timeout: float = 10) -> Object:
        """Return the decoded answer. Raises ApiError on any status but success, OSError if nobody answers."""
        decoded: Object = json.loads(self._open(method, path, body, timeout).read())
        return decoded

    def is_ready(self) -> bool:
        """Say whether the API server serves and considers itself ready."""
        try:
            return self._open("GET", "/readyz", None, 5).read() == b"ok"
        except TROUBLE:
            return False

    def watch(self, path: str, version: str) -> Iterator[Object]:
        """Yield watch events from a resource version on, until the server ends the watch."""
        query = f"{path}?watch=1&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}&allowWatchBookmarks=true"
        with self._open("GET", query, None, WATCH_SECONDS + 10) as answer:
            for line in answer:
                yield json.loads(line)

    def _open(self, method: str, path: str, body: Object | None, timeout: float) -> http.client.HTTPResponse:
        connection = http.client.HTTPSConnection(urlsplit(API_SERVER).netloc, context=self._context, timeout=timeout)
        headers = {"Accept": "application/json", "Content-Type": "application/json", "Connection": "close"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        if not 200 <= answer.status < 300:
            raise ApiError(answer.status, answer.read().decode(errors="replace")[:500])
        return answer


class Mirror:
    """The objects of one collection, kept current by a thread of its own."""

    def __init__(self, api: Api, path: str, changed: threading.Event) -> None:
        self._api, self._path, self._changed = api, path, changed
        self._objects: dict[str, Object] = {}
        self._lock = threading.Lock()
        self.synced = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()

    def objects(self) -> list[Object]:
        """Return what is known now, in a stable order."""
        with self._lock:
            return [self._objects[uid] for uid in sorted(self._objects)]

    def _follow(self) -> None:
        while True:
            try:
                self._replace_and_watch()
            except TROUBLE as trouble:
                say(f"watch of {self._path}: {trouble!r}; listing again")
                time.sleep(RETRY_SECONDS)

    def _replace_and_watch(self) -> None:
        listing = self._api.request("GET", self._path)
        with self._lock:
            self._objects = {item["metadata"]["uid"]: item for item in listing["items"]}
        self.synced.set()
        self._changed.set()
        for event in self._api.watch(self._path, listing["metadata"]["resourceVersion"]):
            if event["type"] == "ERROR":
                raise ApiError(event["object"].get("code", 0), event["object"].get("message", ""))
            if event["type"] != "BOOKMARK":
                self._take(event["type"], event["object"])

    def _take(self, kind: str, item: Object) -> None:
        with self._lock:
            if kind == "DELETED":
                self._objects.pop(item["metadata"]["uid"], None)
            else:
                self._objects[item["metadata"]["uid"]] = item
        self._changed.set()


def mirrors(api: Api, *paths: str) -> tuple[threading.Event, list[Mirror]]:
    """Start mirrors that share one change signal, and wait for the first listing of each."""
    changed = threading.Event()
    started = [Mirror(api, path, changed) for path in paths]
    for mirror in started:
        mirror.synced.wait()
    return changed, started


def changes(changed: threading.Event) -> Iterator[None]:
    """Yield once per burst of changes, for ever."""
    while True:
        changed.wait()
        time.sleep(COALESCE_SECONDS)
        changed.clear()
        yield
