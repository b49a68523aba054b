"""The process of a driver pod: HTTP at once, Spark beside it, a graceful end.

Order of the start: configuration (its secrets leave the disk), JVM (it loads while Python imports), Spark's context (executors
begin to start), meanwhile HTTP (so that probes and the operator get answers), init, ready; it
warms up beside that. On SIGTERM or SIGINT no new statement is taken, running ones may end within the drain time, the rest is
closed, and the process exits with 0. Any other end of the JVM, or of Spark's context in it, is the end of the process, with 1.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import logging
import os
import signal
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from sparksql.gateway.operations.audit import FIELDS
from sparksql.gateway.settings import ConfigError, Settings, read_settings
from sparksql.gateway.spark.jvm import DriverJvm, JvmError
from sparksql.gateway.sql.masking import LogMask
from sparksql.logs import handler
from sparksql.wire.control import HEARTBEAT_SECONDS, InitFailure, OperationError

if TYPE_CHECKING:
    from sparksql.gateway.frontends.control.service import ControlService
    from sparksql.gateway.frontends.frontends import FrontendError, Frontends
    from sparksql.gateway.lifecycle import Lifecycle
    from sparksql.gateway.spark.driver import SparkDriver

log = logging.getLogger("sparksql.gateway")

# M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of <malloc.h>.
_MALLOC_OPTIONS = ((-8, 2), (-3, 256 << 10), (-1, 1 << 20))
MAX_FAILURE_CHARS = 1000
_PR_SET_DUMPABLE = 4  # <sys/prctl.h>


class ContextEndedError(Exception):
    """Spark's context has stopped, or its scheduler's thread has ended, while the JVM lives."""

    def __init__(self) -> None:
        super().__init__("Spark's context has stopped; this process ends with it")


def main() -> None:
    """Runs `sparksql-gateway`."""
    faulthandler.enable()  # a crash in native code leaves each thread's frames in the log, and nothing of their data
    bound_heap()
    try:
        settings = read_settings()
    except (ConfigError, ValueError, OSError) as problem:
        sys.stderr.write(f"sparksql-gateway: {problem}\n")
        sys.exit(1)
    _set_up_logging(settings)
    log_mask = LogMask()
    try:
        jvm = DriverJvm.start(settings.config.heap_mib, lambda line: _write_jvm_line(log_mask.mask(line)))
    except (JvmError, OSError) as problem:
        log.error("the JVM cannot be started: %s", problem)
        sys.exit(1)
    _hide_memory()
    jvm.on_death(_die_with_jvm)
    code = asyncio.run(_serve(settings, jvm, log_mask))
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)  # threads of statements that could not be stopped must not hold the pod


async def _serve(settings: Settings, jvm: DriverJvm, log_mask: LogMask) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)

    # Imports take about as long as the JVM does: first what Spark needs, then, while it works, what HTTP needs.
    from sparksql.gateway.spark.driver import SparkDriver

    connecting = loop.run_in_executor(None, lambda: SparkDriver.connect(jvm.connect(), settings))

    from sparksql.gateway.frontends.control.routes import build_app
    from sparksql.gateway.frontends.control.service import ControlService
    from sparksql.gateway.frontends.frontends import Frontends
    from sparksql.gateway.lifecycle import Lifecycle
    from sparksql.gateway.sessions.service import SessionService
    from sparksql.protocols.http_limits import BoundedSite, make_runner
    from sparksql.protocols.slots import SlotLimits, Slots

    binding = None
    if settings.config.warm:
        from sparksql.gateway.warm import WarmDriver

        try:
            binding = await WarmDriver(settings, connecting).bound(stop)
        except Exception as failed:
            log.error("Spark did not start: %s", failed)
            return 1
        if binding is None:
            await asyncio.to_thread(jvm.stop)
            return 0
        settings = binding.settings
        _set_up_logging(settings)
    lifecycle = Lifecycle(settings, str(uuid.uuid4()), lambda: datetime.now(UTC))
    service = ControlService(lifecycle, SessionService(lifecycle))
    app, frontends = build_app(service), Frontends(service, settings)
    frontends.make(app)
    runner = make_runner(app)
    await runner.setup()
    most = settings.gateway.rest_max_connections
    slots = Slots(SlotLimits.of_one_token(most))
    await BoundedSite(runner, settings.listen_address, settings.config.port, settings.tls, slots).start()
    log.info("listening on port %d", settings.config.port)
    if binding is not None:
        await binding.answered()
    is_warm = binding is not None
    start = asyncio.create_task(_start_spark(service, frontends, connecting, log_mask, is_warm=is_warm))
    code = await _run(lifecycle, start, stop, settings.config.drain_seconds)
    await frontends.close()
    await runner.cleanup()
    start.cancel()
    await asyncio.to_thread(jvm.stop)  # Spark ends its executors; a start that is still under way fails
    return code


async def _run(lifecycle: Lifecycle, start: asyncio.Task[None], stop: asyncio.Event, drain_seconds: float) -> int:
    """Serves until the process is to stop, and drains. Returns the exit code: 1 if Spark did not start, or has ended."""
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({start, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if start.done() and (failed := start.exception()) is not None:
        log.error("%s", failed if isinstance(failed, ContextEndedError) else f"Spark did not start: {failed}")
        return 1
    await stopped
    lifecycle.drain()
    log.info("draining")
    if lifecycle.spark is not None:
        await lifecycle.spark.operations.close(drain_seconds)
    return 0


async def _start_spark(
    service: ControlService,
    frontends: Frontends,
    connecting: asyncio.Future[SparkDriver],
    log_mask: LogMask,
    *,
    is_warm: bool,
) -> None:
    from sparksql.gateway.bootstrap import start_spark
    from sparksql.gateway.frontends.frontends import FrontendError
    from sparksql.gateway.operations.restoring import Restoring
    from sparksql.gateway.spark.executors import executors_wanted

    began = time.monotonic()
    lifecycle = service.lifecycle
    if frontends.failure is not None:
        lifecycle.init_failed(_failure_of(frontends.failure))
        return
    driver, settings = await connecting, lifecycle.settings
    started = await asyncio.to_thread(start_spark, driver, settings, lifecycle.clock, is_warm=is_warm)
    if started.init_failure is not None:
        log.error("init statement %d failed", started.init_failure.position)
        lifecycle.init_failed(started.init_failure)
        return
    spark = started.assemble(lifecycle.register, log_mask)
    if lifecycle.settings.config.restore is not None:
        restoring = Restoring(spark.operations, lifecycle.register, lifecycle.changes)
        digest = partial(spark.threads.run, spark.executor.changes.digest)
        lifecycle.state_lost = await restoring.restore(lifecycle.settings.config.restore, digest)
    try:
        await frontends.start(started.driver)
    except FrontendError as failed:
        lifecycle.init_failed(_failure_of(failed))
        return
    lifecycle.ready(spark)
    log.info("ready after %.1f s, boot id %s", time.monotonic() - began, lifecycle.boot_id)
    wanted = partial(spark.threads.guarded, executors_wanted, started.driver.context._jsc.sc())
    is_dynamic = started.driver.context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true"
    counting = [_count_executors(lifecycle, wanted)] if is_dynamic else []
    ended = _until_context_ends(partial(spark.threads.guarded, lambda: started.driver.can_run_jobs))
    await asyncio.gather(spark.operations.watch(), service.clients.watch(), ended, *counting)


async def _until_context_ends(can_run_jobs: Callable[[], Awaitable[bool | None]]) -> None:
    """Looks again and again whether Spark can run jobs. Raises ContextEndedError once it cannot."""
    while True:
        if await can_run_jobs() is False:
            raise ContextEndedError
        await asyncio.sleep(HEARTBEAT_SECONDS)


async def _count_executors(lifecycle: Lifecycle, wanted: Callable[[], Awaitable[int | None]]) -> None:
    """Reads again and again how many executors Spark asks for; heartbeats carry the number to the operator."""
    while True:
        lifecycle.executors_wanted = await wanted()
        await asyncio.sleep(HEARTBEAT_SECONDS)


def _failure_of(failed: FrontendError) -> InitFailure:
    error = OperationError(message=str(failed)[:MAX_FAILURE_CHARS])
    return InitFailure(position=0, statement="", frontend=failed.name, error=error)


def bound_heap() -> None:
    """Makes glibc give freed memory back: by default each thread keeps a heap of the size of its largest page.

    Arrow has an allocator of its own, which keeps what was freed for seconds; it is told to use glibc's as well.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return  # another C library
    for option, value in _MALLOC_OPTIONS:
        mallopt(option, value)


def _hide_memory() -> None:
    """Keeps this process's memory, environment and open files from other processes of its user, the JVM above all.

    After the JVM's start: before it, Python could not list its own open files, which it closes in a child.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is None or prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        log.warning("other processes of this user can read this one's memory")


def _set_up_logging(settings: Settings) -> None:
    fields_of = partial(_fields_of, settings.config.namespace, settings.config.session)
    made = handler(sys.stdout, logging.INFO, fields_of)
    logging.basicConfig(level=logging.INFO, handlers=[made], force=True)  # a driver that is bound has another name
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # pyspark logs the text and plan of each statement that fails.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger("SQLQueryContextLogger").disabled = True


def _fields_of(namespace: str, session: str, record: logging.LogRecord) -> dict[str, object]:
    """The session's name, and what the contract of logs names of a record's `extra` fields."""
    named = {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
    return {"namespace": namespace, "name": session, **named}


def _write_jvm_line(line: bytes) -> None:
    sys.stderr.buffer.write(line)
    sys.stderr.buffer.flush()


def _die_with_jvm(code: int) -> None:
    log.error("the JVM ended with exit code %d; this process ends with it", code)
    logging.shutdown()
    os._exit(exit_code_for(code))


def exit_code_for(jvm_code: int) -> int:
    """Returns the exit code of the process for that of its JVM, so that the pod shows why Spark ended.

    A JVM that a signal killed has a negative code here, which shells and the kubelet write as 128 plus the signal. One
    that ended with 0 without having been stopped failed all the same.
    """
    return 128 - jvm_code if jvm_code < 0 else jvm_code or 1


if __name__ == "__main__":
    main()
