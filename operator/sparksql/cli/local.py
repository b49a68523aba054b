"""Commands of local mode: the plugin's own, over the store of an instance in the place of `kubectl`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparksql.cli.errors import CliError, Exit
from sparksql.cli.kubectl import Kubectl, KubectlError
from sparksql.kube.errors import ApiError
from sparksql.kube.resources import BY_KIND, EVENTS, NAMESPACES, PODS, Resource
from sparksql.local.defaults import DEFAULT_NAMESPACE
from sparksql.local.instance import Instance
from sparksql.local.objects.store import ObjectStore
from sparksql.wire.driver import GATEWAY_PORT

_FOLLOW_SECONDS = 0.2
_RESOURCES: dict[str, Resource] = {
    name: resource
    for kind, resource in {**BY_KIND, "Event": EVENTS}.items()
    for name in (
        f"{resource.plural}.{resource.group}",
        resource.plural,
        kind.lower(),
        resource.plural.removesuffix("s"),
    )
}


@dataclass(frozen=True, kw_only=True)
class LocalKubectl(Kubectl):
    """Answers what the commands request of `kubectl` from an instance's store."""

    store: ObjectStore
    instance: Instance

    @asynccontextmanager
    async def start(self, *arguments: str, namespace: str | None = None, stdin: bool = False) -> AsyncIterator[Any]:
        """Raises CliError: there is no kubectl."""
        raise CliError(f"local mode has no `kubectl {arguments[0]}`", Exit.USAGE)
        yield

    async def get(self, resource: str, name: str, namespace: str | None = None) -> dict[str, Any]:
        """Returns one object. Raises KubectlError, with `is_not_found` if there is none."""
        found = resource_of(resource)
        try:
            return self.store.get(found, self._scope(namespace), name)
        except ApiError as error:
            raise _answered(error) from None

    async def create(self, manifest: str) -> list[dict[str, Any]]:
        """Creates the objects of a manifest and returns them. Raises KubectlError."""
        return [self.create_one(document) for document in await self.parsed(manifest)]

    async def parsed(self, manifest: str) -> list[dict[str, Any]]:
        """Returns the objects of a manifest. Raises KubectlError for what is no object."""
        return documents(manifest, "the manifest")

    async def list(self, resource: str, namespace: str | None = None, field_selector: str = "") -> list[dict[str, Any]]:
        """Returns the objects of the namespace that the field selector names, all without one."""
        return self.store.list(resource_of(resource), self._scope(namespace), field_selector=field_selector).items

    async def patch(self, resource: str, name: str, body: dict[str, Any], namespace: str) -> None:
        """Writes a JSON merge patch. Raises KubectlError."""
        try:
            self.store.patch_merge(resource_of(resource), namespace, name, body)
        except ApiError as error:
            raise _answered(error) from None

    async def watch(self, resource: str, name: str, namespace: str) -> AsyncGenerator[dict[str, Any], None]:
        """Watch events of one object, the first with its present state, until it is deleted."""
        found = resource_of(resource)
        events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        def observe(kind: str, change: str, obj: dict[str, Any]) -> None:
            metadata = obj["metadata"]
            if BY_KIND.get(kind) == found and (metadata["name"], metadata.get("namespace")) == (name, namespace):
                events.put_nowait({"type": change, "object": obj})

        stop = self.store.watch(observe)
        try:
            present = self.store.list(found, namespace, field_selector=f"metadata.name={name}").items
            for obj in present:
                yield {"type": "ADDED", "object": obj}
            while True:
                event = await events.get()
                yield event
                if event["type"] == "DELETED":
                    return
        finally:
            stop()

    async def logs(self, pod: str, namespace: str | None, *, follow: bool) -> AsyncGenerator[str, None]:
        """Lines of a pod's log, with `follow` until the pod is gone. Raises KubectlError without a log."""
        file = self.instance.logs / f"{pod}.log"
        if not file.is_file():
            raise KubectlError(f'Error from server (NotFound): pods "{pod}" not found')
        with file.open(encoding="utf-8", errors="replace") as lines:
            while True:
                for line in lines:
                    yield line.rstrip("\n")
                if not follow or not self.store.list(PODS, field_selector=f"metadata.name={pod}").items:
                    return
                await asyncio.sleep(_FOLLOW_SECONDS)

    def create_one(self, document: dict[str, Any]) -> dict[str, Any]:
        """Creates one object; a namespace that it names is made with it. Raises KubectlError."""
        resource = resource_of_document(document)
        namespace = self._namespace_of(document, resource)
        try:
            return self.store.create(resource, namespace, document, strict=True)
        except ApiError as error:
            raise _answered(error) from None

    def apply_one(self, document: dict[str, Any]) -> str:
        """Creates an object or changes the existing one to the manifest; returns what was done. Raises KubectlError."""
        resource = resource_of_document(document)
        namespace = self._namespace_of(document, resource)
        name = str((document.get("metadata") or {}).get("name", ""))
        try:
            before = self.store.list(resource, namespace, field_selector=f"metadata.name={name}").items
            after = self.store.apply(resource, namespace, name, document)
        except ApiError as error:
            raise _answered(error) from None
        if not before:
            return "created"
        is_same = before[0]["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
        return "unchanged" if is_same else "configured"

    def _namespace_of(self, document: dict[str, Any], resource: Resource) -> str:
        if not resource.namespaced:
            return ""
        namespace = (document.get("metadata") or {}).get("namespace") or self._scope(None)
        if not self.store.list(NAMESPACES, field_selector=f"metadata.name={namespace}").items:
            try:
                self.store.create(NAMESPACES, "", {"metadata": {"name": namespace}})
            except ApiError as error:
                raise _answered(error) from None
        return str(namespace)

    def _scope(self, namespace: str | None) -> str:
        return namespace or self.namespace or DEFAULT_NAMESPACE


def documents(text: str, place: str) -> list[dict[str, Any]]:
    """Returns the objects of YAML or JSON documents, those of Lists too. Raises KubectlError for what is no object."""
    import yaml

    try:
        found = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        raise KubectlError(f"error: {place}: {error}") from None
    objects: list[dict[str, Any]] = []
    for document in found:
        if not isinstance(document, dict):
            raise KubectlError(f"error: {place}: a document is not an object: it needs apiVersion, kind and metadata")
        objects += document.get("items") or [] if document.get("kind") == "List" else [document]
    # Dates that YAML reads from unquoted text are text to Kubernetes.
    return [json.loads(json.dumps(each, default=str)) for each in objects]


def resource_of(name: str) -> Resource:
    """Returns the resource of a name as kubectl takes it. Raises CliError for one that local mode does not have."""
    resource = _RESOURCES.get(name.lower())
    if resource is None:
        known = sorted({each.plural for each in _RESOURCES.values()})
        raise CliError(f"{name}: local mode has no such resource; it has {', '.join(known)}", Exit.USAGE)
    return resource


def resource_of_document(document: dict[str, Any]) -> Resource:
    """Returns the resource of a manifest. Raises CliError for a kind that local mode does not have."""
    resource = BY_KIND.get(str(document.get("kind")))
    if resource is None or resource.api_version != document.get("apiVersion"):
        what = f"{document.get('apiVersion')} {document.get('kind')}"
        raise CliError(f"local mode has no objects of {what}", Exit.USAGE)
    return resource


@asynccontextmanager
async def local_forward(kubectl: Kubectl, namespace: str, pod: str) -> AsyncIterator[str]:
    """The address of a pod's gateway: it is on this machine."""
    found = await kubectl.get("pods", pod, namespace)
    yield f"{found.get('status', {}).get('podIP')}:{GATEWAY_PORT}"


def files_of(path: str) -> Sequence[Path]:
    """Returns the files that `-f` names: a folder's manifests in the order of their names. Raises CliError for an empty one."""
    found = Path(path)
    if not found.is_dir():
        return [found]
    files = sorted(file for file in found.iterdir() if file.suffix in (".yaml", ".yml", ".json"))
    if not files:
        raise CliError(f"-f {path}: the folder has no .yaml, .yml or .json file", Exit.USAGE)
    return files


def _answered(error: ApiError) -> KubectlError:
    return KubectlError(f"Error from server ({error.reason}): {error.message}")
