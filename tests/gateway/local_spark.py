"""A Spark of this process's own, through the gateway's own classes, for tests of what needs no HTTP."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import GatewayClient
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark import SparkContext

from sparksql.gateway.settings import PodIdentity, Settings
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.jvm import DriverJvm
from tests.runner.starts import measured
from tests.support.process import driver_config, image_environment


@contextlib.contextmanager
def local_spark(folder: Path, connectors: Sequence[str] = (), **spark_conf: str) -> Iterator[SparkDriver]:
    """Starts a JVM with Spark and ends both. One at a time: PySpark keeps its connection in its classes."""
    config = driver_config(folder, spark_conf={"spark.ui.enabled": "false", **spark_conf})
    settings = Settings(config, "", "", None, PodIdentity(), None)

    def write_log(line: bytes) -> None:
        with (folder / "log").open("ab") as log:
            log.write(line)

    with contextlib.chdir(folder), contextlib.ExitStack() as stack:
        with measured("Spark in the test's process"):
            environment = {**os.environ, **image_environment(folder, connectors)}
            jvm = DriverJvm.start(config.heap_mib, write_log, environment)
            stack.callback(_end, jvm)
            driver = SparkDriver.connect(jvm.connect(), settings)
            stack.callback(driver.stop)
        yield driver


def _end(jvm: DriverJvm) -> None:
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    if gateway is not None:
        gateway.shutdown()
    jvm.stop()


def jvm_calls(work: Callable[[], object]) -> int:
    """Returns how many calls to the JVM the work makes, but for those by which Python lets go of the JVM's objects."""
    count = 0
    send = GatewayClient.send_command

    def counted(client: Any, command: str, *arguments: Any, **options: Any) -> Any:
        nonlocal count
        count += not command.startswith(MEMORY_COMMAND_NAME)
        return send(client, command, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GatewayClient, "send_command", counted)
        work()
    return count


def run(driver: SparkDriver, session: Any, *statements: str) -> None:
    """Executes commands in a session."""
    for statement in statements:
        driver.activate(session)
        try:
            driver.of_rows(session, session.sessionState().sqlParser().parsePlan(statement))
        except Exception as exception:  # its text is the JVM's, which is gone when pytest prints it
            raise AssertionError(f"{statement}: {exception}") from None
