"""What a driver and its JVM write of requests that are malformed in every part: nothing of what the client has sent."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from sparksql.wire.driver import CONFIG_FILE, DriverConfig
from tests.attack.malformed import everything, found, new_mark, send
from tests.gateway.client import GatewayClient
from tests.support.process import GatewayProcess

SENDERS = 32


async def test_log_of_a_driver_holds_nothing_of_malformed_requests(
    gateway: GatewayProcess, client: GatewayClient
) -> None:
    config = DriverConfig.model_validate_json((gateway.folder / "config" / CONFIG_FILE).read_text())
    ports = [config.port, config.endpoints.connect_port, config.endpoints.thrift_port]
    before = (gateway.folder / "log").stat().st_size
    marks = []
    for port in ports:
        for tls in (gateway.client_tls(), None):
            if port == config.endpoints.connect_port and tls is not None:
                tls.set_alpn_protocols(["h2"])
            marks.append(new_mark())
            with ThreadPoolExecutor(SENDERS) as senders:
                to, way = port, tls
                [*senders.map(lambda each, to=to, way=way: send("127.0.0.1", to, each[1], way), everything(marks[-1]))]
    written = (gateway.folder / "log").read_bytes()[before:].decode(errors="replace")
    assert [found(mark, written) for mark in marks] == [set()] * len(marks), written[-4000:]
    assert "Traceback" not in written
    assert written.count("\n") < 60, written[-6000:]
