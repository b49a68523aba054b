"""A thin asynchronous client of the Kubernetes API: plain objects in and out, one shared session, typed errors.

Why not a generated client: decoding into models is ten times dearer than JSON, and the operator lists thousands of
objects. Why not lightkube (1.0.1, generic resources): measured in turns over TLS, a GET costs 0.90 ms of CPU and a
patch of a status 1.02 ms, here 0.25 and 0.27; a list of 500 objects 17 ms, here 19. It also has no preconditions of a
delete and does not begin an expired listing again.

Nothing is retried here but a request whose credentials were refused: retries belong to the work queue. Every request
has a deadline.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Self, TypeVar

import aiohttp

from sparksql.kube.credentials import Authenticator, Credentials
from sparksql.kube.errors import ApiError, Unavailable, error_from
from sparksql.kube.identity import CredentialsError, Identity
from sparksql.kube.resources import Resource

FIELD_MANAGER = "spark-sql-operator"
CONNECT_SECONDS = 5.0
MAX_CONNECTIONS = 64

Object = dict[str, Any]
RequestObserver = Callable[[str, str, int, float], None]
"""Called after each request with verb, plural of the resource, HTTP status (0: no answer) and duration in seconds."""

Propagation = Literal["Foreground", "Background", "Orphan"]
T = TypeVar("T")


@dataclass(frozen=True)
class Listing(Generic[T]):
    """Items with their apiVersion and kind, or what was made of them, and the `resource_version` that they are the state of."""

    items: list[T]
    resource_version: str


class KubeClient:
    """Client of one API server, used as an async context manager or closed by `close`.

    Every method raises ApiError or one of its subclasses. `namespace` is ignored for cluster-scoped resources.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        observer: RequestObserver | None = None,
        timeout_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.credentials = credentials
        self._authenticator = Authenticator(credentials, clock)
        self._observer = observer
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds, connect=CONNECT_SECONDS)
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._presented: tuple[bytes | None, bytes | None] = (None, None)  # the session's client certificate and key

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections; a later request would open new ones."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Returns the object. Raises NotFound, or another ApiError."""
        return await self._request("GET", resource, resource.path(namespace, name))

    async def create(self, resource: Resource, namespace: str, body: Object) -> Object:
        """Creates the object and returns it as stored. Raises AlreadyExists, or another ApiError."""
        return await self._request("POST", resource, resource.collection_path(namespace), body)

    async def check_create(self, resource: Resource, namespace: str, body: Object) -> None:
        """Has the API server check the creation of an object, quotas and webhooks included; creates nothing. Raises ApiError."""
        await self._request("POST", resource, resource.collection_path(namespace), body, {"dryRun": "All"})

    async def replace(
        self, resource: Resource, namespace: str, name: str, body: Object, subresource: str = ""
    ) -> Object:
        """Replaces the object and returns it as stored. Raises Conflict if it has changed since, or another ApiError."""
        return await self._request("PUT", resource, resource.path(namespace, name, subresource), body)

    async def patch_merge(
        self, resource: Resource, namespace: str, name: str, body: Object, subresource: str = ""
    ) -> Object:
        """JSON merge patch; with `metadata.resourceVersion` in the body, Conflict when the object has changed since."""
        path = resource.path(namespace, name, subresource)
        return await self._request("PATCH", resource, path, body, content_type="application/merge-patch+json")

    async def apply(self, resource: Resource, namespace: str, name: str, body: Object, subresource: str = "") -> Object:
        """Server-side apply as `spark-sql-operator`, taking over the fields that others own."""
        path = resource.path(namespace, name, subresource)
        params = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self._request("PATCH", resource, path, body, params, content_type="application/apply-patch+yaml")

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
        propagation: Propagation | None = None,
    ) -> None:
        """Asks for deletion; with `uid`, Conflict when the name belongs to another object by now."""
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid} if uid is not None else None,
            "gracePeriodSeconds": grace_seconds,
            "propagationPolicy": propagation,
        }
        body = {option: value for option, value in options.items() if value is not None}
        await self._request("DELETE", resource, resource.path(namespace, name), body)

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        page_size: int = 500,
    ) -> Listing[Object]:
        """Returns all objects, of all namespaces when `namespace` is empty, fetched in pages of one consistent state."""
        return await self.list_as(lambda item: item, resource, namespace, label_selector, page_size)

    async def list_some(self, resource: Resource, namespace: str, field_selector: str, most: int) -> Sequence[Object]:
        """Returns objects of a namespace that a field selector names, `most` of them at most. Raises ApiError."""
        params = {"fieldSelector": field_selector, "limit": str(most)}
        page = await self._request("GET", resource, resource.collection_path(namespace), params=params, verb="LIST")
        items: Sequence[Object] = page.get("items") or ()
        return items

    async def list_as(
        self, read: Callable[[Object], T], resource: Resource, namespace: str, label_selector: str, page_size: int
    ) -> Listing[T]:
        """Lists as `list` does and returns what `read` made of each object; one page of them at a time is in memory.

        `read` gets an object again when a listing has to begin anew, because its state was compacted away.
        """
        selectors = _present(labelSelector=label_selector)
        path = resource.collection_path(namespace)
        items: list[T] = []
        token = ""
        while True:
            params = selectors | {"limit": str(page_size)} | _present(**{"continue": token})
            try:
                page = await self._request("GET", resource, path, params=params, verb="LIST")
            except ApiError as error:
                if error.status != 410 or not token:
                    raise
                items, token = [], ""  # once more, from the newest state
                continue
            identity = {"apiVersion": page["apiVersion"], "kind": page["kind"].removesuffix("List")}
            items += [read(identity | item) for item in page.get("items") or ()]
            token = page["metadata"].get("continue", "")
            if not token:
                return Listing(items, page["metadata"]["resourceVersion"])

    async def _request(
        self,
        method: str,
        resource: Resource,
        path: str,
        body: Object | None = None,
        params: Mapping[str, str] | None = None,
        *,
        content_type: str = "application/json",
        verb: str = "",
    ) -> Object:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type} if data is not None else {}
        started = self._clock()
        status = 0
        try:
            identity = await self._authenticator.identity()
            status, answer, retry_after = await self._send(identity, method, path, data, params, headers)
            if status == 401 and self._authenticator.can_renew:
                identity = await self._authenticator.identity(refused=identity)
                status, answer, retry_after = await self._send(identity, method, path, data, params, headers)
        except (aiohttp.ClientError, TimeoutError, CredentialsError) as error:
            raise _unavailable(error) from error
        finally:
            if self._observer is not None:
                self._observer(verb or method, resource.plural, status, self._clock() - started)
        if status >= 400:
            raise error_from(status, answer, retry_after)
        content: Object = json.loads(answer)
        return content

    async def _send(
        self,
        identity: Identity,
        method: str,
        path: str,
        data: bytes | None,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str],
    ) -> tuple[int, bytes, str | None]:
        session = await self._open(identity)
        url = self.credentials.server + path
        sent = {**headers, **identity.headers}
        async with session.request(method, url, data=data, params=params, headers=sent) as response:
            return response.status, await response.read(), response.headers.get("Retry-After")

    async def _open(self, identity: Identity) -> aiohttp.ClientSession:
        """The session, a new one when the client certificate has changed: it belongs to the connections."""
        certificate = (identity.certificate, identity.key)
        if self._session is not None and certificate != self._presented:
            await self.close()
        if self._session is None:
            context = self.credentials.ssl_context(identity)
            connector = aiohttp.TCPConnector(limit=MAX_CONNECTIONS, ssl=True if context is None else context)
            headers = {"Accept": "application/json", "User-Agent": FIELD_MANAGER}
            self._session = aiohttp.ClientSession(
                connector=connector, headers=headers, timeout=self._timeout, proxy=self.credentials.proxy_url
            )
            self._presented = certificate
        return self._session


def _present(**params: str) -> dict[str, str]:
    return {name: value for name, value in params.items() if value}


def _unavailable(error: Exception) -> Unavailable:
    return Unavailable(0, type(error).__name__, str(error))
