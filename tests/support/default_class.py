"""A gateway as the chart's default class makes it: its configuration, its jars, its database, and a Hive metastore of its own."""

from __future__ import annotations

import os
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparksql.domain.session.resolve import database_name
from sparksql.gateway.spark.jvm import CLASS_PATH_FILE_ENV
from sparksql.wire.driver import FILE_ROOTS_ENV
from tests.runner.starts import measured
from tests.support import java_classes
from tests.support.class_archive import java, java_options
from tests.support.maven import REPOSITORY, jars
from tests.support.ports import free_port, listens
from tests.support.process import FILES, GatewayProcess, driver_config, running

VALUES = REPOSITORY / "charts/spark-sql-operator/values.yaml"
METASTORE_CONF = REPOSITORY / "images/session/conf/metastore/hive-site.xml"
METASTORE_SECONDS = 600


def class_defaults() -> dict[str, Any]:
    """`spec.defaults` of the chart's default class."""
    defaults: dict[str, Any] = yaml.safe_load(VALUES.read_text())["defaultClass"]["defaults"]
    return defaults


def image_connectors() -> list[str]:
    """The jars that the session image has beside Spark's."""
    return jars("images/session/jars/pom.xml", "-Dspark.line=4.1")


@contextmanager
def class_path(folder: Path) -> Iterator[str]:
    """The session image's class path for JVMs that start meanwhile."""
    own = java_classes.class_path(image_connectors())
    file = folder / "classpath"
    file.write_text(own)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CLASS_PATH_FILE_ENV, str(file))
        yield own


@contextmanager
def running_as_default_class(folder: Path, **changes: Any) -> Iterator[GatewayProcess]:
    """The gateway, which ends with the block. `changes` are those of `driver_config`."""
    with class_conf(folder) as conf:
        database = database_name(class_defaults()["database"], driver_config(folder).namespace)
        with running(folder, spark_conf=conf, database=database, **changes) as started:
            yield started


@contextmanager
def class_conf(folder: Path) -> Iterator[dict[str, str]]:
    """The class's Spark configuration for drivers that start meanwhile, with a metastore in the folder."""
    with class_path(folder) as jars_of_image, _metastore(folder / "metastore", jars_of_image) as address:
        yield {
            **class_defaults()["conf"],
            "spark.sql.codegen.wholeStage": "true",
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": address,
        }


@contextmanager
def _metastore(folder: Path, jars_of_image: str) -> Iterator[str]:
    """A metastore as the image starts it, with the image's configuration and its data in the folder; its address."""
    (folder / "conf").mkdir(parents=True)
    site = METASTORE_CONF.read_text().replace("/metastore/", f"{folder}/")
    assert str(folder) in {_value.partition("=")[2].partition("/db;")[0] for _value in _values(site)}, site
    (folder / "conf" / "hive-site.xml").write_text(site)
    port = free_port()
    command = [
        java(),
        *java_options(java_classes.class_path()),
        "-Xmx256m",
        "-cp",
        f"{jars_of_image}:{folder / 'conf'}",
    ]
    command += ["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
    with (folder / "log").open("wb") as log:
        environment = {**os.environ, FILE_ROOTS_ENV: FILES}
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_until_listening(process, port, folder / "log")
        yield f"thrift://127.0.0.1:{port}"
    finally:
        process.kill()  # its data are this block's alone
        process.wait()


def _values(site: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(site).iter("value")]


def _wait_until_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + METASTORE_SECONDS
    with measured("metastore"):
        while not listens(port):
            assert process.poll() is None and time.monotonic() < deadline, (
                f"the metastore does not listen:\n{log.read_text(errors='replace')[-4000:]}"
            )
            time.sleep(0.05)
