"""The class path of local drivers."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparksql.gateway.spark.jvm import CLASS_PATH_FILE_ENV
from sparksql.local.instance import Instance, InstanceError
from sparksql.local.pods import java


def test_class_path_of_the_environment_is_taken(tmp_path: Path) -> None:
    assert java.class_path_environment(Instance("one", tmp_path), {CLASS_PATH_FILE_ENV: "/own"}) == {}


def test_session_jar_is_first_on_the_class_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "SESSION_JAR", tmp_path / "session.jar")
    with pytest.raises(InstanceError, match="make local-jar"):
        java.class_path_environment(Instance("one", tmp_path), {})
    (tmp_path / "session.jar").touch()
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark.jar").touch()
    variables = java.class_path_environment(Instance("one", tmp_path), {"SPARK_HOME": str(tmp_path)})
    entries = Path(variables[CLASS_PATH_FILE_ENV]).read_text().split(":")
    assert entries == [str(tmp_path / "session.jar"), str(tmp_path / "jars" / "spark.jar")]
