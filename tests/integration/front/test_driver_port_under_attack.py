"""A driver's Connect port in a process of its own while each of its bounds is full: it stays within its memory and serves another."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest

from sparksql.kube.tls import self_signed
from sparksql.wire.front import USER_HEADER
from tests.attack import fill
from tests.attack.driver_process import FRONT_TOKEN, LIMIT_BYTES, TOKEN
from tests.attack.fill import At
from tests.support.thorough import thorough_but

SERVED_SECONDS = 60.0
MIB = 1 << 20
WRONG = "wrong"
CERTIFICATE, KEY = self_signed(("localhost",), datetime.now(UTC))
AS_ADA = (("authorization", f"Bearer {FRONT_TOKEN}"), (USER_HEADER, "ada"))


@dataclass
class Driver:
    pid: int
    at: At

    def memory(self) -> int:
        """Returns the most that the process had in memory until now."""
        line = next(
            line for line in Path(f"/proc/{self.pid}/status").read_text().splitlines() if line.startswith("VmHWM:")
        )
        return int(line.split()[1]) << 10

    async def serves(self) -> None:
        """Answers a user of the front, by a new connection."""
        async with asyncio.timeout(SERVED_SECONDS), fill.channel(self.at) as channel:
            assert await channel.unary_unary(fill.CONFIG)(b"request", metadata=AS_ADA) == b"7"


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[Driver]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    (tmp_path / "tls.crt").write_text(CERTIFICATE)
    (tmp_path / "tls.key").write_text(KEY)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.attack.driver_process", str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = json.loads(await asyncio.wait_for(process.stdout.readline(), 60))["connect"]
        made = Driver(process.pid, At("127.0.0.1", port, CERTIFICATE))
        await made.serves()
        yield made
    finally:
        process.kill()
        await process.wait()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def attack(name: str, at: At) -> AbstractAsyncContextManager[int]:
    match name:
        case "half-open handshakes":
            return fill.half_open(at, 2_500)
        case "silent connections":
            return fill.silent(at, 600)
        case "messages with a wrong token":
            return fill.large_messages(at, WRONG, 16, 70 * MIB)
        case "messages with the session's token":
            return fill.large_messages(at, TOKEN, 8, 70 * MIB)
        case "packed messages":
            return fill.large_messages(at, TOKEN, 16, 70 * MIB, grpc.Compression.Gzip)
        case "open calls with a wrong token":
            return fill.open_calls(at, WRONG, 11, 200)
        case "open calls with the session's token":
            return fill.open_calls(at, TOKEN, 11, 200)
        case _:
            raise AssertionError(name)


ATTACKS = [
    "half-open handshakes", "silent connections", "messages with a wrong token", "messages with the session's token",
    "packed messages", "open calls with a wrong token", "open calls with the session's token",
]  # fmt: skip
DAILY = ["half-open handshakes", "messages with a wrong token", "messages with the session's token", "packed messages"]


@pytest.mark.parametrize("name", thorough_but(DAILY, ATTACKS))
async def test_driver_whose_connect_port_is_attacked_stays_within_its_memory_and_serves_another_user(
    driver: Driver, name: str
) -> None:
    quiet = driver.memory()
    async with attack(name, driver.at) as held:
        for _ in range(3):
            await driver.serves()
    print(f"\n{name}: {held} held, {quiet >> 20} -> {driver.memory() >> 20} MiB")
    assert driver.memory() < quiet + LIMIT_BYTES
