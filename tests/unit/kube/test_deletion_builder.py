"""The clean-up Job: reaches what the class's drivers reach, can do no more than they, and comes to an end by itself."""

from __future__ import annotations

import base64
import copy
import json
from dataclasses import replace
from typing import Any

from sparksql.api import names
from sparksql.api.session_class import (
    PodTemplates,
    Scheduling,
    SqlSessionClassSpec,
    Storage,
    VolumeClaim,
)
from sparksql.api.settings import SessionSettings
from sparksql.gateway import clean
from sparksql.kube.builders import DataDeletion, deletion_job, deletion_secret
from sparksql.kube.builders.deletion import CONF_FILE, REFUSED_CODE
from tests.unit.kube.effective_sessions import FULL

ROOT = "s3a://lake/savepoints"
PLAIN = DataDeletion(
    namespace="team-a",
    savepoint="before-release",
    uid="6f0c2a9e-0000-4000-8000-000000000002",
    target=f"{ROOT}/team-a/orders/before-release-6f0c2a9e-0000-4000-8000-000000000002",
    root=ROOT,
    service_account="spark",
    session_class=SqlSessionClassSpec(image="registry.example/session:1"),
)
NAME = names.child_base(PLAIN.savepoint, PLAIN.uid)
RICH = replace(
    PLAIN,
    operator_conf={"spark.hadoop.a": "operator", "spark.hadoop.b": "operator", "spark.hadoop.c": "operator"},
    session_class=SqlSessionClassSpec(
        image="registry.example/session:1",
        defaults=SessionSettings(conf={"spark.hadoop.b": "class", "spark.hadoop.c": "class", "spark.sql.x": "key"}),
        enforced_conf={"spark.hadoop.c": "enforced", "spark.kafka.password": "secret"},
        pod_template=PodTemplates(driver=FULL.driver_template),
        storage=Storage(volume_claim=VolumeClaim(name="spark-data", mount_path="/data"), savepoint_root=ROOT),
        scheduling=Scheduling(
            scheduler_name="yunikorn", queue_label={"kueue.x-k8s.io/queue-name": "batch"}, priority_class_name="high"
        ),
    ),
)
LABELS = {
    "app.kubernetes.io/name": "spark-sql-cleaner",
    "app.kubernetes.io/component": "cleaner",
    "app.kubernetes.io/managed-by": "spark-sql-operator",
    "sparksql.dev/savepoint": "before-release",
    "sparksql.dev/savepoint-uid": PLAIN.uid,
}


def pod(deletion: DataDeletion) -> dict[str, Any]:
    found: dict[str, Any] = deletion_job(deletion)["spec"]["template"]
    return found


def test_job_without_a_template_golden() -> None:
    job = deletion_job(PLAIN)
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert job["metadata"] == {"name": NAME, "namespace": "team-a", "labels": LABELS}
    assert {key: value for key, value in job["spec"].items() if key != "template"} == {
        "activeDeadlineSeconds": 600,
        "backoffLimit": 6,
        "ttlSecondsAfterFinished": 600,
        "podFailurePolicy": {
            "rules": [{"action": "FailJob", "onExitCodes": {"containerName": "spark", "operator": "In", "values": [2]}}]
        },
    }
    assert pod(PLAIN) == {
        "metadata": {"labels": LABELS, "annotations": {}},
        "spec": {
            "restartPolicy": "Never",
            "serviceAccountName": "spark",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "fsGroupChangePolicy": "OnRootMismatch",
                "runAsNonRoot": True,
                "runAsUser": 185,
                "runAsGroup": 185,
                "fsGroup": 185,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumes": [
                {"name": "sparksql-tmp", "emptyDir": {}},
                {"name": "sparksql-config", "secret": {"secretName": NAME, "defaultMode": 0o440}},
            ],
            "containers": [
                {
                    "name": "spark",
                    "image": "registry.example/session:1",
                    "imagePullPolicy": "IfNotPresent",
                    "args": [
                        "python3",
                        "-m",
                        "sparksql.gateway.clean",
                        f"--target={PLAIN.target}",
                        f"--root={ROOT}",
                        f"--owner-uid={PLAIN.uid}",
                        "--conf=/etc/sparksql/hadoop.json",
                    ],
                    "env": [{"name": "SPARKSQL_FILE_ROOTS", "value": "/tmp"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "512Mi"}},
                    "volumeMounts": [
                        {"name": "sparksql-tmp", "mountPath": "/tmp"},
                        {"name": "sparksql-config", "mountPath": "/etc/sparksql", "readOnly": True},
                    ],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "privileged": False,
                        "capabilities": {"drop": ["ALL"]},
                        "runAsNonRoot": True,
                        "runAsUser": 185,
                        "readOnlyRootFilesystem": True,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                }
            ],
        },
    }


def test_the_job_has_what_a_driver_needs_to_reach_the_storage() -> None:
    template = pod(RICH)
    spec = template["spec"]
    [spark] = spec["containers"]
    assert template["metadata"]["labels"]["team"] == "data"
    assert template["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "batch"
    assert (spec["schedulerName"], spec["priorityClassName"]) == ("yunikorn", "high")
    assert spec["nodeSelector"] == {"pool": "spark"}
    assert spec["tolerations"] == [{"key": "spark", "operator": "Exists"}]
    assert [one["name"] for one in spec["initContainers"]] == ["fetch"]
    assert {"name": "EXTRA", "value": "1"} in spark["env"]
    assert {"name": "SPARKSQL_FILE_ROOTS", "value": "/data:/tmp:/var/spark/local"} in spark["env"]
    kinds = {volume["name"]: next(key for key in volume if key != "name") for volume in spec["volumes"]}
    assert {mount["mountPath"]: kinds[mount["name"]] for mount in spark["volumeMounts"]} == {
        "/tmp": "emptyDir",
        "/var/spark/local": "emptyDir",
        "/data": "persistentVolumeClaim",
        "/etc/sparksql": "secret",
    }


def test_no_template_loosens_the_job_or_keeps_it_from_its_end() -> None:
    spec = pod(RICH)["spec"]
    [spark] = spec["containers"]  # no sidecar
    assert (spec["restartPolicy"], spec["serviceAccountName"]) == ("Never", "spark")
    assert spec["automountServiceAccountToken"] is False
    assert "hostNetwork" not in spec
    assert spark["image"] == "registry.example/session:1"
    assert spark["resources"] == {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "512Mi"}}
    assert not {"command", "ports", "readinessProbe", "livenessProbe"} & spark.keys()
    for one in (*spec["initContainers"], spark):
        context = one["securityContext"]
        assert (context["privileged"], context["allowPrivilegeEscalation"]) == (False, False), one["name"]


def test_the_secret_has_the_settings_of_file_systems_only_and_goes_with_the_savepoint() -> None:
    secret = deletion_secret(RICH)
    assert secret["metadata"] == {
        "name": NAME,
        "namespace": "team-a",
        "labels": LABELS,
        "ownerReferences": [
            {
                "apiVersion": "sparksql.dev/v1alpha1",
                "kind": "SqlSavepoint",
                "name": "before-release",
                "uid": PLAIN.uid,
            }
        ],
    }
    assert json.loads(base64.b64decode(secret["data"][CONF_FILE])) == {
        "spark.hadoop.a": "operator",
        "spark.hadoop.b": "class",
        "spark.hadoop.c": "enforced",
    }
    assert "enforced" not in json.dumps(deletion_job(RICH))


def test_the_longest_name_fits_a_label_and_another_uid_has_another_name() -> None:
    longest = replace(PLAIN, savepoint="s" * names.MAX_NAME_LENGTH)
    assert len(longest.name) <= 63
    assert replace(PLAIN, uid="other").name != PLAIN.name


def test_job_and_program_agree_on_the_code_of_a_refusal() -> None:
    assert REFUSED_CODE == clean.REFUSED


def test_building_leaves_the_template_alone() -> None:
    before = copy.deepcopy(FULL.driver_template)
    deletion_job(RICH)
    assert FULL.driver_template == before
