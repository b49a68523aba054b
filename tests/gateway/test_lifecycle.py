"""Start, init, drain and end of the process."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import aiohttp

from sparksql.wire.control import ErrorBody, GatewayState, OperationState, ResultOptions
from sparksql.wire.driver import CONFIG_FILE, CONFIG_HASH_ENV, TOKEN_FILE, config_hash
from tests.support.process import GatewayProcess

from .client import API, GatewayClient, connect
from .test_cancel import RUNNING

Start = Callable[..., GatewayProcess]


async def test_info_tells_what_this_process_is(client: GatewayClient, gateway: GatewayProcess) -> None:
    info = await client.info()
    text = (gateway.folder / "config" / CONFIG_FILE).read_text()
    assert (info.protocol_version, info.incarnation, info.config_hash) == (1, 3, config_hash(text))
    assert (info.state, info.spark_version) == (GatewayState.READY, "4.1.4")
    assert info.spark_application_id
    assert info.boot_id == client.boot_id


def children(pid: int) -> list[int]:
    """Ids of the direct children of a process: those of a gateway are its JVM."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def listening_addresses(pid: int) -> set[str]:
    """Local addresses of the sockets on which a process and its children listen (hexadecimal, as in /proc/net)."""
    inodes = set()
    for process in (pid, *children(pid)):
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            try:
                target = os.readlink(descriptor)
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.add(fields[1].rpartition(":")[0])
    return found


async def test_everything_listens_on_loopback_outside_a_pod(client: GatewayClient, gateway: GatewayProcess) -> None:
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert listening_addresses(gateway.process.pid) <= loopback


async def test_init_then_drain_then_the_end(own_gateway: Start) -> None:
    gateway = own_gateway(
        drain_seconds=8,
        database="team_b",
        init=[
            {"sql": "CREATE TABLE own (a INT) USING parquet", "origin": "init[0].sql"},
            {"sql": "CREATE DATABASE IF NOT EXISTS sales; USE sales", "origin": "init[0].sql"},
            {"sql": "SET spark.sql.shuffle.partitions = 3", "origin": "init[2].sql"},
            {"sql": "DECLARE VARIABLE answer INT DEFAULT 42", "origin": "init[3].sql"},
        ],
    )
    async with connect(gateway) as client:
        early = await client.info()
        if early.state is GatewayState.STARTING:
            async with client.http.get("/readyz") as response:
                assert response.status in (200, 503)
            client.boot_id = early.boot_id
            status, body = await client.put_raw("SELECT 1")
            assert status == 200 or ErrorBody.model_validate_json(body).error == "Starting"
        info = await client.until_started()
        assert (info.state, info.has_session_state) == (GatewayState.READY, False)
        assert await client.rows("SELECT current_database(), answer") == [("sales", 42)]
        assert await client.rows("SHOW TABLES IN team_b") == [("team_b", "own", False)]
        assert await client.rows("SET spark.sql.shuffle.partitions") == [("spark.sql.shuffle.partitions", "3")]
        assert (await client.info()).has_session_state is False
        await client.ok("SELECT id FROM range(20000)", result=ResultOptions(max_rows=20_000))

        short = await client.put(
            "SELECT count(*) FROM range(0, 40000000, 1, 4) WHERE sha2(CAST(id AS STRING), 224) < '0'"
        )
        endless = await client.put(RUNNING)
        await client.until_state(endless.operation_id, OperationState.RUNNING)
        async with client.http.post(f"{API}/drain") as response:
            assert response.status == 200
        assert (await client.info()).state is GatewayState.DRAINING
        late = await client.put("SELECT 1")
        assert (late.state, late.start_time) == (OperationState.CLOSED, None)
        assert (await client.put("SELECT 1", late.operation_id)).state is OperationState.CLOSED
        repeated = await client.put(RUNNING, endless.operation_id)  # a known id is answered even now
        assert repeated.operation_id == endless.operation_id
        async with client.http.get("/readyz") as response:
            assert response.status == 503
        seen: dict[str, OperationState] = {}
        try:
            async with client.events() as events:
                gateway.terminate()
                async for event in events:
                    if event.operation is not None:
                        seen[event.operation.operation_id] = event.operation.state
        except aiohttp.ClientError:
            pass  # the process has ended
        assert await asyncio.to_thread(gateway.wait, 120) == 0, gateway.log_tail()
    assert seen[endless.operation_id] is OperationState.CLOSED, seen
    assert seen[short.operation_id] in (OperationState.FINISHED, OperationState.CLOSED), seen


async def test_a_database_that_cannot_be_made_is_told(own_gateway: Start, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("no folder can be made here")
    gateway = own_gateway(database="team_a", spark_conf={"spark.sql.warehouse.dir": f"file://{taken}"})
    async with connect(gateway) as client:
        info = await client.until_started()
        assert info.state is GatewayState.INIT_FAILED
        assert info.init_failure is not None
        shown = (info.init_failure.position, info.init_failure.statement)
        assert shown == (0, "CREATE DATABASE IF NOT EXISTS `team_a`")
        assert info.init_failure.error.message


async def test_a_failed_init_statement_is_reported_and_the_gateway_ends_with_its_jvm(own_gateway: Start) -> None:
    gateway = own_gateway(init=[{"sql": "USE missing", "origin": "init[0].sql"}])
    async with connect(gateway) as client:
        info = await client.until_started()
        assert info.state is GatewayState.INIT_FAILED
        assert info.init_failure is not None
        assert (info.init_failure.position, info.init_failure.statement) == (1, "USE missing")
        assert info.init_failure.error.condition == "SCHEMA_NOT_FOUND"
        async with client.http.get("/readyz") as response:
            assert response.status == 503
        status, body = await client.put_raw("SELECT 1")
        assert (status, ErrorBody.model_validate_json(body).error) == (503, "InitFailed")
        [jvm] = children(gateway.process.pid)
        os.kill(jvm, signal.SIGKILL)
    assert await asyncio.to_thread(gateway.wait, 90) == 137  # of a JVM that SIGKILL ended
    assert "the JVM ended with exit code" in gateway.log_tail()


def test_a_folder_without_a_token_is_refused(tmp_path: Path) -> None:
    (tmp_path / CONFIG_FILE).write_text('{"namespace":"n","session":"s","sessionUid":"u","incarnation":1}')
    environment = {**os.environ, "SPARKSQL_CONFIG_DIR": str(tmp_path)}
    environment.pop(CONFIG_HASH_ENV, None)
    command = [sys.executable, "-m", "sparksql.gateway.main"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert TOKEN_FILE in ended.stderr


async def test_crash_in_native_code_leaves_its_frames_in_the_log_and_no_text_of_a_statement(own_gateway: Start) -> None:
    gateway = own_gateway()
    async with connect(gateway) as client:
        await client.until_started()
        view = await client.put(f"{RUNNING} AND 'a-literal' IS NOT NULL")
        await client.until_state(view.operation_id, OperationState.RUNNING)
        os.kill(gateway.process.pid, signal.SIGSEGV)
    assert await asyncio.to_thread(gateway.wait, 90) == -signal.SIGSEGV
    log = (gateway.folder / "log").read_text()
    assert "Fatal Python error: Segmentation fault" in log
    assert re.search(r'^  File ".*executor\.py", line \d+ in \w+$', log, re.MULTILINE), gateway.log_tail()
    assert "a-literal" not in log
