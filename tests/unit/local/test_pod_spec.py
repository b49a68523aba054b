"""A pod's spec as a process of this machine: files of volumes, variables, program, status."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import pytest

from sparksql.kube.errors import NotFound
from sparksql.local.pods import pod_spec
from sparksql.wire.driver import CONFIG_DIR_ENV, LOCAL_MASTER_ENV

VOLUMES = Path("/instance/pods/u/volumes")


def _read(kind: str, name: str) -> Any:
    objects: dict[tuple[str, str], Any] = {
        ("Secret", "keys"): {
            "data": {"token": base64.b64encode(b"t").decode(), "more": base64.b64encode(b"m").decode()}
        },
        ("ConfigMap", "texts"): {"data": {"a.txt": "text"}},
    }
    if (kind, name) not in objects:
        raise NotFound(404, "NotFound", f"{name} not found")
    return objects[kind, name]


def _pod(**container: Any) -> dict[str, Any]:
    volumes = [
        {"name": "copy", "emptyDir": {}},
        {"name": "secrets", "projected": {"sources": [{"secret": {"name": "keys"}}]}},
        {"name": "texts", "configMap": {"name": "texts", "items": [{"key": "a.txt", "path": "b.txt"}]}},
        {"name": "scratch", "emptyDir": {}},
    ]
    mounts = [{"name": "secrets", "mountPath": "/from"}, {"name": "copy", "mountPath": "/etc/sparksql"}]
    init = {"name": "sparksql-configure", "volumeMounts": mounts}
    spark = {"name": "spark", "args": ["driver"], "volumeMounts": [mounts[1], {"name": "scratch", "mountPath": "/tmp"}]}
    spec = {
        "volumes": volumes,
        "initContainers": [init],
        "containers": [{"name": "sidecar", "image": "x"}, {**spark, **container}],
    }
    return {"metadata": {"name": "driver", "uid": "u"}, "spec": spec, "status": {"podIP": "127.1.2.3"}}


def test_volumes_have_the_files_of_their_sources_and_of_copies() -> None:
    assert pod_spec.files(_pod(), _read) == {
        "copy": {"token": b"t", "more": b"m"},
        "texts": {"b.txt": b"text"},
        "scratch": {},
    }


def test_volume_of_a_missing_secret_is_not_found() -> None:
    pod = _pod()
    pod["spec"]["volumes"].append({"name": "other", "secret": {"secretName": "absent"}})
    with pytest.raises(NotFound, match="absent"):
        pod_spec.files(pod, _read)


def test_variables_are_read_and_paths_of_mounts_lie_below_the_pod() -> None:
    env = [
        {"name": CONFIG_DIR_ENV, "value": "/etc/sparksql"},
        {"name": "FILE", "value": "/etc/sparksql/token"},
        {"name": "OTHER", "value": "/etc/sparksqlx"},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
        {"name": "TEXT", "valueFrom": {"configMapKeyRef": {"name": "texts", "key": "a.txt"}}},
    ]
    from_all = [{"prefix": "S_", "secretRef": {"name": "keys"}}]
    values = pod_spec.environment(_pod(env=env, envFrom=from_all), VOLUMES, _read)
    assert values[CONFIG_DIR_ENV] == str(VOLUMES / "copy")
    assert values["FILE"] == str(VOLUMES / "copy" / "token")
    assert (values["OTHER"], values["POD_IP"]) == ("/etc/sparksqlx", "127.1.2.3")
    assert (values["TOKEN"], values["TEXT"], values["S_more"]) == ("t", "text", "m")
    assert (values["TMPDIR"], values[LOCAL_MASTER_ENV]) == (str(VOLUMES / "scratch"), "local[*]")


def test_program_follows_the_argument_and_unknown_arguments_are_refused() -> None:
    assert pod_spec.command(_pod()) == [sys.executable, "-m", "sparksql.gateway.main"]
    with pytest.raises(pod_spec.UnsupportedPodError, match=r"\['metastore'\]"):
        pod_spec.command(_pod(args=["metastore"]))


@pytest.mark.parametrize(("code", "shown"), [(0, 0), (3, 3), (-9, 137)])
def test_exit_code_of_a_signal_is_128_and_the_signal(code: int, shown: int) -> None:
    assert pod_spec.exit_code(code) == shown


def test_status_of_a_drained_pod_names_the_disruption() -> None:
    conditions = pod_spec.status("Failed", {}, disrupted=True)["conditions"]
    assert {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"} in conditions
