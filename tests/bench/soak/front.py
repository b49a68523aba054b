"""Clients of the front for a long time while its replicas are killed: no answer may be wrong, no session of REST may be lost.

Usage: python -m tests.bench.soak.front [--connections 200] [--seconds 600] [--every 30]. On a cluster with the chart (`KUBECONFIG`), whose
Services this machine can reach. Half of the clients speak HiveServer2 and connect again when their replica goes, the others REST.
"""

from __future__ import annotations

import argparse
import base64
import os
import sys
import time
from pathlib import Path

from sparksql.api.names import FRONT_APP_NAME
from tests.bench.latency.common import machine
from tests.e2e.front_load import Load
from tests.support.accounts import account, rule, token
from tests.support.harness import OPERATOR_NAMESPACE, Cluster, pod_ready
from tests.support.installation import new_space

LABELS = f"app.kubernetes.io/name={FRONT_APP_NAME}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--every", type=float, default=30)
    given = parser.parse_args(arguments)
    cluster = Cluster(Path(os.environ["KUBECONFIG"]))
    service = cluster.get("Service", OPERATOR_NAMESPACE, FRONT_APP_NAME)
    secret = cluster.get("Secret", OPERATOR_NAMESPACE, FRONT_APP_NAME)
    assert service is not None and secret is not None
    print(
        f"{machine()}; {given.connections} clients for {given.seconds:g} s, a kill every {given.every:g} s", flush=True
    )

    def scale(replicas: int) -> None:
        cluster.kubectl("scale", "-n", OPERATOR_NAMESPACE, f"deployment/{FRONT_APP_NAME}", f"--replicas={replicas}")
        cluster.kubectl("rollout", "status", "-n", OPERATOR_NAMESPACE, f"deployment/{FRONT_APP_NAME}", "--timeout=120s")

    def kill() -> None:
        ready = [pod for pod in cluster.list("Pod", OPERATOR_NAMESPACE, LABELS) if pod_ready(pod)]
        if len(ready) > 1:
            cluster.delete("Pod", OPERATOR_NAMESPACE, ready[0]["metadata"]["name"], grace_seconds=0)
            load.seen["kills"] += 1

    scale(2)
    try:
        with new_space(cluster, "front-soak") as space:
            account(space, "user", rule("connect"))
            space.session("shared", endpoints={"rest": True, "thrift": True}, driver={"memory": "2Gi"})
            certificate = base64.b64decode(secret["data"]["tls.crt"]).decode()
            load = Load(service["spec"]["clusterIP"], certificate, token(space, "user"), f"{space.name}/shared")
            half, end = given.connections // 2, time.monotonic() + given.seconds
            with load.running(hive=half, rest=given.connections - half):
                while time.monotonic() < end - given.every / 2:
                    time.sleep(given.every)
                    kill()
                time.sleep(max(0.0, end - time.monotonic()))
    finally:
        scale(1)
    print({"answers": load.answers.total(), **load.seen})
    for wrong in load.wrong[:20]:
        print(wrong)
    print("ok" if not load.wrong else f"{len(load.wrong)} things went wrong")
    return 1 if load.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
