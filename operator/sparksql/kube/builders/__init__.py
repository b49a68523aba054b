"""Manifests of what the operator makes as pure functions: an `EffectiveSession` or a `DataDeletion` in, plain objects out."""

from sparksql.kube.builders.access import role_binding, service_account
from sparksql.kube.builders.conf import spark_conf
from sparksql.kube.builders.deletion import DataDeletion, deletion_job, deletion_secret
from sparksql.kube.builders.driver import driver_pod
from sparksql.kube.builders.executor import executor_template
from sparksql.kube.builders.network import network_policy, operator_peer
from sparksql.kube.builders.session import executor_secret, secret, service

__all__ = [
    "DataDeletion",
    "deletion_job",
    "deletion_secret",
    "driver_pod",
    "executor_secret",
    "executor_template",
    "network_policy",
    "operator_peer",
    "role_binding",
    "secret",
    "service",
    "service_account",
    "spark_conf",
]
