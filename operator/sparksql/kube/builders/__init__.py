"""Manifests of a session's children as pure functions: an `EffectiveSession` and arguments in, plain objects out."""

from sparksql.kube.builders.access import role_binding, service_account
from sparksql.kube.builders.conf import spark_conf
from sparksql.kube.builders.driver import driver_pod
from sparksql.kube.builders.executor import executor_template
from sparksql.kube.builders.network import network_policy, operator_peer
from sparksql.kube.builders.session import secret, service

__all__ = [
    "driver_pod",
    "executor_template",
    "network_policy",
    "operator_peer",
    "role_binding",
    "secret",
    "service",
    "service_account",
    "spark_conf",
]
