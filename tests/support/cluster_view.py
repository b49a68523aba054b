"""The cluster as somebody else sees it: through the official Kubernetes client, never through the operator's own.

A test that looked with the eyes of what it watches would share its blind spots.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from urllib3.exceptions import HTTPError

Object = dict[str, Any]
REQUEST_SECONDS = 60.0
MERGE_PATCH = "application/merge-patch+json"
API_VERSIONS = {
    "SqlSessionClass": "sparksql.dev/v1alpha1",
    "SqlSession": "sparksql.dev/v1alpha1",
    "SqlStatement": "sparksql.dev/v1alpha1",
    "SqlSavepoint": "sparksql.dev/v1alpha1",
    "Job": "batch/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
}
"""Of kinds that are not of the core API."""


class ApiFailure(Exception):
    """A refused request, with its HTTP status and what the API server says."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class ClusterView:
    """Reads and writes plain objects with the rights of the kubeconfig's user, or of a bearer `token`. Raises ApiFailure.

    Kinds are discovered once, when the first is asked for. May be used by several threads.
    """

    def __init__(self, kubeconfig: Path, token: str | None = None) -> None:
        self.kubeconfig = kubeconfig
        settings = client.Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=settings, persist_config=False)
        if token is not None:
            settings.cert_file = settings.key_file = None
            settings.api_key = {"BearerToken": f"Bearer {token}"}
            settings.refresh_api_key_hook = None
        self._api = client.ApiClient(settings)

    def request(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
        """The answer to any request: parsed if it is JSON, else its text."""
        headers = {"Accept": "application/json", "Content-Type": content_type}
        sent = self._api.param_serialize(method, path, header_params=headers, body=body, auth_settings=["BearerToken"])
        answer = self._api.call_api(*sent, _request_timeout=REQUEST_SECONDS)
        text = answer.read()
        if answer.status >= 400:
            raise ApiFailure(answer.status, _message(text))
        return json.loads(text) if text[:1] in (b"{", b"[") else text.decode()

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        try:
            return self._ask("get", kind, namespace, name=name)
        except ApiFailure as failure:
            if failure.status == 404:
                return None
            raise

    def list(self, kind: str, namespace: str = "", selector: str = "") -> list[Object]:
        """All of a namespace, or of all namespaces if it is empty, that have the labels."""
        items: list[Object] = self._ask("get", kind, namespace, label_selector=selector or None)["items"]
        return items

    def create(self, body: Object) -> Object:
        return self._ask("create", body["kind"], body["metadata"].get("namespace", ""), body=body)

    def patch(self, kind: str, namespace: str, name: str, body: Object, subresource: str = "") -> Object:
        """JSON merge patch."""
        return self._ask("patch", kind, namespace, subresource, name=name, body=body, content_type=MERGE_PATCH)

    def delete(self, kind: str, namespace: str, name: str, grace_seconds: int | None = None) -> None:
        """Asks for deletion of what may be gone already."""
        try:
            self._ask("delete", kind, namespace, name=name, grace_period_seconds=grace_seconds)
        except ApiFailure as failure:
            if failure.status != 404:
                raise

    def follow(self, kind: str, namespace: str, name: str, seconds: float = 60) -> Iterator[Object]:
        """The object as it is and as each change leaves it, for so many seconds or until it is deleted."""
        changes = self._dynamic.watch(
            self._resource(kind), namespace=namespace or None, name=name, timeout=int(seconds)
        )
        for event in changes:
            if event["type"] == "DELETED":
                return
            yield event["raw_object"]

    def until_changed(self, kind: str, namespace: str, name: str, seen: Object | None, seconds: int) -> None:
        """Returns once the object is another than the one `seen` (None: there was none), at the latest after so many seconds."""
        version = seen["metadata"]["resourceVersion"] if seen is not None else None
        # A watch that breaks, or whose version is too old, leaves it to who asks to look again.
        with contextlib.suppress(ApiException, HTTPError):
            next(
                self._dynamic.watch(
                    self._resource(kind),
                    namespace=namespace or None,
                    name=name,
                    resource_version=version,
                    timeout=seconds,
                ),
                None,
            )

    # --- the client

    @cached_property
    def _dynamic(self) -> DynamicClient:
        # The discovery's cache file is by default one for each server address and shared by all processes: clusters come
        # and go at the same address, and each would see the kinds of another one.
        self._folder = tempfile.TemporaryDirectory(prefix="discovery-")
        return DynamicClient(self._api, cache_file=str(Path(self._folder.name) / "discovery.json"))

    def _resource(self, kind: str) -> Any:
        return self._dynamic.resources.get(api_version=API_VERSIONS.get(kind, "v1"), kind=kind)

    def _ask(self, verb: str, kind: str, namespace: str, subresource: str = "", **params: Any) -> Object:
        resource = self._resource(kind)
        target = resource.subresources[subresource] if subresource else resource
        if resource.namespaced and namespace:
            params["namespace"] = namespace
        try:
            answer = getattr(target, verb)(**params, serialize=False, _request_timeout=REQUEST_SECONDS)
        except ApiException as error:
            raise ApiFailure(error.status, _message(error.body)) from error
        found: Object = json.loads(answer.data)
        return found


def _message(body: bytes | str | None) -> str:
    try:
        return str(json.loads(body or "").get("message", ""))
    except (ValueError, AttributeError):
        return body.decode(errors="replace") if isinstance(body, bytes) else str(body)
