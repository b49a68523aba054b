"""Spark's configuration of a session: which layer wins, and what nobody may change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparksql.kube import builders
from tests.unit.kube.effective_sessions import BASE, FULL, PLAIN


def test_spark_conf_of_a_plain_session_is_exactly_this() -> None:
    assert builders.spark_conf(PLAIN, 3) == {
        "spark.app.name": "team-a/analytics",
        "spark.authenticate": "true",
        "spark.authenticate.secret.driver.file": "/etc/sparksql/executor-secret",
        "spark.authenticate.secret.executor.file": "/etc/sparksql-executor/executor-secret",
        "spark.blockManager.port": "7079",
        "spark.driver.blockManager.port": "7079",
        "spark.driver.cores": "1",
        "spark.driver.port": "7078",
        "spark.dynamicAllocation.enabled": "false",
        "spark.executor.cores": "1",
        "spark.executor.failuresValidityInterval": "1h",
        "spark.executor.instances": "2",
        "spark.executor.maxNumFailures": "100",
        "spark.executor.memory": "2048m",
        "spark.kubernetes.authenticate.executor.serviceAccountName": "spark",
        "spark.kubernetes.container.image": "registry.example/session:1",
        "spark.kubernetes.container.image.pullPolicy": "IfNotPresent",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.executor.label.sparksql.dev/incarnation": "3",
        "spark.kubernetes.executor.podNamePrefix": f"{BASE}-3",
        "spark.kubernetes.executor.podTemplateContainerName": "spark",
        "spark.kubernetes.executor.podTemplateFile": "/etc/sparksql/executor.json",
        "spark.kubernetes.executor.request.cores": "1",
        "spark.kubernetes.namespace": "team-a",
        "spark.master": "k8s://https://kubernetes.default.svc",
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.killEnabled": "false",
    }


@pytest.mark.parametrize(
    ("key", "layers", "wins"),
    [
        ("spark.sql.shuffle.partitions", {"conf": "1"}, "1"),
        ("spark.sql.shuffle.partitions", {"conf": "1", "enforced_conf": "2"}, "2"),
        ("spark.sql.warehouse.dir", {"conf": "file:///elsewhere"}, "file:///data/warehouse"),
        ("spark.executor.memory", {"conf": "64g"}, "2048m"),
        ("spark.executor.memory", {"enforced_conf": "4g"}, "4g"),
        ("spark.authenticate", {"conf": "false", "enforced_conf": "false"}, "true"),
        ("spark.master", {"conf": "local[*]", "enforced_conf": "local[*]"}, "k8s://https://kubernetes.default.svc"),
        ("spark.kubernetes.executor.podTemplateFile", {"conf": "/tmp/x"}, "/etc/sparksql/executor.json"),
    ],
)
def test_spark_conf_value_is_that_of_the_strongest_layer(key: str, layers: dict[str, str], wins: str) -> None:
    session = replace(
        FULL,
        conf={key: layers["conf"]} if "conf" in layers else {},
        enforced_conf={key: layers["enforced_conf"]} if "enforced_conf" in layers else {},
    )
    assert builders.spark_conf(session, 1)[key] == wins


def test_spark_conf_with_dynamic_allocation() -> None:
    conf = builders.spark_conf(replace(PLAIN, executors=replace(PLAIN.executors, dynamic=(0, 10))), 1)
    allocation = {key: value for key, value in conf.items() if key.startswith("spark.dynamicAllocation.")}
    assert allocation == {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.initialExecutors": "0",
        "spark.dynamicAllocation.maxExecutors": "10",
        "spark.dynamicAllocation.shuffleTracking.timeout": "120s",
    }
    assert "spark.executor.instances" not in conf


@pytest.mark.parametrize(
    ("layers", "wins"),
    [
        ({}, "120s"),
        ({"conf": "900s"}, "900s"),
        ({"conf": "900s", "enforced_conf": "60s"}, "60s"),
    ],
)
def test_executors_with_shuffle_files_are_given_back_after_a_time_that_class_and_session_may_change(
    layers: dict[str, str], wins: str
) -> None:
    key = "spark.dynamicAllocation.shuffleTracking.timeout"
    said = {layer: {key: value} for layer, value in layers.items()}
    dynamic = replace(PLAIN, executors=replace(PLAIN.executors, dynamic=(0, 10)))
    assert builders.spark_conf(replace(dynamic, **said), 1)[key] == wins
    assert key not in builders.spark_conf(PLAIN, 1)


@pytest.mark.parametrize(
    ("instances", "dynamic", "most"),
    [(1, None, "100"), (25, None, "100"), (60, None, "240"), (1, (0, 10), "100"), (1, (2, 80), "320")],
)
def test_tolerated_executor_failures_exceed_sparks_default_for_any_number_of_executors(
    instances: int, dynamic: tuple[int, int] | None, most: str
) -> None:
    executors = replace(PLAIN.executors, instances=instances, dynamic=dynamic)
    conf = builders.spark_conf(replace(PLAIN, executors=executors), 1)
    assert conf["spark.executor.maxNumFailures"] == most
    assert int(most) > max(3, 2 * (instances if dynamic is None else dynamic[1]))


@pytest.mark.parametrize("layer", ["conf", "enforced_conf"])
@pytest.mark.parametrize("key", ["spark.executor.maxNumFailures", "spark.executor.failuresValidityInterval"])
def test_tolerated_executor_failures_of_class_or_session_replace_the_default(key: str, layer: str) -> None:
    conf = builders.spark_conf(PLAIN, 1)
    changed = builders.spark_conf(replace(PLAIN, **{layer: {**getattr(PLAIN, layer), key: "7"}}), 1)
    assert key in conf and changed == {**conf, key: "7"}
