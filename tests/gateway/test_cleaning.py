"""The program of a clean-up Job, as a process with a JVM of its own, on local folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparksql.gateway.clean import FAILED, GONE, REFUSED
from tests.support.process import image_environment

UID = "uid-1"
SECONDS = 60  # of the finalizer


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A complete savepoint below `root`, and another object's beside it."""
    for uid in (UID, "uid-2"):
        folder = tmp_path / "root" / "team-a" / "orders" / f"before-release-{uid}"
        (folder / "checkpoint" / "offsets").mkdir(parents=True)
        (folder / "checkpoint" / "offsets" / "0").write_text("v1")
        (folder / "owner.json").write_text(json.dumps({"uid": uid, "namespace": "team-a", "name": "before-release"}))
        (folder / "manifest.json").write_text("{}")
    return tmp_path / "root" / "team-a" / "orders" / f"before-release-{UID}"


def run(target: str, root: Path, *more: str, uid: str = UID) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "sparksql.gateway.clean",
        "--target",
        target,
        "--root",
        root.as_uri(),
    ]
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("POD_", "PYSPARK_", "SPARK_"))
    } | image_environment(root.parent)
    return subprocess.run(
        [*command, "--owner-uid", uid, *more],
        capture_output=True, text=True, timeout=SECONDS, check=False, env=environment, cwd=root.parent,
    )  # fmt: skip


def test_cleanup_finishes_an_interrupted_deletion_and_keeps_other_savepoints(target: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (target / "manifest.json").unlink()  # as far as an earlier try came
    ended = run(target.as_uri(), root)
    assert ended.returncode == GONE, ended.stderr
    assert not target.exists()
    assert (target.parent / "before-release-uid-2" / "manifest.json").exists()
    again = run(target.as_uri(), root)
    assert again.returncode == GONE, again.stderr
    assert "was not there" in again.stderr


def test_cleanup_refuses_a_savepoint_of_another_uid(target: Path, tmp_path: Path) -> None:
    ended = run(target.as_uri(), tmp_path / "root", uid="uid-2")
    assert ended.returncode == REFUSED, ended.stderr
    assert "does not name UID uid-2" in ended.stderr
    assert (target / "manifest.json").exists()
    assert (target / "checkpoint" / "offsets" / "0").exists()


def test_cleanup_refuses_a_savepoint_outside_the_savepoint_root(target: Path, tmp_path: Path) -> None:
    for place in (target.as_uri(), f"{(tmp_path / 'empty').as_uri()}/../{target.relative_to(tmp_path)}"):
        ended = run(place, tmp_path / "empty")
        assert ended.returncode == REFUSED, ended.stderr
    assert (target / "manifest.json").exists()


def test_settings_of_file_systems_reach_the_jvm_and_a_failure_tells_why(target: Path, tmp_path: Path) -> None:
    conf = tmp_path / "hadoop.json"
    conf.write_text(json.dumps({"spark.hadoop.fs.file.impl": "no.such.FileSystem"}))
    ended = run(target.as_uri(), tmp_path / "root", "--conf", str(conf))
    assert ended.returncode == FAILED, ended.stderr
    assert "failed: " in ended.stderr.splitlines()[-1]
    assert "no.such.FileSystem" in ended.stderr.splitlines()[-1]
    assert (target / "manifest.json").exists()
