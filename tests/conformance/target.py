"""The session that the clients talk to: a process on this machine for development, a session pod on the cluster otherwise."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparksql.api.names import FRONT_APP_NAME
from sparksql.wire.driver import CONNECT_PORT, GATEWAY_PORT, THRIFT_PORT, TLS_CERT_FILE
from tests.conformance.relay import relay
from tests.support.accounts import account, own_session, rule, token
from tests.support.default_class import class_conf
from tests.support.harness import OPERATOR_NAMESPACE, Space
from tests.support.ports import free_port
from tests.support.process import TOKEN, GatewayProcess, driver_config, start_gateway, wait_until_listening

HOST = "localhost"
USER = "analyst"  # the account whose clients come by the front
STORE_PASSWORD = "changeit"  # protects nothing: the store has a certificate only
CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
}
OLD_VERSIONS = {"spark.sql.gateway.rest.versions": "V1,V2"}
SHARED_VIEW = "CREATE TEMPORARY VIEW shared AS SELECT 7 AS n"
ENDPOINTS = {"rest": True, "connect": True, "thrift": True}


@dataclass(frozen=True)
class Target:
    """Frontends on this machine's loopback. `old_rest` is another session's, which advertises V1 and V2 only.

    `control` is the session's own port, with the token and the certificate that the operator knows it by. `session` is its name for
    the front, empty where clients come to it directly.
    """

    rest: int
    thrift: int
    connect: int
    tunnel: int  # to `thrift`, without TLS on this side
    token: str
    certificate: Path
    store: Path
    old_rest: int
    old_token: str
    old_store: Path
    control: int
    control_token: str
    control_certificate: Path
    session: str = ""

    def get(self, path: str) -> Any:
        """Answer of the REST frontend's server, or of the control API."""
        return self._call("GET", path)

    def run(self, *statements: str, seconds: float = 120) -> None:
        """Runs statements in a session of their own over the REST API; waits for the end of each."""
        session = self._call("POST", "/v4/sessions", {})["sessionHandle"]
        deadline = time.monotonic() + seconds
        for sql in statements:
            asked = self._call("POST", f"/v4/sessions/{session}/statements", {"statement": sql})["operationHandle"]
            path = f"/v4/sessions/{session}/operations/{asked}/status"
            while (status := self.get(path)["status"]) in ("INITIALIZED", "PENDING", "RUNNING"):
                assert time.monotonic() < deadline, f"{sql} is {status} after {seconds} s"
                time.sleep(0.05)
            assert status == "FINISHED", f"{sql} ended as {status}"
        self._call("DELETE", f"/v4/sessions/{session}")

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        port, token, certificate = self.rest, self.token, self.certificate
        if path.startswith("/control/"):
            port, token, certificate = self.control, self.control_token, self.control_certificate
        request = urllib.request.Request(
            f"https://{HOST}:{port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        context = ssl.create_default_context(cafile=str(certificate))
        with urllib.request.urlopen(request, context=context, timeout=60) as response:
            return json.load(response)

    def wait_until_nothing_runs(self, protocol: str, seconds: float = 120) -> None:
        """Until no statement of that protocol's clients is left."""
        deadline = time.monotonic() + seconds
        while True:
            left = [o for o in self.get("/control/v1/clients")["operations"] if o["door"] == protocol]
            if not left:
                return
            assert time.monotonic() < deadline, f"statements that nobody waits for still run after {seconds} s: {left}"
            time.sleep(0.2)


def trust_store(certificate: Path, store: Path) -> Path:
    """A PKCS12 store for Java clients."""
    subprocess.run(
        ["keytool", "-importcert", "-noprompt", "-alias", "gateway", "-file", certificate, "-keystore", store,
         "-storetype", "PKCS12", "-storepass", STORE_PASSWORD],
        check=True, capture_output=True, timeout=180,
    )  # fmt: skip
    return store


def verifying(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))


@contextmanager
def of_processes(folder: Path, conf: Mapping[str, str] = CONF) -> Iterator[Target]:
    """Two gateways with Spark in local mode, the first as the chart's default class makes it."""
    ports = {"thrift_port": free_port(), "connect_port": free_port()}
    old_folder = folder / "old"
    old_folder.mkdir()
    init = [{"origin": "session", "sql": SHARED_VIEW}]
    old_config = driver_config(old_folder, spark_conf={**CONF, **OLD_VERSIONS}, endpoints={"rest": True}, init=init)
    with ExitStack() as stack:
        spark_conf = {**stack.enter_context(class_conf(folder)), **conf}
        config = driver_config(folder, spark_conf=spark_conf, endpoints={**ENDPOINTS, **ports}, init=init)
        main, old = start_gateway(folder, config), start_gateway(old_folder, old_config)
        stack.callback(old.stop)
        stack.callback(main.stop)
        for started in (main, old):
            wait_until_listening(started)
        certificate, old_certificate = (g.folder / "config" / TLS_CERT_FILE for g in (main, old))
        tunnel = stack.enter_context(relay("127.0.0.1", ports["thrift_port"], verifying(certificate)))
        target = Target(
            rest=main.port,
            thrift=ports["thrift_port"],
            connect=ports["connect_port"],
            tunnel=tunnel.port,
            token=TOKEN,
            certificate=certificate,
            store=trust_store(certificate, folder / "store.p12"),
            old_rest=old.port,
            old_token=TOKEN,
            old_store=trust_store(old_certificate, folder / "old.p12"),
            control=main.port,
            control_token=TOKEN,
            control_certificate=certificate,
        )
        _wait_until_ready(target, main)
        yield target


def _wait_until_ready(target: Target, gateway: GatewayProcess, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while (info := target.get("/control/v1/info"))["state"] != "Ready":
        assert time.monotonic() < deadline, f"{info}\n{gateway.log_tail()}"
        time.sleep(0.2)


@contextmanager
def of_pods(space: Space, folder: Path) -> Iterator[Target]:
    """Two sessions on the cluster; `space` is a namespace of end-to-end tests.

    The first is the own session of a service account, whose clients all come by the front; the other's by its own address.
    """
    account(space, USER, rule("create", "connect"))
    name, marks = own_session(space, USER)
    both = {"executors": {"instances": 1}, "init": [SHARED_VIEW], "maxConcurrentStatements": 8}
    space.session("old", wait=False, conf={**CONF, **OLD_VERSIONS}, endpoints={"rest": True}, **both)
    # A Connect client's result of 30 MB fits its share of this heap.
    space.session(name, metadata=marks, conf=CONF, endpoints=ENDPOINTS, driver={"memory": "1Gi"}, **both)
    space.wait_session("old", "Ready")
    front, front_certificate = _front(space, folder)
    with ExitStack() as stack:
        addresses, certificates, tokens = {}, {}, {}
        for each in (name, "old"):
            addresses[each] = space.cluster.get("Pod", space.name, space.driver_pod(each))["status"]["podIP"]
            tokens[each], certificate = space.credentials(each)
            certificates[each] = folder / f"{each}.crt"
            certificates[each].write_text(certificate)
        yield Target(
            rest=stack.enter_context(relay(front, GATEWAY_PORT)).port,
            thrift=stack.enter_context(relay(front, THRIFT_PORT)).port,
            connect=stack.enter_context(relay(front, CONNECT_PORT)).port,
            tunnel=stack.enter_context(relay(front, THRIFT_PORT, verifying(front_certificate))).port,
            token=token(space, USER),
            certificate=front_certificate,
            store=trust_store(front_certificate, folder / "store.p12"),
            old_rest=stack.enter_context(relay(addresses["old"], GATEWAY_PORT)).port,
            old_token=tokens["old"],
            old_store=trust_store(certificates["old"], folder / "old.p12"),
            control=stack.enter_context(relay(addresses[name], GATEWAY_PORT)).port,
            control_token=tokens[name],
            control_certificate=certificates[name],
            session=f"{space.name}/{name}",
        )


def _front(space: Space, folder: Path) -> tuple[str, Path]:
    """The address of a replica of the front, and the certificate that its clients trust."""
    [pod, *_] = space.cluster.list("Pod", OPERATOR_NAMESPACE, f"app.kubernetes.io/name={FRONT_APP_NAME}")
    secret = space.cluster.get("Secret", OPERATOR_NAMESPACE, FRONT_APP_NAME)
    assert secret is not None
    certificate = folder / "front.crt"
    certificate.write_bytes(base64.b64decode(secret["data"][TLS_CERT_FILE]))
    return pod["status"]["podIP"], certificate
