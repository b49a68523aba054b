"""The store of local mode beside the real API server: what the operator's client does has the same outcome on both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sparksql.api.names import API_VERSION
from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.errors import AlreadyExists, Conflict, Invalid, NotFound
from sparksql.kube.resources import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICES,
    SESSIONS,
    STATEMENTS,
    Resource,
)
from sparksql.local.client import LocalClient
from sparksql.local.objects.store import ObjectStore
from tests.support.apiserver import ApiServer

Object = dict[str, Any]
STATEMENT: Object = {"sql": "SELECT 1", "sessionRef": {"name": "s"}}


class Side:
    """A client and a namespace of its own behind it."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client, self.namespace = client, namespace

    async def create(self, resource: Resource, kind: str, name: str = "a", **content: Any) -> Object:
        metadata = {"name": name, "namespace": self.namespace, **content.pop("metadata", {})}
        body = {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata, **content}
        return await self.client.create(resource, self.namespace, body)

    async def statement(self, name: str = "a", **spec: Any) -> Object:
        return await self.create(STATEMENTS, "SqlStatement", name, spec={**STATEMENT, **spec})

    async def pod(self, name: str = "a", **metadata: Any) -> Object:
        spec = {"containers": [{"name": "spark", "image": "i"}], "terminationGracePeriodSeconds": 25}
        return await self.create(PODS, "Pod", name, spec=spec, metadata=metadata)

    async def get(self, resource: Resource, name: str = "a") -> Object:
        return await self.client.get(resource, self.namespace, name)

    async def patch(self, resource: Resource, body: Object, subresource: str = "", name: str = "a") -> Object:
        return await self.client.patch_merge(resource, self.namespace, name, body, subresource)

    async def delete(self, resource: Resource, name: str = "a", **options: Any) -> None:
        await self.client.delete(resource, self.namespace, name, **options)


@pytest.fixture(params=["store", "server"])
async def side(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Side]:
    if request.param == "store":
        store = ObjectStore(tmp_path / "objects.db")
        store.create(NAMESPACES, "", {"metadata": {"name": "default"}})
        yield Side(LocalClient(store), "default")
        store.close()
        return
    server: ApiServer = request.getfixturevalue("crds")
    credentials = Credentials.from_kubeconfig(server.kubeconfig)
    namespace = server.namespace()
    server.request(
        "POST",
        f"/api/v1/namespaces/{namespace}/serviceaccounts",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}},
    )
    async with KubeClient(credentials) as client:
        yield Side(client, namespace)


async def test_create_returns_identity_and_defaults_without_the_status_sent(side: Side) -> None:
    obj = await side.create(
        STATEMENTS, "SqlStatement", spec=STATEMENT, status={"observedGeneration": 7}, metadata={"uid": "mine"}
    )
    metadata = obj["metadata"]
    assert (obj["apiVersion"], obj["kind"]) == (API_VERSION, "SqlStatement")
    assert (metadata["namespace"], metadata["generation"], obj["status"]) == (
        side.namespace,
        1,
        {"observedGeneration": -1},
    )
    assert metadata["uid"] != "mine" and metadata["resourceVersion"] and metadata["creationTimestamp"]
    assert (obj["spec"]["mode"], obj["spec"]["priority"]) == ("Execute", 0)
    assert await side.get(STATEMENTS) == obj


async def test_second_object_of_a_name_is_refused(side: Side) -> None:
    await side.statement()
    with pytest.raises(AlreadyExists) as refused:
        await side.statement()
    assert refused.value.message == 'sqlstatements.sparksql.dev "a" already exists'


async def test_missing_object_is_not_found_by_any_verb(side: Side) -> None:
    for request in (side.get(STATEMENTS), side.patch(STATEMENTS, {}), side.delete(STATEMENTS)):
        with pytest.raises(NotFound) as refused:
            await request
        assert refused.value.message == 'sqlstatements.sparksql.dev "a" not found'


async def test_object_of_a_missing_namespace_is_refused(side: Side) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    with pytest.raises(NotFound) as refused:
        await side.client.create(CONFIG_MAPS, "not-there", body)
    assert refused.value.message == 'namespaces "not-there" not found'


async def test_name_with_capitals_is_refused(side: Side) -> None:
    with pytest.raises(Invalid) as refused:
        await side.create(CONFIG_MAPS, "ConfigMap", "Capital")
    assert 'metadata.name: Invalid value: "Capital"' in refused.value.message


async def test_checked_creation_stores_nothing(side: Side) -> None:
    body = {"apiVersion": API_VERSION, "kind": "SqlStatement", "metadata": {"name": "a"}, "spec": STATEMENT}
    await side.client.check_create(STATEMENTS, side.namespace, body)
    with pytest.raises(NotFound):
        await side.get(STATEMENTS)
    with pytest.raises(Invalid):
        await side.client.check_create(STATEMENTS, side.namespace, {**body, "spec": {"sql": "SELECT 1"}})


async def test_spec_change_alone_makes_a_generation(side: Side) -> None:
    first = await side.statement()
    annotated = await side.patch(STATEMENTS, {"metadata": {"annotations": {"k": "v"}}})
    reported = await side.patch(STATEMENTS, {"status": {"phase": "Running"}}, "status")
    changed = await side.patch(STATEMENTS, {"spec": {"priority": 5}})
    assert [each["metadata"]["generation"] for each in (first, annotated, reported, changed)] == [1, 1, 1, 2]
    versions = [int(each["metadata"]["resourceVersion"]) for each in (first, annotated, reported, changed)]
    assert versions == sorted(set(versions))


async def test_write_without_a_change_makes_no_version(side: Side) -> None:
    await side.statement()
    first = await side.patch(STATEMENTS, {"spec": {"priority": 0}})  # the server notes who has set which field
    assert await side.patch(STATEMENTS, {"spec": {"priority": 0}}) == first
    assert await side.patch(STATEMENTS, {"status": {"observedGeneration": -1}}, "status") == first


async def test_status_and_the_rest_are_written_apart(side: Side) -> None:
    await side.statement()
    both = {"spec": {"priority": 3}, "status": {"phase": "Running"}}
    changed = await side.patch(STATEMENTS, both)
    assert (changed["spec"]["priority"], changed["status"].get("phase")) == (3, None)
    reported = await side.patch(STATEMENTS, {**both, "spec": {"priority": 9}}, "status")
    assert (reported["spec"]["priority"], reported["status"]["phase"]) == (3, "Running")


async def test_merge_patch_removes_null_fields_and_replaces_lists(side: Side) -> None:
    await side.create(CONFIG_MAPS, "ConfigMap", data={"a": "1", "b": "2"}, metadata={"finalizers": ["x.y/a", "x.y/b"]})
    patched = await side.patch(CONFIG_MAPS, {"data": {"a": None, "c": "3"}, "metadata": {"finalizers": ["x.y/c"]}})
    assert (patched["data"], patched["metadata"]["finalizers"]) == ({"b": "2", "c": "3"}, ["x.y/c"])


async def test_write_on_an_old_version_is_a_conflict(side: Side) -> None:
    old = await side.statement()
    await side.patch(STATEMENTS, {"spec": {"priority": 1}})
    version = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}}
    writes = (
        side.patch(STATEMENTS, {**version, "spec": {"priority": 2}}),
        side.patch(STATEMENTS, {**version, "status": {"phase": "Running"}}, "status"),
        side.client.replace(STATEMENTS, side.namespace, "a", old),
    )
    for write in writes:
        with pytest.raises(Conflict) as refused:
            await write
        assert "the object has been modified" in refused.value.message
    assert (await side.get(STATEMENTS))["spec"]["priority"] == 1


async def test_replace_keeps_server_fields_and_status(side: Side) -> None:
    before = await side.statement()
    changed = {**before, "spec": {**before["spec"], "priority": 4}, "status": {"phase": "Running"}}
    after = await side.client.replace(STATEMENTS, side.namespace, "a", changed)
    assert (after["spec"]["priority"], after["status"]) == (4, before["status"])
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_immutable_field_is_refused_and_nothing_is_written(side: Side) -> None:
    before = await side.statement()
    with pytest.raises(Invalid) as refused:
        await side.patch(STATEMENTS, {"spec": {"sql": "SELECT 2"}})
    assert "sql is immutable unless spec.streaming is set" in refused.value.message
    assert refused.value.fields == ("spec",)
    assert await side.get(STATEMENTS) == before


async def test_object_with_a_finalizer_goes_when_the_finalizer_goes(side: Side) -> None:
    await side.create(SESSIONS, "SqlSession", spec={}, metadata={"finalizers": ["x.y/a"]})
    await side.delete(SESSIONS)
    marked = await side.get(SESSIONS)
    assert marked["metadata"]["deletionTimestamp"] and marked["metadata"]["generation"] == 2
    await side.delete(SESSIONS)
    assert await side.get(SESSIONS) == marked
    with pytest.raises(Invalid):
        await side.patch(SESSIONS, {"metadata": {"finalizers": ["x.y/a", "x.y/late"]}})
    version = marked["metadata"]["resourceVersion"]
    last = await side.patch(SESSIONS, {"metadata": {"resourceVersion": version, "finalizers": []}})
    assert last["metadata"].get("finalizers") is None and last["metadata"]["deletionTimestamp"]
    with pytest.raises(NotFound):
        await side.get(SESSIONS)


async def test_deletion_of_another_uid_is_a_conflict(side: Side) -> None:
    obj = await side.statement()
    with pytest.raises(Conflict):
        await side.delete(STATEMENTS, uid="11111111-2222-3333-4444-555555555555")
    await side.delete(STATEMENTS, uid=obj["metadata"]["uid"])
    successor = await side.statement()
    assert successor["metadata"]["uid"] != obj["metadata"]["uid"]


async def test_pod_without_a_node_goes_at_once(side: Side) -> None:
    pod = await side.pod()
    assert pod["status"]["phase"] == "Pending"
    await side.delete(PODS)
    with pytest.raises(NotFound):
        await side.get(PODS)


async def _bind(side: Side) -> None:
    if isinstance(side.client, LocalClient):
        await side.patch(PODS, {"spec": {"nodeName": "node"}})
        return
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "node"}}
    await side.client.create(Resource("", "v1", "pods/a/binding"), side.namespace, binding)


async def test_deleted_pod_on_a_node_has_a_grace_period_until_the_node_confirms(side: Side) -> None:
    await side.pod()
    await _bind(side)
    await side.delete(PODS)
    marked = await side.get(PODS)
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 25
    await side.delete(PODS, grace_seconds=60)
    assert (await side.get(PODS))["metadata"]["deletionGracePeriodSeconds"] == 25
    await side.delete(PODS, grace_seconds=3)
    assert (await side.get(PODS))["metadata"]["deletionGracePeriodSeconds"] == 3
    await side.delete(PODS, uid=marked["metadata"]["uid"], grace_seconds=0)
    with pytest.raises(NotFound):
        await side.get(PODS)


async def test_ended_pod_goes_at_once(side: Side) -> None:
    await side.pod()
    await _bind(side)
    await side.patch(PODS, {"status": {"phase": "Failed"}}, "status")
    await side.delete(PODS)
    with pytest.raises(NotFound):
        await side.get(PODS)


async def test_secret_string_data_becomes_data(side: Side) -> None:
    secret = await side.create(SECRETS, "Secret", stringData={"k": "v"}, data={"l": "dw=="})
    assert (secret["data"], secret["type"], "stringData" in secret) == ({"k": "dg==", "l": "dw=="}, "Opaque", False)


async def test_apply_changes_fields_and_removes_fields_applied_before(side: Side) -> None:
    def body(**labels: str) -> Object:
        metadata = {"name": "a", "namespace": side.namespace, "labels": labels}
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"clusterIP": "None", "ports": [{"name": "a", "port": 1, "protocol": "TCP"}]},
        }

    async def apply(**labels: str) -> Object:
        return await side.client.apply(SERVICES, side.namespace, "a", body(**labels))

    first = await apply(one="1", two="2")
    await side.patch(SERVICES, {"metadata": {"labels": {"other": "o"}}})
    second = await apply(one="9")
    assert second["metadata"]["labels"] == {"one": "9", "other": "o"}
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert (await apply(one="9"))["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_listing_selects_by_labels_and_has_a_version(side: Side) -> None:
    await side.pod("a", labels={"app": "x"})
    await side.pod("b", labels={"app": "y"})
    last = await side.pod("c", labels={"app": "z"})
    listing = await side.client.list(PODS, side.namespace, label_selector="app in (x,y)")
    assert [each["metadata"]["name"] for each in listing.items] == ["a", "b"]
    assert {each["kind"] for each in listing.items} == {"Pod"}
    assert int(listing.resource_version) >= int(last["metadata"]["resourceVersion"])
    one = await side.client.list(PODS, side.namespace, label_selector="app=z")
    assert [each["metadata"]["name"] for each in one.items] == ["c"]


async def test_events_are_listed_by_the_uid_of_the_involved_object(side: Side) -> None:
    for name, uid in (("a", "u1"), ("b", "u2"), ("c", "u1")):
        involved = {"kind": "Pod", "name": "p", "uid": uid, "namespace": side.namespace}
        await side.create(EVENTS, "Event", name, involvedObject=involved, reason="R", type="Normal")
    found = await side.client.list_some(EVENTS, side.namespace, "involvedObject.uid=u1", 100)
    assert [each["metadata"]["name"] for each in found] == ["a", "c"]
    assert len(await side.client.list_some(EVENTS, side.namespace, "involvedObject.uid=u1", 1)) == 1


async def test_concurrent_writers_of_a_version_have_a_single_winner(side: Side) -> None:
    obj = await side.statement()
    version = obj["metadata"]["resourceVersion"]
    writes = [
        side.patch(STATEMENTS, {"metadata": {"resourceVersion": version}, "spec": {"priority": number}})
        for number in range(1, 6)
    ]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(isinstance(each, Conflict) for each in outcomes) == 4
    assert (await side.get(STATEMENTS))["metadata"]["generation"] == 2
