"""A Kafka broker as a pod of a test's namespace."""

from __future__ import annotations

from tests.support.harness import Cluster, Space, pod_ready

NAME = "kafka"
PORT = 9092


def start_broker(space: Space) -> str:
    """Host and port of a broker that takes connections; it goes with the namespace."""
    host = f"{NAME}.{space.name}.svc"
    container = {
        "name": "kafka",
        "image": "localhost/spark-sql-kafka:dev",
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": "ADVERTISE", "value": f"{host}:{PORT}"}],
        "resources": {"requests": {"cpu": "100m", "memory": "768Mi"}, "limits": {"memory": "768Mi"}},
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1, "failureThreshold": 300},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "tmp", "mountPath": "/tmp"}],
    }
    context = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    volumes = [{"name": name, "emptyDir": {}} for name in ("data", "tmp")]
    spec = {
        "containers": [container],
        "securityContext": context,
        "volumes": volumes,
        "terminationGracePeriodSeconds": 1,
        "enableServiceLinks": False,
    }
    metadata = {"name": NAME, "namespace": space.name, "labels": {"app": NAME}}
    space.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    service = {"selector": {"app": NAME}, "ports": [{"port": PORT}]}
    space.cluster.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service})
    _wait(space.cluster, space.name)
    return f"{host}:{PORT}"


def compact_topic(space: Space, topic: str) -> None:
    """Has a topic, which is there, keep the newest record of each key alone."""
    program = ["java", "-Xmx64m", "-XX:+UseSerialGC", "-cp", "/opt/kafka/jars/*", "kafka.admin.ConfigCommand"]
    what = ["--entity-type", "topics", "--entity-name", topic, "--add-config", "cleanup.policy=compact"]
    server = ["--bootstrap-server", f"{NAME}.{space.name}.svc:{PORT}"]
    space.cluster.kubectl("exec", f"--namespace={space.name}", NAME, "--", *program, *server, "--alter", *what)


def _wait(cluster: Cluster, namespace: str) -> None:
    cluster.wait("Pod", namespace, NAME, lambda pod: pod is not None and pod_ready(pod), "ready", 180)
