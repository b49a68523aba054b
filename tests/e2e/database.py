"""A PostgreSQL server as a pod of a test's namespace."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tests.support.harness import Space, pod_ready
from tests.support.postgres import running_postgres

NAME = "postgres"
PORT = 5432
# What it serves is copied in when the pod runs.
WAIT_AND_SERVE = (
    "until [ -e /data/complete ]; do sleep 0.1; done; exec /data/bin/postgres -D /data/data "
    f"-c listen_addresses=* -c port={PORT} -c unix_socket_directories=/data -c fsync=off -c shared_buffers=32MB"
)
UNPACK = "import sys, tarfile; tarfile.open(fileobj=sys.stdin.buffer, mode='r|').extractall('/data'); open('/data/complete', 'x')"


def start_database(space: Space, sql: str) -> str:
    """JDBC address of a server in which these statements have been run; it goes with the namespace.

    The database is made on this machine, and copied as it is into a pod of an image that is on every node.
    """
    space.cluster.create(_pod(space))
    metadata = {"name": NAME, "namespace": space.name}
    service = {"selector": {"app": NAME}, "ports": [{"port": PORT}]}
    space.cluster.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service})
    with tempfile.TemporaryFile() as packed:
        with running_postgres() as server:
            server.execute(sql)
            server.stop()
            with (server.folder / "data/pg_hba.conf").open("a") as rules:
                rules.write("host all all all scram-sha-256\n")
            _pack(server.folder, packed.fileno())
        packed.seek(0)
        space.cluster.wait("Pod", space.name, NAME, lambda pod: (pod or {})["status"]["phase"] == "Running", "running")
        command = [
            "kubectl",
            f"--kubeconfig={space.cluster.kubeconfig}",
            "exec",
            "--stdin",
            f"--namespace={space.name}",
            NAME,
        ]
        subprocess.run([*command, "--", "python3", "-c", UNPACK], stdin=packed, check=True, timeout=120)
    space.cluster.wait("Pod", space.name, NAME, lambda pod: pod is not None and pod_ready(pod), "ready")
    return f"jdbc:postgresql://{NAME}.{space.name}.svc:{PORT}/postgres"


def _pack(folder: Path, into: int) -> None:
    command = ["tar", "--create", "--exclude=.s.*", f"--directory={folder}", "bin", "lib", "share", "data"]
    subprocess.run(command, stdout=into, check=True, timeout=60)


def _pod(space: Space) -> dict[str, object]:
    container = {
        "name": NAME,
        "image": space.cluster.operator_pods()[0]["spec"]["containers"][0]["image"],
        "command": ["/bin/sh", "-c", WAIT_AND_SERVE],
        "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"memory": "256Mi"}},
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1, "failureThreshold": 300},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    context = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    spec = {
        "containers": [container],
        "securityContext": context,
        "volumes": [{"name": "data", "emptyDir": {}}],
        "terminationGracePeriodSeconds": 0,
        "enableServiceLinks": False,
    }
    metadata = {"name": NAME, "namespace": space.name, "labels": {"app": NAME}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
