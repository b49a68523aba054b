"""The writes that a command runs inside itself, as CREATE TABLE AS SELECT does. Spark gives them to listeners alone."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from pyspark.java_gateway import ensure_callback_server_started

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import simple_name
from sparksql.gateway.spark.shapes import JvmSession, LogicalPlan

_LISTENER = "org.apache.spark.sql.util.QueryExecutionListener"
_WAIT_SECONDS = 5.0  # the event of a write is on its way when its command returns
# What a listener is told of, by the class of the plan; each has the query whose rows it writes.
_WRITES = frozenset({"InsertIntoHadoopFsRelationCommand", "InsertIntoHiveTable", "AppendData", "OverwriteByExpression"})


class InnerWrites:
    """Collects the executions of writes in a session. The JVM calls it in a thread of its own."""

    def __init__(self) -> None:
        self._found: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def of(self, query: LogicalPlan) -> Any | None:
        """Returns the QueryExecution that has written the rows of an analysed query, None if there is none in time.

        To be asked once.
        """
        until = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                execution = self._found.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return None
            if execution.logical().query().equals(query):
                return execution

    def onSuccess(self, _name: str, execution: Any, _nanoseconds: int) -> None:
        """Keeps a write."""
        if simple_name(execution.logical()) in _WRITES:
            self._found.put(execution)

    def onFailure(self, _name: str, _execution: Any, _error: Any) -> None:
        """Keeps nothing: the statement fails as well."""

    class Java:
        """The interface of the JVM, as py4j looks for it."""

        implements: ClassVar = [_LISTENER]


@contextmanager
def inner_writes(driver: SparkDriver, session: JvmSession) -> Iterator[InnerWrites]:
    """Collects the writes that run in a session meanwhile."""
    writes = InnerWrites()
    gateway, jvm = driver.context._gateway, driver.jvm
    ensure_callback_server_started(gateway)
    # A proxy of the JVM stands for a Python object, another one at each call; it is taken back as the very one that was given.
    proxy = gateway.new_array(jvm.java.lang.Object, 1)
    jvm.java.lang.reflect.Array.set(proxy, 0, writes)
    invoke = jvm.org.apache.commons.lang3.reflect.MethodUtils.invokeMethod
    manager = session.listenerManager()
    invoke(manager, "register", proxy)
    try:
        yield writes
    finally:
        invoke(manager, "unregister", proxy)
