"""`SELECT 1` through the gateway's frontends beside Spark itself and Spark's own servers: start, latency, statements a second.

Usage: python -m tests.bench.peers.statements [ROUNDS] [STARTS]. All run side by side with the same settings and are asked in turns. Each round's
figure of a way, over that of Spark itself in the same round, is one ratio. Starts (default 3): from the process to the rows of
the first statement, one process at a time. The gateway has TLS and checks tokens, the others do not.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import grpc

from tests.bench.latency.common import machine, quantiles
from tests.bench.peers import servers
from tests.bench.peers.ways import Connect, Control, NotYet, Plain, Rest, Thrift, Way
from tests.support.connect_client import connect_channel
from tests.support.ports import free_port
from tests.support.process import GatewayProcess
from tests.support.thrift_client import Refused

CLIENTS = 4
COUNT = 100  # statements of a way in a round, and again with all clients at a time
FLOOR = "Spark, collect()"
WARM_UP = 400


async def open_all(stack: AsyncExitStack, folder: Path) -> dict[str, Way]:
    """All ways, warm enough to be compared."""
    ports = {name: free_port() for name in ("thrift", "connect", "thrift server", "connect server")}
    folders = {name: folder / name for name in ("gateway", "plain", "thrift server", "connect server")}
    for each in folders.values():
        each.mkdir()
    process = stack.enter_context(servers.gateway(folders["gateway"], ports["thrift"], ports["connect"]))
    floor = stack.enter_context(servers.plain(folders["plain"]))
    hive = stack.enter_context(servers.thrift_server(folders["thrift server"], ports["thrift server"]))
    spark = stack.enter_context(servers.connect_server(folders["connect server"], ports["connect server"]))
    await _until_thrift(process, ports["thrift"])
    for server, name in ((hive, "thrift server"), (spark, "connect server")):
        await asyncio.to_thread(servers.until_listening, server, ports[name], folders[name] / "server.log")
    own = await stack.enter_async_context(connect_channel(process, ports["connect"]))
    peer = await stack.enter_async_context(grpc.aio.insecure_channel(f"localhost:{ports['connect server']}"))
    ways: dict[str, Way] = {
        FLOOR: Plain(floor),
        "gateway, control API": await stack.enter_async_context(Control.open(process)),
        "gateway, REST": await stack.enter_async_context(Rest.open(process, CLIENTS)),
        "gateway, Thrift": Thrift(ports["thrift"], process.client_tls(), CLIENTS),
        "gateway, Connect": Connect(own, CLIENTS),
        "Spark Thrift Server": Thrift(ports["thrift server"], None, CLIENTS),
        "Spark Connect Server": Connect(peer, CLIENTS),
    }
    for way in ways.values():
        await way.statements(WARM_UP, CLIENTS)
    return ways


async def _until_thrift(process: GatewayProcess, port: int) -> Thrift:
    """A client of the gateway's Thrift frontend, once Spark is there: before, the frontend says so."""
    deadline = time.monotonic() + servers.START_SECONDS
    while True:
        try:
            return await asyncio.to_thread(Thrift, port, process.client_tls(), 1)
        except (OSError, Refused, EOFError, NotYet):
            if time.monotonic() > deadline:
                raise SystemExit(f"the gateway does not start:\n{process.log_tail()}") from None
        await asyncio.sleep(0.02)


async def compare(ways: dict[str, Way], rounds: int) -> None:
    one: dict[str, list[list[float]]] = {name: [] for name in ways}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            one[name].append(await way.statements(COUNT, 1))
        for name, way in ways.items():
            began = time.perf_counter()
            await way.statements(COUNT, CLIENTS)
            rates[name].append(COUNT / (time.perf_counter() - began))
    print(f"\none client, {rounds} rounds of {COUNT}; beside each the ratio of medians to {FLOOR}, round by round")
    for name, found in one.items():
        ratios = [statistics.median(a) / statistics.median(b) for a, b in zip(found, one[FLOOR], strict=True)]
        print(f"  {name:<22} {quantiles([ms for turn in found for ms in turn]):<75} {_ratio(ratios)}")
    print(f"\n{CLIENTS} clients, statements a second, median of rounds; beside each the ratio of {FLOOR} to it")
    for name, found_rates in rates.items():
        ratios = [b / a for a, b in zip(found_rates, rates[FLOOR], strict=True)]
        print(f"  {name:<22} {statistics.median(found_rates):7.0f}/s {_ratio(ratios)}")


def _ratio(ratios: list[float]) -> str:
    return f"x {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


async def _start_gateway(folder: Path) -> float:
    thrift = free_port()
    with servers.gateway(folder, thrift, free_port()) as process:
        (await _until_thrift(process, thrift)).execute(0)
        return time.perf_counter()


async def _start_plain(folder: Path) -> float:
    with servers.plain(folder) as process:
        await Plain(process).statements(1, 1)
        return time.perf_counter()


async def _start_thrift_server(folder: Path) -> float:
    port = free_port()
    with servers.thrift_server(folder, port) as process:
        await asyncio.to_thread(servers.until_listening, process, port, folder / "server.log")
        Thrift(port, None, 1).execute(0)
        return time.perf_counter()


async def _start_connect_server(folder: Path) -> float:
    port = free_port()
    with servers.connect_server(folder, port) as process:
        await asyncio.to_thread(servers.until_listening, process, port, folder / "server.log")
        async with grpc.aio.insecure_channel(f"localhost:{port}") as channel:
            await Connect(channel, 1).statements(1, 1)
            return time.perf_counter()


STARTS: dict[str, Callable[[Path], Awaitable[float]]] = {
    FLOOR: _start_plain,
    "gateway, Thrift": _start_gateway,
    "Spark Thrift Server": _start_thrift_server,
    "Spark Connect Server": _start_connect_server,
}


async def starts(count: int) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in STARTS}
    for _ in range(count):
        for name, start in STARTS.items():
            with tempfile.TemporaryDirectory() as folder:
                began = time.perf_counter()
                seconds[name].append(await start(Path(folder)) - began)
    print(f"from the process to the first statement's rows, seconds, and the ratio to {FLOOR}")
    for name, found in seconds.items():
        ratios = [a / b for a, b in zip(found, seconds[FLOOR], strict=True)]
        print(f"  {name:<22} {', '.join(f'{each:.1f}' for each in found)}   {_ratio(ratios)}")


async def main(rounds: int, count: int) -> None:
    print(machine())
    await starts(count)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        await compare(await open_all(stack, folder), rounds)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 6, int(sys.argv[2]) if len(sys.argv) > 2 else 3))
