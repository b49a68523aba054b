"""A gateway's control API with TLS, as far as the plugin asks for it: results, clients, and the end of one of their statements."""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sparksql.cli.main import main
from sparksql.wire.clients import ClientsView
from sparksql.wire.control import (
    CancelRequest,
    ErrorBody,
    GatewayInfo,
    GatewayState,
    OperationState,
    OperationView,
)
from tests.integration.cli.cli_cluster import DEADLINE_SECONDS, MANY_ROWS, ROWS, Cluster

TOKEN = "session-token"


@dataclasses.dataclass
class FakeGateway:
    """The gateway of one session; `status` other than 200 refuses every page. `ends` counts the looks at a canceled
    operation until it has ended, None if its client closes it at once."""

    port: int = 0
    status: int = 200
    asked: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # operation, token
    clients: ClientsView = dataclasses.field(default_factory=ClientsView)
    canceled: list[tuple[str, CancelRequest]] = dataclasses.field(default_factory=list)
    ends: int | None = 2

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response(text=ErrorBody(error="Unauthorized", message="token").to_json(), status=401)
        return await handler(request)

    async def info(self, request: web.Request) -> web.Response:
        info = GatewayInfo(boot_id="boot-1", state=GatewayState.READY, start_time=datetime.now(UTC))
        return web.json_response(text=info.to_json())

    async def list_clients(self, request: web.Request) -> web.Response:
        return web.json_response(text=self.clients.to_json())

    async def cancel(self, request: web.Request) -> web.Response:
        self.canceled.append((request.match_info["id"], CancelRequest.model_validate_json(await request.read())))
        return self._operation(request, OperationState.RUNNING)

    async def view(self, request: web.Request) -> web.Response:
        if self.ends is None:
            return web.json_response(text=ErrorBody(error="Unknown", message="closed").to_json(), status=404)
        self.ends -= 1
        return self._operation(request, OperationState.RUNNING if self.ends else OperationState.CANCELED)

    def _operation(self, request: web.Request, state: OperationState) -> web.Response:
        view = OperationView(operation_id=request.match_info["id"], boot_id="boot-1", seq=1, state=state)
        return web.json_response(text=view.to_json())

    async def results(self, request: web.Request) -> web.Response:
        if self.status != 200:
            return web.json_response(text=ErrorBody(error="Gone", message="expired").to_json(), status=self.status)
        if (earlier := request.query.get("earlier")) is not None:
            one = {"columns": [{"name": "n", "type": "int"}], "rows": [[int(earlier)]], "truncated": earlier == "1"}
            return web.json_response(one)
        start, limit = int(request.query["token"]), int(request.query["maxRows"])
        self.asked.append((request.match_info["id"], request.query["token"]))
        ids = range(start, min(start + limit, ROWS))
        following = ids.stop if ids.stop < ROWS else None
        page = {"columns": MANY_ROWS["columns"], "rows": [[i, f"row {i}"] for i in ids], "nextToken": following}
        return web.json_response(page)


@dataclasses.dataclass
class Served:
    """A finished statement `many` with 12,000 rows whose session has a gateway; each other one has these rows there, too."""

    cluster: Cluster
    gateway: FakeGateway
    secret: str
    forwarded: list[str] = dataclasses.field(default_factory=list)

    def main(self, *arguments: str) -> int:
        """The plugin in this process, the gateway's port in the place of a forwarded one."""

        @asynccontextmanager
        async def forward(kubectl: Any, namespace: str, pod: str) -> Any:
            self.forwarded.append(f"{namespace}/{pod}")
            yield f"127.0.0.1:{self.gateway.port}"

        return main([*arguments, *self.cluster.flags()], forward=forward)

    def become_viewer(self, folder: Path) -> None:
        """From now on the plugin's user may look at sessions and statements, and at nothing else."""
        rules = [{"apiGroups": ["sparksql.dev"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.cluster.namespace}"
        request = self.cluster.server.request
        assert request("POST", f"{rbac}/roles", {"metadata": {"name": "view"}, "rules": rules}).status == 201
        binding = {
            "metadata": {"name": "view"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "view"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "viewer"}],
        }
        assert request("POST", f"{rbac}/rolebindings", binding).status == 201
        admin = self.cluster.server.kubeconfig
        viewer = folder / "kubeconfig"
        viewer.write_text(admin.read_text().replace("    client-key:", "    as: viewer\n    client-key:"))
        self.cluster = Cluster(dataclasses.replace(self.cluster.server, kubeconfig=viewer), self.cluster.namespace)


def certificate(folder: Path, server_name: str) -> tuple[Path, Path]:
    """A self-signed pair for one name: certificate and key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gateway")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName(server_name), x509.IPAddress(ipaddress.IPv4Address("192.0.2.1"))]
            ),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    crt, pem = folder / f"{server_name}.crt", folder / f"{server_name}.key"
    crt.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pem.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return crt, pem


@contextmanager
def serving(gateway: FakeGateway, context: ssl.SSLContext) -> Iterator[None]:
    """The gateway on a loopback port, on an event loop of its own."""
    loop = asyncio.new_event_loop()
    app = web.Application(middlewares=[gateway.guard])
    root = "/control/v1"
    app.add_routes(
        [
            web.get(f"{root}/info", gateway.info),
            web.get(f"{root}/clients", gateway.list_clients),
            web.get(f"{root}/statements/{{id}}", gateway.view),
            web.post(f"{root}/statements/{{id}}/cancel", gateway.cancel),
            web.get(f"{root}/statements/{{id}}/results", gateway.results),
        ]
    )
    runner = web.AppRunner(app)

    async def start() -> None:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        gateway.port = site._server.sockets[0].getsockname()[1]

    loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(DEADLINE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
