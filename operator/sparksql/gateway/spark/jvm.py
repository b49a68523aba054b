"""Starts the driver's JVM: Spark's py4j server directly, without spark-submit in between.

Starting `PythonGatewayServer` ourselves saves a second JVM and lets the image give a class path and options that match its
class-data archive. Invariants: one JVM per process and never a second one (its death ends the process, so that an operation
id can never run in two JVMs); the JVM ends when this process does, because the server stops at the end of its stdin.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

log = logging.getLogger(__name__)

CLASS_PATH_FILE_ENV = "SPARKSQL_JAVA_CLASSPATH_FILE"
OPTIONS_FILE_ENV = "SPARKSQL_JAVA_OPTIONS_FILE"
START_SECONDS = 120.0
STOP_SECONDS = 10.0
_SERVER_CLASS = "org.apache.spark.api.python.PythonGatewayServer"
_CONNECTION_INFO_ENV = "_PYSPARK_DRIVER_CONN_INFO_PATH"

# org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptions() of Spark 4.1.
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(
        f"--add-opens={package}=ALL-UNNAMED"
        for package in (
            "java.base/java.lang",
            "java.base/java.lang.invoke",
            "java.base/java.lang.reflect",
            "java.base/java.io",
            "java.base/java.net",
            "java.base/java.nio",
            "java.base/java.util",
            "java.base/java.util.concurrent",
            "java.base/java.util.concurrent.atomic",
            "java.base/jdk.internal.ref",
            "java.base/sun.nio.ch",
            "java.base/sun.nio.cs",
            "java.base/sun.security.action",
            "java.base/sun.util.calendar",
            "java.security.jgss/sun.security.krb5",
        )
    ),
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--enable-native-access=ALL-UNNAMED",
)
# Spark goes down its thread's stack for each level of a plan. With Java's 1 MiB 200 operations of a DataFrame went beyond it in a
# JVM that had compiled nothing yet. Only what a thread touches takes memory.
STACK_OPTION = "-Xss4m"
# SQL can have an XML schema read (rowValidationXSDPath), which may name other files to include; those come from the network
# or not at all.
XML_OPTIONS = ("-Djavax.xml.accessExternalDTD=http,https", "-Djavax.xml.accessExternalSchema=http,https")


class JvmError(Exception):
    """The JVM did not come up; the message says how it ended."""


@dataclass(frozen=True)
class JvmConnection:
    """Tells where py4j reaches the JVM, on loopback."""

    port: int
    secret: str = field(repr=False)


def spark_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Returns `$SPARK_HOME`, else the folder of the pyspark package, found without importing it (the JVM starts meanwhile)."""
    if configured := environment.get("SPARK_HOME"):
        return Path(configured)
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JvmError("neither SPARK_HOME nor the pyspark package is there")
    return Path(next(iter(spec.submodule_search_locations)))


def command(heap_mib: int, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Returns the java command: the image's class path and options where it names them, else all jars and Spark's own options."""
    java_home = environment.get("JAVA_HOME")
    java = f"{java_home}/bin/java" if java_home else shutil.which("java")
    if java is None:
        raise JvmError("no java on the path and no JAVA_HOME")
    if class_path_file := environment.get(CLASS_PATH_FILE_ENV):
        class_path = Path(class_path_file).read_text(encoding="utf-8").strip()
    else:
        class_path = ":".join(sorted(str(jar) for jar in (spark_home(environment) / "jars").glob("*.jar")))
    options: Sequence[str] = MODULE_OPTIONS
    if options_file := environment.get(OPTIONS_FILE_ENV):
        lines = Path(options_file).read_text(encoding="utf-8").splitlines()
        options = [line.strip() for line in lines if line.strip()]
    return [java, "-cp", class_path, f"-Xmx{heap_mib}m", *options, STACK_OPTION, *XML_OPTIONS, _SERVER_CLASS]


class DriverJvm:
    """The JVM process. `start` returns at once; `connect` waits for its py4j server."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._stopping = threading.Event()

    @classmethod
    def start(
        cls,
        heap_mib: int,
        write_log: Callable[[bytes], None],
        environment: Mapping[str, str] = os.environ,
    ) -> DriverJvm:
        """Starts the JVM; each line that it prints goes to `write_log`, which masks secrets."""
        folder = Path(tempfile.mkdtemp(prefix="sparksql-jvm-"))
        child_environment = {
            **environment,
            _CONNECTION_INFO_ENV: str(folder / "connection"),
            "SPARK_HOME": str(spark_home(environment)),
            # Spark's UI listens where this says; driver and block manager have addresses of their own in the conf.
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        process = subprocess.Popen(  # noqa: S603  the command is ours and the image's
            command(heap_mib, environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=child_environment,
            start_new_session=True,  # a signal to the terminal's group must reach only this process, which then drains
        )
        if process.stdout is None:
            raise JvmError("the JVM has no output pipe")
        threading.Thread(target=_pump, args=(process.stdout, write_log), name="jvm-log", daemon=True).start()
        return cls(process, folder)

    @property
    def pid(self) -> int:
        """Returns the process id of the JVM."""
        return self._process.pid

    def connect(self, *, clock: Callable[[], float] = time.monotonic) -> JvmConnection:
        """Waits until the server has written where it listens. Raises JvmError when it ended or took too long."""
        deadline = clock() + START_SECONDS
        path = self._folder / "connection"
        while not path.is_file():
            if (code := self._process.poll()) is not None:
                raise JvmError(f"the JVM ended with exit code {code} before it listened")
            if clock() > deadline:
                raise JvmError(f"the JVM did not listen within {START_SECONDS:.0f} s")
            time.sleep(0.02)
        content = path.read_bytes()
        port, length = struct.unpack_from(">ii", content)
        shutil.rmtree(self._folder, ignore_errors=True)
        return JvmConnection(port, content[8 : 8 + length].decode())

    def on_death(self, react: Callable[[int], None]) -> None:
        """Calls `react` with the exit code when the JVM ends without having been stopped."""

        def watch() -> None:
            code = self._process.wait()
            if not self._stopping.is_set():
                react(code)

        threading.Thread(target=watch, name="jvm-watch", daemon=True).start()

    def stop(self) -> None:
        """Ends the JVM: orderly by closing its stdin, by force after STOP_SECONDS."""
        self._stopping.set()
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            log.warning("the JVM did not stop within %.0f s and is killed", STOP_SECONDS)
            self._process.kill()
            self._process.wait()


def _pump(source: IO[bytes], write_log: Callable[[bytes], None]) -> None:
    for line in source:
        write_log(line)
