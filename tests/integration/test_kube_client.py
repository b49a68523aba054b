"""The client and the writers on a real API server: what it stores, refuses, and answers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from sparksql.api import names
from sparksql.api.session_class import Scheduling, VolumeClaim
from sparksql.domain.public_text import PublicText
from sparksql.domain.session.effective_session import DriverSize, EffectiveSession, ExecutorSize
from sparksql.engine.store import Store
from sparksql.kube import builders
from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from sparksql.kube.events import EventRecorder
from sparksql.kube.finalizers import add_finalizer, remove_finalizer
from sparksql.kube.resources import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NETWORK_POLICIES,
    PODS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    SESSIONS,
    STATEMENTS,
)
from sparksql.kube.status import StatusWriter
from sparksql.kube.tls import session_certificate
from tests.support.apiserver import ApiServer
from tests.support.watching import watching

STATEMENT = "SqlStatement"


@pytest_asyncio.fixture
async def client(apiserver: ApiServer) -> AsyncIterator[KubeClient]:
    async with KubeClient(Credentials.from_kubeconfig(apiserver.kubeconfig)) as client:
        yield client


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"set": "mine"}},
        "data": data,
    }


async def create_statement(client: KubeClient, namespace: str, name: str = "one") -> dict[str, Any]:
    body = {
        "apiVersion": names.API_VERSION,
        "kind": STATEMENT,
        "metadata": {"name": name},
        "spec": {"sessionRef": {"name": "analytics"}, "sql": "SELECT 1"},
    }
    return await client.create(STATEMENTS, namespace, body)


async def test_an_object_from_creation_to_deletion(client: KubeClient, namespace: str) -> None:
    made = await client.create(CONFIG_MAPS, namespace, config_map("a", k="1"))
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, namespace, config_map("a"))
    changed = await client.replace(CONFIG_MAPS, namespace, "a", {**made, "data": {"k": "2"}})
    with pytest.raises(Conflict):
        await client.replace(CONFIG_MAPS, namespace, "a", {**made, "data": {"k": "3"}})
    assert await client.get(CONFIG_MAPS, namespace, "a") == changed
    patched = await client.patch_merge(CONFIG_MAPS, namespace, "a", {"data": {"k": None, "l": "4"}})
    assert patched["data"] == {"l": "4"}
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, namespace, "a", uid=str(uuid.uuid4()))
    await client.delete(CONFIG_MAPS, namespace, "a", uid=made["metadata"]["uid"], propagation="Background")
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, namespace, "a")
    with pytest.raises(NotFound):
        await client.delete(CONFIG_MAPS, namespace, "a")


async def test_apply_makes_then_takes_over(client: KubeClient, namespace: str) -> None:
    made = await client.apply(CONFIG_MAPS, namespace, "a", config_map("a", k="1"))
    await client.patch_merge(CONFIG_MAPS, namespace, "a", {"data": {"k": "theirs", "other": "x"}})
    applied = await client.apply(CONFIG_MAPS, namespace, "a", config_map("a", k="2"))
    assert applied["data"] == {"k": "2", "other": "x"}
    assert {"spark-sql-operator"} <= {entry["manager"] for entry in applied["metadata"]["managedFields"]}
    assert applied["metadata"]["uid"] == made["metadata"]["uid"]


async def test_a_listing_in_pages_equals_one_in_whole(client: KubeClient, namespace: str) -> None:
    for number in range(7):
        await client.create(CONFIG_MAPS, namespace, config_map(f"c{number}"))
    paged = await client.list(CONFIG_MAPS, namespace, label_selector="set=mine", page_size=2)
    whole = await client.list(CONFIG_MAPS, namespace, label_selector="set=mine")
    assert [item["metadata"]["name"] for item in paged.items] == [f"c{number}" for number in range(7)]
    assert paged.items == whole.items
    assert {(item["apiVersion"], item["kind"]) for item in paged.items} == {("v1", "ConfigMap")}
    assert int(paged.resource_version) >= max(int(item["metadata"]["resourceVersion"]) for item in paged.items)
    everywhere = await client.list(CONFIG_MAPS, label_selector="set=mine")
    assert {namespace} <= {item["metadata"]["namespace"] for item in everywhere.items}


async def test_a_watch_goes_on_from_a_listing(client: KubeClient, apiserver: ApiServer, namespace: str) -> None:
    await client.create(CONFIG_MAPS, namespace, config_map("before"))
    listing = await client.list(CONFIG_MAPS, namespace)
    await client.create(CONFIG_MAPS, namespace, config_map("a"))
    await client.patch_merge(CONFIG_MAPS, namespace, "a", {"data": {"k": "1"}})
    await client.delete(CONFIG_MAPS, namespace, "a")
    async with asyncio.timeout(60), watching(apiserver.kubeconfig) as watcher:
        changes = watcher.watch(CONFIG_MAPS, namespace, resource_version=listing.resource_version)
        async with aclosing(changes):
            seen = [await anext(changes) for _ in range(3)]
    assert [(kind, obj["metadata"]["name"]) for kind, obj in seen] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
    ]


async def test_a_namespace_that_ends_is_told_from_other_refusals(client: KubeClient, namespace: str) -> None:
    await client.create(CONFIG_MAPS, namespace, config_map("stays"))
    await client.delete(NAMESPACES, "", namespace)
    with pytest.raises(Forbidden) as violation:
        await client.create(CONFIG_MAPS, namespace, config_map("late"))
    assert violation.value.namespace_terminating
    assert not violation.value.quota_exceeded


async def test_an_invalid_object_names_the_field_and_hides_the_value(client: KubeClient, namespace: str) -> None:
    with pytest.raises(Invalid) as violation:
        await client.create(CONFIG_MAPS, namespace, config_map("UPPER secret"))
    assert "metadata.name" in str(violation.value)
    assert "secret" not in str(violation.value)


async def test_a_status_is_compared_guarded_and_seen_at_once(
    client: KubeClient, crds: ApiServer, namespace: str
) -> None:
    store = Store()
    writer = StatusWriter(client, store)
    made = await create_statement(client, namespace)
    store.apply(STATEMENT, made)

    pending = {
        "observedGeneration": 1,
        "phase": "Pending",
        "statementType": None,
        "result": {"columns": [{"name": "a", "type": "int"}], "preview": [["1", None]]},
        "progress": {"tasksDone": 1, "tasksTotal": 2},
    }
    written = await writer.write(STATEMENT, made, pending)
    assert written["status"]["phase"] == "Pending"
    assert written["status"]["result"]["preview"] == [["1", None]]
    kept = store.get(STATEMENT, namespace, "one")
    assert kept is not None
    assert kept["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]
    assert await writer.write(STATEMENT, written, written["status"]) is written

    with pytest.raises(Conflict):
        await writer.write(STATEMENT, made, {"observedGeneration": 1, "phase": "Running"})
    fewer = {"observedGeneration": 1, "phase": "Running", "progress": {"tasksDone": 2}}
    running = await writer.write(STATEMENT, written, fewer)
    assert running["status"] == fewer
    assert running["spec"] == made["spec"]

    await client.delete(STATEMENTS, namespace, "one")
    with pytest.raises(NotFound):
        await writer.write(STATEMENT, running, {"observedGeneration": 1, "phase": "Finished"})


async def test_refresh_brings_the_store_up_to_date(client: KubeClient, crds: ApiServer, namespace: str) -> None:
    store = Store()
    writer = StatusWriter(client, store)
    assert await writer.refresh(STATEMENT, namespace, "one") is None
    made = await create_statement(client, namespace)
    live = await writer.refresh(STATEMENT, namespace, "one")
    assert live is not None
    assert live["metadata"]["uid"] == made["metadata"]["uid"]
    assert store.get(STATEMENT, namespace, "one") is not None
    await client.delete(STATEMENTS, namespace, "one")
    assert await writer.refresh(STATEMENT, namespace, "one") is None
    assert store.get(STATEMENT, namespace, "one") is None
    assert not store.apply(STATEMENT, made)


async def test_a_finalizer_goes_on_once_and_lets_go(client: KubeClient, crds: ApiServer, namespace: str) -> None:
    store = Store()
    made = await create_statement(client, namespace)
    held = await add_finalizer(client, store, STATEMENT, made)
    assert held["metadata"]["finalizers"] == ["sparksql.dev/cleanup"]
    assert await add_finalizer(client, store, STATEMENT, held) is held
    with pytest.raises(Conflict):
        await add_finalizer(client, store, STATEMENT, made)

    others = [*held["metadata"]["finalizers"], "example.com/other"]
    shared = await client.patch_merge(STATEMENTS, namespace, "one", {"metadata": {"finalizers": others}})
    await client.delete(STATEMENTS, namespace, "one")
    with pytest.raises(Conflict):
        await remove_finalizer(client, store, STATEMENT, shared)
    ending = await client.get(STATEMENTS, namespace, "one")
    left = await remove_finalizer(client, store, STATEMENT, ending)
    assert left is not None
    assert left["metadata"]["finalizers"] == ["example.com/other"]
    assert await remove_finalizer(client, store, STATEMENT, left) is left


async def test_the_last_finalizer_ends_the_object_in_the_store_too(
    client: KubeClient, crds: ApiServer, namespace: str
) -> None:
    store = Store()
    await add_finalizer(client, store, STATEMENT, await create_statement(client, namespace))
    await client.delete(STATEMENTS, namespace, "one")
    ending = await client.get(STATEMENTS, namespace, "one")
    assert await remove_finalizer(client, store, STATEMENT, ending) is None
    assert store.list(STATEMENT) == []
    assert not store.apply(STATEMENT, ending)
    with pytest.raises(NotFound):
        await client.get(STATEMENTS, namespace, "one")
    assert await remove_finalizer(client, store, STATEMENT, ending) is None


async def test_events_are_accepted_and_counted(
    client: KubeClient, crds: ApiServer, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparksql.kube.events.STOP_SECONDS", 60.0)  # what is looked at is that they arrive
    made = await create_statement(client, namespace)
    recorder = EventRecorder(client, "spark-sql-operator")
    await recorder.start()
    for _ in range(3):
        recorder.emit(made, "Warning", "SessionNotReady", PublicText("waits for session analytics"))
    recorder.emit(made, "Normal", "Finished", PublicText("done"))
    await recorder.stop()
    assert recorder.dropped == 0
    listed = (await client.list(EVENTS, namespace)).items
    events = [event for event in listed if event["involvedObject"]["uid"] == made["metadata"]["uid"]]
    assert sorted((event["reason"], event["count"]) for event in events) == [("Finished", 1), ("SessionNotReady", 3)]


def effective(namespace: str, uid: str) -> EffectiveSession:
    hostile = {"privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}, "allowPrivilegeEscalation": True}
    template = {
        "metadata": {"labels": {"team": "data"}},
        "spec": {
            "hostNetwork": True,
            "hostPID": True,
            "securityContext": {"runAsUser": 0},
            "nodeSelector": {"pool": "spark"},
            "initContainers": [{"name": "fetch", "image": "fetch:1", "securityContext": hostile}],
            "containers": [
                {"name": "logs", "image": "logs:1", "securityContext": {"runAsUser": 1000}},
                {"name": "spark", "env": [{"name": "EXTRA", "value": "1"}], "securityContext": hostile},
            ],
        },
    }
    return EffectiveSession(
        namespace=namespace,
        name="analytics",
        uid=uid,
        class_name="standard",
        image="registry.example/session:1",
        image_pull_policy="IfNotPresent",
        driver=DriverSize(cpu="500m", cores=1, heap_mib=1024, pod_mib=2008),
        executors=ExecutorSize(cpu="1", cores=1, memory_mib=1024),
        conf={},
        enforced_conf={},
        service_account="spark",
        create_service_account=True,
        volume_claim=VolumeClaim(name="spark-data", mount_path="/data"),
        scheduling=Scheduling(scheduler_name="yunikorn", queue_label={"kueue.x-k8s.io/queue-name": "batch"}),
        network_clients=({"podSelector": {"matchLabels": {"app": "bi"}}},),
        driver_template=template,
        executor_template=template,
    )


async def test_every_child_is_accepted_in_a_restricted_namespace(
    client: KubeClient, crds: ApiServer, namespace: str
) -> None:
    restricted = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await client.patch_merge(NAMESPACES, "", namespace, restricted)
    owner = {"apiVersion": names.API_VERSION, "kind": "SqlSession", "metadata": {"name": "analytics"}, "spec": {}}
    uid = (await client.create(SESSIONS, namespace, owner))["metadata"]["uid"]
    session = effective(namespace, uid)
    cert, key = session_certificate(session.name, uid, namespace, datetime.now(UTC))
    secret = builders.secret(
        session, token="t", cert_pem=cert, key_pem=key, config_json="{}", executor_template_json="{}"
    )
    bare = replace(session, driver_template={}, executor_template={}, volume_claim=None)
    executor = builders.executor_template(session, 1)
    # As Spark completes it: name and image.
    executor["metadata"]["name"] = "exec-1"
    executor["spec"]["containers"][0]["image"] = session.image
    for resource, manifest in (
        (SECRETS, secret),
        (SERVICES, builders.service(session, 1)),
        (NETWORK_POLICIES, builders.network_policy(session, "system")),
        (NETWORK_POLICIES, builders.network_policy(replace(session, name="other"), None)),
        (SERVICE_ACCOUNTS, builders.service_account(namespace, "spark")),
        (ROLE_BINDINGS, builders.role_binding(namespace, "spark")),
        (PODS, builders.driver_pod(session, 1, "0123456789abcdef")),
        (PODS, builders.driver_pod(bare, 2, "0123456789abcdef")),
        (PODS, executor),
    ):
        made = await client.create(resource, namespace, manifest)
        assert made["metadata"]["name"] == manifest["metadata"]["name"]
    again = await client.apply(SERVICES, namespace, names.child_base("analytics", uid), builders.service(session, 1))
    assert again["spec"]["clusterIP"] == "None"
