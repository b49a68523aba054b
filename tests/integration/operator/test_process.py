"""The operator as a process: killed, asked to end, one of two replicas, and what its HTTP side says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from sparksql.engine.key import Key
from sparksql.engine.queue import WorkQueue
from sparksql.kube.resources import LEASES, STATEMENTS
from sparksql.process.probes import STUCK_QUEUE_SECONDS, Health
from tests.integration.operator.environment import Environment
from tests.support.apiserver import ApiServer
from tests.support.ports import free_port

KILLS = 2
LEASE = "operator"


class Process:
    """`python -m sparksql.operator` for the environment's namespace."""

    def __init__(self, env: Environment, server: ApiServer, folder: Path, **config: Any) -> None:
        self.port = free_port()
        self.log = folder / f"operator-{self.port}.log"
        file = folder / f"config-{self.port}.json"
        file.write_text(json.dumps({"watchNamespaces": [env.namespace], "httpPort": self.port, **config}))
        environment = {
            **os.environ, "KUBECONFIG": str(server.kubeconfig), "SPARKSQL_OPERATOR_CONFIG": str(file),
            "SPARKSQL_HTTP_HOST": "127.0.0.1",
        }  # fmt: skip
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sparksql.operator"], env=environment, stdout=log, stderr=log
            )

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)

    async def get(self, path: str) -> tuple[int, str]:
        """Status and text; 0 while nothing answers."""
        try:
            async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{self.port}{path}") as response:
                return response.status, await response.text()
        except aiohttp.ClientError:
            return 0, ""

    async def is_ready(self) -> bool:
        return (await self.get("/readyz"))[0] == 200


@pytest.fixture
def start(env: Environment, crds: ApiServer, tmp_path: Path) -> Iterator[Any]:
    """Starts processes and ends them all afterwards."""
    processes: list[Process] = []

    def one(**config: Any) -> Process:
        processes.append(Process(env, crds, tmp_path, **config))
        return processes[-1]

    yield one
    for process in processes:
        process.kill()
        print(f"--- {process.log.name}\n{process.log.read_text()[-4000:]}")


async def test_process_killed_again_and_again_runs_every_effect_once(env: Environment, start: Any) -> None:
    names = [f"effect-{i:02}" for i in range(40)]
    await env.create_class()
    await env.create_session()
    for name in names:
        await env.create_statement(name, "INSERT SLEEP 0.02")
    for _ in range(KILLS):
        process = start()
        ran = len(env.ledger.executions)
        await env.until("some more run", lambda n=ran: len(env.ledger.executions) > n + 3)
        process.kill()
    start()
    await env.all_finished(names, seconds=180)
    assert sorted(env.ledger.order()) == names


async def test_process_that_is_asked_to_end_lets_the_next_one_lead_at_once(env: Environment, start: Any) -> None:
    await env.create_class()
    await env.create_session()
    lease = {"name": LEASE, "namespace": env.namespace}
    first = start(lease=lease)
    await env.until("the first one leads", first.is_ready)
    second = start(lease=lease)
    await env.until("the second one stands by", lambda: _answers(second, "/healthz"))
    await env.create_statement("one", "INSERT HOLD")
    await env.in_phase(STATEMENTS, "one", "Running")

    leader = (await env.get(LEASES, LEASE))["spec"]["holderIdentity"]
    first.send(signal.SIGTERM)
    await env.until("the first one ends", lambda: first.exit_code is not None)
    # Given back, not left to run out: that is what lets the next one lead at once, however slow the machine.
    holder = (await env.get(LEASES, LEASE))["spec"]["holderIdentity"]
    assert (first.exit_code, holder != leader) == (0, True), holder
    env.ledger.release("one")
    await env.finished("one")
    assert len(env.ledger.ran("one")) == 1, holder


async def test_operator_probes_metrics_and_log_show_statements_without_sql_literals(
    env: Environment, start: Any
) -> None:
    await env.create_class()
    await env.create_session()
    process = start()
    await env.until("it is ready", process.is_ready)
    secret = "SELECT 'a literal that nobody must see'"
    await env.create_statement("one", secret)
    await env.finished("one")
    assert await process.get("/healthz") == (200, "ok")
    ended = f'sparksql_statements_ended_total{{namespace="{env.namespace}",phase="Finished",reason="Finished"}} 1.0'

    async def counted() -> bool:
        return ended in (await process.get("/metrics"))[1]

    await env.until("the end is counted", counted)  # a moment after it has been written, and behind its log line
    status, metrics = await process.get("/metrics")
    assert status == 200
    for series in ("sparksql_reconcile_total", "sparksql_queue_depth", "sparksql_session_start_seconds_count 1.0"):
        assert series in metrics
    log = process.log.read_text()
    assert "literal" not in metrics and "literal" not in log
    lines = [json.loads(line) for line in log.splitlines()]
    changed = [line for line in lines if line["message"] == "statement changed phase" and line["name"] == "one"]
    assert changed[-1]["namespace"] == env.namespace
    assert changed[-1]["operation_id"]


# --- liveness, as a pure reading


def _health(age: float, queue: WorkQueue | None = None) -> Health:
    health = Health(queue or WorkQueue(), 900.0, lambda: age)
    health.started = True
    return health


def test_watch_that_was_silent_too_long_fails_the_liveness_probe() -> None:
    assert _health(899).problem() is None
    assert "901" in (_health(901).problem() or "")


def test_queue_that_is_stuck_fails_the_liveness_probe() -> None:
    now = 0.0
    queue = WorkQueue(clock=lambda: now)
    queue.add(Key("SqlStatement", "n", "a"))
    now = STUCK_QUEUE_SECONDS - 1
    assert _health(0, queue).problem() is None
    now = STUCK_QUEUE_SECONDS + 1
    assert _health(0, queue).problem() is not None


async def _answers(process: Process, path: str) -> bool:
    return (await process.get(path))[0] == 200
