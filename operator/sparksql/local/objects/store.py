"""The objects of an instance, with the rules by which an API server writes them.

Invariants
- Each change has a resource version of its own; a write that changes nothing has none and is not sent to watchers.
- `status` is written through its subresource alone, and nothing else is written through it.
- The generation of an object of our kinds grows with each change beyond metadata and status, and with its deletion.
- An object with finalizers, and a pod within its grace period, is marked as deleted and stays until they are gone.
- Watchers see a change after it is in the file.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sparksql.api.names import GROUP
from sparksql.kube.client import Listing
from sparksql.kube.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound
from sparksql.kube.resources import BY_KIND, EVENTS, NAMESPACES, PODS, Resource
from sparksql.local.objects import admission, merging, selectors
from sparksql.local.objects.database import Place
from sparksql.local.objects.records import Records, Watcher, plain

Object = dict[str, Any]
KINDS: Mapping[Resource, str] = {**{resource: kind for kind, resource in BY_KIND.items()}, EVENTS: "Event"}
_WITH_STATUS = frozenset({"Pod", "Service", "Namespace", "Job", "PersistentVolumeClaim"})
_GRACE_SECONDS = 30  # Kubernetes' default of terminationGracePeriodSeconds
_FROM_SERVER = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


class ObjectStore:
    """All objects of one instance, in the file at `path`. `clock` gives aware UTC times."""

    def __init__(self, path: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._records = Records(path, self._delete_orphan)
        self._clock = clock

    def close(self) -> None:
        """Closes the file."""
        self._records.database.close()

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Calls `watcher` after each change from now on, until the returned function is called."""
        return self._records.watch(watcher)

    # --- reading

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Returns the object. Raises NotFound."""
        return self._found(resource, namespace, name)[0]

    def list(
        self, resource: Resource, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing[Object]:
        """Returns the objects that both selectors match, of all namespaces when `namespace` is empty."""
        by_labels, by_fields = selectors.by_labels(label_selector), selectors.by_fields(field_selector)
        objects = self._records.database.all(_key(resource), namespace if resource.namespaced else "")
        return Listing([obj for obj in objects if by_labels(obj) and by_fields(obj)], self._records.database.version())

    # --- writing

    def create(
        self, resource: Resource, namespace: str, body: Object, *, dry_run: bool = False, strict: bool = False
    ) -> Object:
        """Creates the object and returns it as stored. Raises AlreadyExists, Invalid, or NotFound for the namespace.

        `strict` refuses unknown fields, which are left out otherwise; `dry_run` stores nothing.
        """
        kind = KINDS[resource]
        obj = plain(body)
        metadata = obj.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{uuid.uuid4().hex[:5]}"
        admission.check_name(kind, metadata.get("name"))
        metadata |= {"namespace": namespace} if resource.namespaced else {}
        place = _place(resource, namespace, metadata["name"])
        if resource.namespaced:
            self.get(NAMESPACES, "", namespace)
        if self._records.database.get(place) is not None:
            raise AlreadyExists(409, "AlreadyExists", f'{_name(resource)} "{metadata["name"]}" already exists')
        for field in ("resourceVersion", *_FROM_SERVER):
            metadata.pop(field, None)
        if _has_status(kind, resource):
            obj.pop("status", None)
        obj = admission.admitted(kind, {"apiVersion": resource.api_version, "kind": kind, **obj}, None, strict=strict)
        obj["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": _time(self._clock())}
        if resource.group == GROUP:
            obj["metadata"]["generation"] = 1
        return obj if dry_run else self._records.commit(kind, place, obj, {}, "ADDED")

    def replace(self, resource: Resource, namespace: str, name: str, body: Object, subresource: str = "") -> Object:
        """Replaces the object and returns it as stored. Raises NotFound, Conflict or Invalid."""
        current, applied = self._found(resource, namespace, name)
        return self._write(resource, current, applied, plain(body), subresource)

    def patch_merge(self, resource: Resource, namespace: str, name: str, body: Object, subresource: str = "") -> Object:
        """Writes a JSON merge patch and returns the object as stored. Raises NotFound, Conflict or Invalid."""
        current, applied = self._found(resource, namespace, name)
        return self._write(resource, current, applied, merging.merge_patched(current, plain(body)), subresource)

    def apply(self, resource: Resource, namespace: str, name: str, body: Object) -> Object:
        """Applies the body as the one manager of the object, which it makes if need be. Raises Conflict or Invalid."""
        body = plain(body)
        found = self._records.database.get(_place(resource, namespace, name))
        if found is None:
            created = self.create(resource, namespace, body)
            return self._records.commit(KINDS[resource], _place(resource, namespace, name), created, body, None)
        current, before = found
        return self._write(resource, current, body, merging.applied(current, before, body), "")

    def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> None:
        """Deletes the object, or marks it as deleted. Raises NotFound, and Conflict when the name is another object's."""
        obj, applied = self._found(resource, namespace, name)
        metadata = obj["metadata"]
        if uid is not None and uid != metadata["uid"]:
            what = f"the UID in the precondition ({uid}) does not match the UID in record ({metadata['uid']})"
            raise Conflict(409, "Conflict", f"Operation cannot be fulfilled on {_name(resource)} {name!r}: {what}")
        place = _place(resource, namespace, name)
        grace = _grace(obj, grace_seconds) if resource == PODS else 0
        if grace == 0 and not metadata.get("finalizers"):
            self._records.remove(KINDS[resource], place, obj)
            return
        if metadata.get("deletionTimestamp") is not None and metadata["deletionGracePeriodSeconds"] <= grace:
            return
        if resource.group == GROUP and metadata.get("deletionTimestamp") is None:
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = _time(self._clock() + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace
        self._records.commit(KINDS[resource], place, obj, applied, "MODIFIED")

    def collect_orphans(self) -> None:
        """Deletes the objects whose owners are all gone, and what they own in turn."""
        self._records.collect_orphans()

    def _delete_orphan(self, place: Place, uid: str) -> None:
        self.delete(_RESOURCES[place.resource], place.namespace, place.name, uid=uid)

    # --- one write

    def _found(self, resource: Resource, namespace: str, name: str) -> tuple[Object, Object]:
        found = self._records.database.get(_place(resource, namespace, name))
        if found is None:
            raise NotFound(404, "NotFound", f'{_name(resource)} "{name}" not found')
        return found

    def _write(self, resource: Resource, current: Object, applied: Object, new: Object, subresource: str) -> Object:
        kind, before = KINDS[resource], current["metadata"]
        _check_unchanged(resource, before, new.get("metadata") or {})
        if subresource:
            proposed = {**current, subresource: new.get(subresource) or {}}
        else:
            kept = {"status": current["status"]} if "status" in current and _has_status(kind, resource) else {}
            proposed = {**new, **kept, "metadata": _metadata(before, new.get("metadata") or {})}
        proposed = admission.admitted(kind, {**proposed, "apiVersion": current["apiVersion"], "kind": kind}, current)
        metadata = proposed["metadata"]
        if resource.group == GROUP and _content(proposed) != _content(current):
            metadata["generation"] += 1
        if proposed == current:
            if not subresource:
                self._records.commit(kind, _place_of(resource, current), current, applied, None)
            return current
        place = _place_of(resource, current)
        is_over = metadata.get("deletionTimestamp") and not metadata.get("finalizers")
        if is_over and metadata.get("deletionGracePeriodSeconds") == 0:
            self._records.remove(kind, place, proposed)
            return proposed
        return self._records.commit(kind, place, proposed, applied, "MODIFIED")


def _check_unchanged(resource: Resource, before: Object, metadata: Object) -> None:
    name = before["name"]
    version, uid = metadata.get("resourceVersion"), metadata.get("uid")
    prefix = f'Operation cannot be fulfilled on {_name(resource)} "{name}"'
    if uid is not None and uid != before["uid"]:
        what = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before['uid']}"
        raise Conflict(409, "Conflict", f"{prefix}: {what}")
    if version is not None and version != before["resourceVersion"]:
        what = "the object has been modified; please apply your changes to the latest version and try again"
        raise Conflict(409, "Conflict", f"{prefix}: {what}")
    if metadata.get("name", name) != name:
        raise ApiError(400, "BadRequest", f"the name of the object ({metadata['name']}) does not match {name}")


def _metadata(before: Object, new: Object) -> Object:
    """Metadata after a write: the server's own fields stay. Raises Invalid for a finalizer added after the deletion."""
    added = set(new.get("finalizers") or ()) - set(before.get("finalizers") or ())
    if before.get("deletionTimestamp") and added:
        what = "Forbidden: no new finalizers can be added if the object is being deleted"
        raise Invalid(422, "Invalid", f"metadata.finalizers: {what}, found new finalizers {sorted(added)}")
    fixed = {key: before[key] for key in ("name", "namespace", "resourceVersion", *_FROM_SERVER) if key in before}
    own = {key: value for key, value in new.items() if key not in _FROM_SERVER}
    return {key: value for key, value in {**own, **fixed}.items() if value not in ([], {})}


def _content(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def _has_status(kind: str, resource: Resource) -> bool:
    return resource.group == GROUP or kind in _WITH_STATUS


def _grace(pod: Object, asked: int | None) -> int:
    """Seconds that a pod gets to end: none before it has a node, or when it has ended."""
    if not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return 0
    return int(pod["spec"].get("terminationGracePeriodSeconds", _GRACE_SECONDS)) if asked is None else asked


def _key(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}"


_RESOURCES = {_key(resource): resource for resource in KINDS}


def _name(resource: Resource) -> str:
    return _key(resource).removesuffix(".")


def _place(resource: Resource, namespace: str, name: str) -> Place:
    return Place(_key(resource), namespace if resource.namespaced else "", name)


def _place_of(resource: Resource, obj: Object) -> Place:
    return _place(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
