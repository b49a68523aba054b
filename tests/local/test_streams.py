"""A streaming statement of an instance resumes from its checkpoint with the next command."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pyarrow.parquet

from tests.local.conftest import COMMAND_SECONDS, LocalInstance

MANIFESTS = """
apiVersion: sparksql.dev/v1alpha1
kind: SqlSession
metadata: {{name: streams}}
spec:
  init:
  - sql: CREATE TABLE IF NOT EXISTS source (v BIGINT) USING json LOCATION '{folder}/source'
  - sql: CREATE TABLE IF NOT EXISTS sink (v BIGINT) USING parquet LOCATION '{folder}/sink'
---
apiVersion: sparksql.dev/v1alpha1
kind: SqlStatement
metadata: {{name: copy}}
spec:
  sessionRef: {{name: streams}}
  sql: INSERT INTO sink SELECT v FROM STREAM source
  streaming: {{}}
"""
LONG = "SELECT sum(id % 7) AS v FROM range(0, 100000000000000, 1, 1)"  # one task: the stream has the other core


def _add(folder: Path, name: str, *values: int) -> None:
    (folder / "source").mkdir(exist_ok=True)
    (folder / "source" / f"{name}.json").write_text("".join(f"{json.dumps({'v': value})}\n" for value in values))


def _rows(folder: Path) -> list[int]:
    """The rows of the files that the stream has committed."""
    logs = [file for file in (folder / "sink" / "_spark_metadata").glob("*") if file.name.isdecimal()]
    entries = [json.loads(line) for log in logs for line in log.read_text().splitlines()[1:]]
    files = [entry["path"].removeprefix("file://") for entry in entries]
    return sorted(pyarrow.parquet.ParquetDataset(files).read()["v"].to_pylist()) if files else []


def _run_until_rows(instance: LocalInstance, folder: Path, rows: list[int]) -> None:
    """Runs the instance while a statement runs that does not end by itself, and interrupts it when the rows are there."""
    name = f"keeps-it-running-{len(rows)}"
    process = instance.start("run", "-s", "streams", "--name", name, "-e", LONG)
    instance.until("sqlstatements.sparksql.dev", name, lambda obj: obj["status"].get("phase") == "Running")
    deadline = time.monotonic() + COMMAND_SECONDS
    try:
        while _rows(folder) != rows:
            assert process.poll() is None and time.monotonic() < deadline, f"{_rows(folder)}\n{instance.log_tail()}"
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=COMMAND_SECONDS)
    finally:
        process.kill()


def test_stream_resumes_from_the_checkpoint_with_the_next_command(instance: LocalInstance, tmp_path: Path) -> None:
    _add(tmp_path, "first", 1, 2)
    (tmp_path / "stream.yaml").write_text(MANIFESTS.format(folder=tmp_path))
    ran = instance.run("run", "-f", str(tmp_path / "stream.yaml"))
    assert (ran.code, "copy: Running" in ran.err) == (0, True), f"{ran}\n{instance.log_tail()}"
    first = instance.get("sqlstatements", "copy")
    _run_until_rows(instance, tmp_path, [1, 2])

    _add(tmp_path, "second", 3)
    _run_until_rows(instance, tmp_path, [1, 2, 3])
    second = instance.get("sqlstatements", "copy")
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    checkpoint = second["status"]["streaming"]["checkpointLocation"]
    assert checkpoint.startswith((instance.data / "data" / "checkpoints").as_uri())
