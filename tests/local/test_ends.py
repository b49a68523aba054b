"""Ends of an instance, in order and not: nothing is lost, no write runs twice, no process stays."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from tests.local.conftest import COMMAND_SECONDS, LocalInstance

SESSION = """
apiVersion: sparksql.dev/v1alpha1
kind: SqlSession
metadata: {{name: one}}
spec:
  maxConcurrentStatements: 1
  init:
  - sql: CREATE TABLE IF NOT EXISTS target (v BIGINT) USING parquet LOCATION '{folder}/target'
"""
LONG = "SELECT sum(id % 7) AS v FROM range(0, 100000000000000)"
STATEMENT = """
---
apiVersion: sparksql.dev/v1alpha1
kind: SqlStatement
metadata: {{name: {name}}}
spec:
  sessionRef: {{name: one}}
  priority: {priority}
  sql: {sql}
"""
STATEMENTS = "sqlstatements.sparksql.dev"


def _phase(obj: Any) -> str:
    return str(obj["status"].get("phase", ""))


def _reason(obj: Any) -> str:
    return next((each["reason"] for each in obj["status"]["conditions"] if each["type"] == "Ready"), "")


def test_killed_instance_loses_nothing_and_writes_at_most_once(instance: LocalInstance, tmp_path: Path) -> None:
    texts = [
        SESSION.format(folder=tmp_path),
        STATEMENT.format(name="write", priority=5, sql=f"INSERT INTO target {LONG}"),
        STATEMENT.format(name="read", priority=0, sql="SELECT count(*) AS n FROM target"),
    ]
    (tmp_path / "all.yaml").write_text("".join(texts))
    process = instance.start("run", "-f", str(tmp_path / "all.yaml"))
    instance.until(STATEMENTS, "write", lambda obj: _phase(obj) == "Running")

    held = instance.run("status")
    assert held.code == 1
    assert f"instance default is in use by process {process.pid}" in held.err

    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=COMMAND_SECONDS)
    uid = instance.get("sqlstatements", "write")["metadata"]["uid"]
    assert instance.ok("run", "-s", "one", "-e", "SELECT 7 AS seven").split() == ["seven", "-----", "7"]
    lost, waiting = (instance.get("sqlstatements", name) for name in ("write", "read"))
    assert lost["metadata"]["uid"] == uid
    assert (_phase(lost), _reason(lost)) == ("Error", "SessionLost")
    assert (_phase(waiting), waiting["status"]["result"]["preview"]) == ("Finished", [["0"]])


def test_interrupted_run_cancels_the_statement_and_ends_in_order(instance: LocalInstance) -> None:
    process = instance.start("run", "--name", "long", "-e", LONG)
    instance.until(STATEMENTS, "long", lambda obj: _phase(obj) == "Running")
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=COMMAND_SECONDS)
    assert process.returncode == 130, err
    assert _phase(instance.stored(STATEMENTS, "long")) == "Canceled"
    assert instance.stored("pods.", "long") is None
    assert instance.processes() == []


def test_two_interrupts_end_the_run_at_once(instance: LocalInstance) -> None:
    process = instance.start("run", "--name", "long", "-e", LONG)
    instance.until(STATEMENTS, "long", lambda obj: _phase(obj) == "Running")
    os.kill(process.pid, signal.SIGINT)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=COMMAND_SECONDS)
    assert process.returncode == 130
