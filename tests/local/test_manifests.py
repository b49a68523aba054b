"""Manifests run on this machine as on a cluster: statements of all kinds, in one session, in one command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.conftest import LocalInstance, Outcome, make_instance

MANIFESTS = """
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {limit: "20"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: texts}
data:
  script: |
    BEGIN
      DECLARE total INT DEFAULT 0;
      SET total = (SELECT sum(v) FROM numbers);
      SELECT total AS total;
    END
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: elsewhere}
---
apiVersion: sparksql.dev/v1alpha1
kind: SqlSession
metadata: {name: team}
spec:
  init:
  - sql: CREATE TEMPORARY VIEW numbers AS SELECT * FROM VALUES (1), (20), (30) AS t(v)
  executors: {instances: 3}
---
apiVersion: sparksql.dev/v1alpha1
kind: SqlStatement
metadata: {name: a-parameter}
spec:
  sessionRef: {name: team}
  sql: SELECT v FROM numbers WHERE v > :limit
  parameters:
  - name: limit
    type: INT
    valueFrom: {secretKeyRef: {name: keys, key: limit}}
---
apiVersion: sparksql.dev/v1alpha1
kind: SqlStatement
metadata: {name: b-script}
spec:
  sessionRef: {name: team}
  sqlFrom: {configMapKeyRef: {name: texts, key: script}}
  dependsOn: [{name: a-parameter}]
---
apiVersion: sparksql.dev/v1alpha1
kind: SqlStatement
metadata: {name: c-mistake}
spec:
  sessionRef: {name: team}
  sql: SELECT w FROM numbers
---
apiVersion: sparksql.dev/v1alpha1
kind: SqlStatement
metadata: {name: d-after-mistake}
spec:
  sessionRef: {name: team}
  sql: SELECT 1
  dependsOn: [{name: c-mistake}]
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalInstance, Outcome]]:
    folder = tmp_path_factory.mktemp("local")
    instance = make_instance(folder)
    manifests = folder / "manifests"
    manifests.mkdir()
    (manifests / "all.yaml").write_text(MANIFESTS)
    (manifests / "README.md").write_text("no manifest")
    yield instance, instance.run("run", "-f", str(manifests))
    assert instance.processes() == []


Ran = tuple[LocalInstance, Outcome]


def test_run_prints_rows_and_mistakes_and_lists_skipped_objects(ran: Ran) -> None:
    instance, outcome = ran
    assert outcome.code == 1, f"{outcome}\n{instance.log_tail()}"
    assert outcome.out.split() == ["v", "--", "30", "total", "-----", "51"]
    assert "Deployment/elsewhere skipped" in outcome.err
    assert "UNRESOLVED_COLUMN" in outcome.err


@pytest.mark.parametrize(
    ("name", "phase", "reason"),
    [
        ("a-parameter", "Finished", "Finished"),
        ("b-script", "Finished", "Finished"),
        ("c-mistake", "Error", "SqlError"),
        ("d-after-mistake", "Error", "DependencyFailed"),
    ],
)
def test_statement_status_has_the_expected_end(ran: Ran, name: str, phase: str, reason: str) -> None:
    status = ran[0].get("sqlstatements", name)["status"]
    ready = next(each["reason"] for each in status["conditions"] if each["type"] == "Ready")
    assert (status["phase"], ready) == (phase, reason)


def test_other_commands_read_the_same_instance(ran: Ran) -> None:
    instance, _ = ran
    assert instance.ok("results", "a-parameter").split() == ["v", "--", "30"]
    assert "Statement" in instance.ok("describe", "b-script")
    assert "c-mistake" in instance.ok("status")
    names = {line.split()[0] for line in instance.ok("get", "sqlstatements").splitlines()}
    assert names == {"a-parameter", "b-script", "c-mistake", "d-after-mistake"}


def test_session_reports_fields_without_effect_once(ran: Ran) -> None:
    status = ran[0].get("sqlsessions", "team")["status"]
    [local] = [each for each in status["conditions"] if each["type"] == "LocalMode"]
    assert (local["status"], local["reason"]) == ("True", "NotApplied")
    assert "executors" in local["message"]


def test_files_of_an_instance_are_readable_to_the_owner_only(ran: Ran) -> None:
    instance, _ = ran
    files = [path for path in instance.data.rglob("*") if not path.is_relative_to(instance.data / "data")]
    assert files
    assert {oct(path.stat().st_mode & 0o077) for path in (instance.data, *files)} == {"0o0"}


def test_deleted_statement_is_gone_at_the_next_run(ran: Ran) -> None:
    instance, _ = ran
    instance.ok("delete", "sqlstatements", "d-after-mistake")
    assert "d-after-mistake" in instance.run("describe", "d-after-mistake").err


def test_mistakes_of_use_name_the_remedy(tmp_path: Path) -> None:
    instance = make_instance(tmp_path)
    refused = instance.run("--instance", "A B", "run", "-e", "SELECT 1")
    assert refused.code != 0 and "--instance A B" in refused.err and "lower case" in refused.err
    (tmp_path / "empty").mkdir()
    assert "has no .yaml" in instance.run("run", "-f", str(tmp_path / "empty")).err
