"""The process of a clean-up Job: deletes the data of one savepoint, with neither a driver nor Spark's context.

Its module path is what an operator asks of an image, which may be of another version: it stays.

A small JVM reaches any Hadoop file system with the settings that a driver has: `--conf` names a JSON file of Spark
properties, of which `spark.hadoop.*` counts; what Spark takes from the environment (AWS keys) is taken from there as well.

Exit codes: 0 the data is gone, 2 refused and nothing was deleted, 1 anything else; the last two say why on stderr and in
the container's termination message.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.protocol import Py4JJavaError

from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.jvm import DriverJvm
from sparksql.gateway.spark.shapes import Jvm
from sparksql.gateway.streaming.checkpoints.deletion import CleaningError, DeletionRefusedError, check_place, clean

GONE, FAILED, REFUSED = 0, 1, 2
HEAP_MIB = 192
# Storage that is away for a moment (its pod, its name or its address, as after a power cut) is tried again here: a new pod costs
# the Job's backoff (10, 20, 40 s) and its start.
RETRY_SECONDS = 30.0
PAUSE_SECONDS = 1.0
# Unless the class says otherwise: the shortest wait for a connection that Hadoop 3.4 takes. Its 30 s are half of the savepoint's
# deadline, and an address that has just gone answers nothing.
CONNECT_TIMEOUT = ("fs.s3a.connection.establish.timeout", "15s")
TERMINATION_LOG = Path("/dev/termination-log")  # Kubernetes' default terminationMessagePath
MAX_MESSAGE = 2048  # characters; the kubelet cuts at 4096 bytes


def main() -> None:
    """Deletes the savepoint that the arguments name and exits with GONE, FAILED or REFUSED.

    How that went is written to stderr and, unless the data is gone, for the kubelet.
    """
    arguments = _arguments()
    try:
        code, message = GONE, _run(arguments)
    except DeletionRefusedError as refused:
        code, message = REFUSED, f"refused: {refused}"
    except Exception as failure:
        code, message = FAILED, f"failed: {str(failure) or type(failure).__name__}"
    sys.stderr.write(f"{message}\n")
    if code != GONE:
        _leave_word(message)
    sys.exit(code)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sparksql.gateway.clean", description="Deletes the data of one savepoint.")
    parser.add_argument("--target", required=True, help="location of the savepoint")
    parser.add_argument("--root", required=True, help="the class's savepointRoot; only what lies below it is deleted")
    parser.add_argument("--owner-uid", required=True, help="UID of the SqlSavepoint that the marker file must name")
    parser.add_argument("--conf", type=Path, help="JSON file of Spark properties")
    return parser.parse_args()


def _run(arguments: argparse.Namespace) -> str:
    check_place(arguments.target, arguments.root)  # a wrong place costs no JVM
    conf = json.loads(arguments.conf.read_text(encoding="utf-8")) if arguments.conf else {}
    with _hadoop_files(conf) as (jvm, files):
        was_there = persistently(lambda: _attempt(jvm, files, arguments))
    return f"{arguments.target} {'is deleted' if was_there else 'was not there'}"


def persistently(
    attempt: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Returns what `attempt` returns, tried again after a CleaningError for RETRY_SECONDS; then raises that error.

    Whatever else it raises is raised at once: another attempt would find the same.
    """
    last = clock() + RETRY_SECONDS
    while True:
        try:
            return attempt()
        except CleaningError as failure:
            if clock() >= last:
                raise
            sys.stderr.write(f"tried again: {failure}\n")
        sleep(PAUSE_SECONDS)


def _attempt(jvm: Jvm, files: HadoopFiles, arguments: argparse.Namespace) -> bool:
    """One attempt. An error of input or output, Java's word for what the storage says, is a CleaningError."""
    try:
        return clean(files, arguments.target, arguments.root, arguments.owner_uid)
    except Py4JJavaError as thrown:
        if jvm.py4j.reflection.TypeUtil.isInstanceOf("java.io.IOException", thrown.java_exception):
            raise CleaningError(_reason(thrown)) from None
        raise


def _reason(thrown: Py4JJavaError) -> str:
    """What it says, without Java's stack."""
    return str(thrown.java_exception.toString())


@contextlib.contextmanager
def _hadoop_files(conf: Mapping[str, str]) -> Iterator[tuple[Jvm, HadoopFiles]]:
    jvm = DriverJvm.start(HEAP_MIB, _write_jvm_line)
    try:
        connection = jvm.connect()
        client = ClientServer(
            JavaParameters(port=connection.port, auth_token=connection.secret, auto_convert=True),
            PythonParameters(port=0, eager_load=False),  # nothing calls back
        )
        try:
            yield client.jvm, HadoopFiles(client.jvm, _hadoop_conf(client.jvm, conf))
        except Py4JJavaError as thrown:  # its text is the JVM's, which is gone a moment later
            raise CleaningError(_reason(thrown)) from None
        finally:
            client.shutdown()
    finally:
        jvm.stop()


def _hadoop_conf(jvm: Jvm, conf: Mapping[str, str]) -> Any:
    """Hadoop's configuration as Spark makes it for a driver."""
    spark_conf = jvm.org.apache.spark.SparkConf(False)
    for key, value in conf.items():
        spark_conf.set(key, value)
    hadoop_conf = jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(spark_conf)
    name, value = CONNECT_TIMEOUT
    if f"spark.hadoop.{name}" not in conf:
        hadoop_conf.set(name, value)
    return hadoop_conf


def _leave_word(message: str) -> None:
    """For `kubectl describe pod`. The file is there in a pod only."""
    if TERMINATION_LOG.is_file():
        with contextlib.suppress(OSError):
            TERMINATION_LOG.write_text(message[:MAX_MESSAGE], encoding="utf-8")


def _write_jvm_line(line: bytes) -> None:
    sys.stderr.buffer.write(line)
    sys.stderr.buffer.flush()


if __name__ == "__main__":
    main()
