"""What the process is started with: the folder, the java command, Spark's configuration."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sparksql.gateway.settings import CONFIG_WAIT_SECONDS, ConfigError, PodIdentity, Settings, read_settings
from sparksql.gateway.spark.driver import (
    DATABASES,
    EXTENSIONS,
    FUNCTION_PARAMETERS,
    GUARANTEES,
    MERGED_SESSIONS,
    SESSION_VIEWS,
    build_conf,
)
from sparksql.gateway.spark.jvm import CLASS_PATH_FILE_ENV, MODULE_OPTIONS, OPTIONS_FILE_ENV, command
from sparksql.gateway.spark.metastore import METASTORE_SECONDS, await_metastore
from sparksql.kube.tls import session_certificate
from sparksql.wire.driver import (
    CONFIG_DIR_ENV,
    CONFIG_FILE,
    CONFIG_HASH_ENV,
    EXECUTOR_SECRET_FILE,
    EXECUTOR_TEMPLATE_FILE,
    TLS_CERT_FILE,
    TLS_KEY_FILE,
    TOKEN_FILE,
    DriverConfig,
    config_hash,
)


def config(**changes: object) -> DriverConfig:
    values = {"namespace": "n", "session": "s", "session_uid": "u", "incarnation": 1, **changes}
    return DriverConfig.model_validate(values)


def folder_with(path: Path, text: str) -> dict[str, str]:
    (path / CONFIG_FILE).write_text(text)
    (path / TOKEN_FILE).write_text("token\n")
    return {CONFIG_DIR_ENV: str(path)}


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("failures", "waits"), [(0, 0.0), (3, 3.0), (10_000, METASTORE_SECONDS)])
def test_a_metastore_that_still_starts_is_waited_for(failures: int, waits: float) -> None:
    clock, left = Clock(), [failures]

    def ask() -> None:
        if left[0]:
            left[0] -= 1
            raise ConnectionError("refused")

    assert await_metastore(ask, clock=clock, sleep=clock.sleep) is (failures < METASTORE_SECONDS)
    assert clock.now == waits


def test_settings_are_read_from_a_folder(tmp_path: Path) -> None:
    text = config().to_file()
    settings = read_settings(folder_with(tmp_path, text))
    assert (settings.config, settings.config_hash, settings.token) == (config(), config_hash(text), "token")
    assert (settings.listen_address, settings.tls, settings.executor_template) == ("127.0.0.1", None, None)


def test_reading_the_settings_leaves_only_executor_template_and_secret_files(tmp_path: Path) -> None:
    environment = folder_with(tmp_path, config().to_file())
    certificate, key = session_certificate("s", "u", "n", datetime.now(UTC))
    (tmp_path / TLS_CERT_FILE).write_text(certificate)
    (tmp_path / TLS_KEY_FILE).write_text(key)
    (tmp_path / EXECUTOR_TEMPLATE_FILE).write_text("{}")
    (tmp_path / EXECUTOR_SECRET_FILE).write_bytes(b"\x00")
    settings = read_settings(environment)
    assert sorted(file.name for file in tmp_path.iterdir()) == [EXECUTOR_SECRET_FILE, EXECUTOR_TEMPLATE_FILE]
    assert settings.tls is not None and settings.tls_pair is not None
    assert (settings.tls_pair.certificate.decode(), settings.tls_pair.key.decode()) == (certificate, key)
    assert settings.executor_secret == tmp_path / EXECUTOR_SECRET_FILE
    assert "token" not in repr(settings) and key not in repr(settings)


def test_a_settings_file_that_cannot_be_removed_is_a_config_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a mounted Secret, which is read-only."""

    def unlink(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.raises(ConfigError, match=r"config\.json.*Read-only"):
        read_settings(folder_with(tmp_path, config().to_file()))


def test_an_older_file_is_waited_for(tmp_path: Path) -> None:
    clock = Clock()
    expected = config(incarnation=2).to_file()
    environment = {**folder_with(tmp_path, config().to_file()), CONFIG_HASH_ENV: config_hash(expected)}

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if clock.now > 10:
            (tmp_path / CONFIG_FILE).write_text(expected)

    assert read_settings(environment, clock=clock, sleep=sleep).config.incarnation == 2


def test_a_file_that_never_comes_is_an_error(tmp_path: Path) -> None:
    clock = Clock()
    environment = {**folder_with(tmp_path, config().to_file()), CONFIG_HASH_ENV: "another"}
    with pytest.raises(ConfigError, match="another"):
        read_settings(environment, clock=clock, sleep=clock.sleep)
    assert clock.now >= CONFIG_WAIT_SECONDS


def test_executors_are_owned_by_the_pod_that_started_them(tmp_path: Path) -> None:
    environment = folder_with(tmp_path, config().to_file())
    (tmp_path / EXECUTOR_TEMPLATE_FILE).write_text('{"metadata": {"labels": {"a": "b"}}, "spec": {}}')
    environment |= {"POD_NAME": "driver-1", "POD_UID": "u-1"}
    template = read_settings(environment).executor_template
    assert template is not None
    metadata = json.loads(template.read_text())["metadata"]
    assert metadata["labels"] == {"a": "b"}
    [owner] = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", "driver-1", "u-1")


def test_in_a_pod_there_is_no_plain_http(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="TLS"):
        read_settings({**folder_with(tmp_path, config().to_file()), "POD_IP": "10.0.0.7"})


def test_the_image_may_name_class_path_and_options(tmp_path: Path) -> None:
    (tmp_path / "cp").write_text("/a.jar:/b.jar\n")
    (tmp_path / "options").write_text("-XX:SharedArchiveFile=/x.jsa\n\n--add-opens=a/b=ALL-UNNAMED\n")
    environment = {
        "JAVA_HOME": "/jdk",
        CLASS_PATH_FILE_ENV: str(tmp_path / "cp"),
        OPTIONS_FILE_ENV: str(tmp_path / "options"),
    }
    assert command(1536, environment) == [
        "/jdk/bin/java",
        "-cp",
        "/a.jar:/b.jar",
        "-Xmx1536m",
        "-XX:SharedArchiveFile=/x.jsa",
        "--add-opens=a/b=ALL-UNNAMED",
        "-Xss4m",
        "-Djavax.xml.accessExternalDTD=http,https",
        "-Djavax.xml.accessExternalSchema=http,https",
        "org.apache.spark.api.python.PythonGatewayServer",
    ]


def test_without_an_image_class_path_the_java_command_uses_sparks_own_jars(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    for name in ("b.jar", "a.jar"):
        (tmp_path / "jars" / name).touch()
    made = command(512, {"JAVA_HOME": "/jdk", "SPARK_HOME": str(tmp_path)})
    assert made[2] == f"{tmp_path}/jars/a.jar:{tmp_path}/jars/b.jar"
    assert set(MODULE_OPTIONS) < set(made)


def settings(spark_conf: dict[str, str], pod: PodIdentity, template: Path | None = None) -> Settings:
    policy = {"enforcedConf": {"spark.sql.ansi.enabled": "true"}}
    return Settings(config(spark_conf=spark_conf, policy=policy), "", "t", None, pod, template)


def test_spark_conf_of_a_pod_names_its_address_and_owner() -> None:
    pod = PodIdentity(ip="10.0.0.7", name="driver-1", uid="u-1", namespace="team-a")
    wish = {"spark.master": "k8s://https://kubernetes.default", "spark.sql.ansi.enabled": "false"}
    conf = build_conf(settings(wish, pod, Path("/etc/sparksql/executor.json")))
    assert {
        key: conf[key] for key in conf if key.startswith(("spark.driver.", "spark.kubernetes.", "spark.block"))
    } == {
        "spark.driver.host": "10.0.0.7",
        "spark.driver.bindAddress": "0.0.0.0",
        "spark.driver.port": "7078",
        "spark.blockManager.port": "7079",
        "spark.kubernetes.namespace": "team-a",
        "spark.kubernetes.executor.podTemplateFile": "/etc/sparksql/executor.json",
    }
    assert conf["spark.sql.ansi.enabled"] == "true"


def test_conf_of_a_laptop_keeps_to_loopback_and_nothing_overrides_the_guarantees() -> None:
    wish = dict.fromkeys(GUARANTEES, "other")
    wish["spark.sql.catalog.ice"] = "org.apache.iceberg.spark.SparkCatalog"
    wish["spark.sql.catalog.ice.cache-enabled"] = "true"
    conf = build_conf(settings(wish, PodIdentity()))
    assert GUARANTEES.items() <= conf.items()
    assert (conf["spark.driver.host"], conf["spark.driver.bindAddress"]) == ("127.0.0.1", "127.0.0.1")
    assert conf["spark.sql.catalog.ice.cache-enabled"] == "false"
    assert "spark.driver.port" not in conf


def test_local_driver_has_no_settings_of_a_cluster_and_listens_on_loopback() -> None:
    pod = PodIdentity(ip="127.1.2.3", name="driver-1", uid="u-1", namespace="team-a")
    cluster = {
        "spark.master": "k8s://https://kubernetes.default",
        "spark.kubernetes.container.image": "i",
        "spark.authenticate": "true",
        "spark.authenticate.secret.driver.file": "/etc/sparksql/executor-secret",
        "spark.dynamicAllocation.enabled": "true",
        "spark.executor.instances": "2",
        "spark.driver.port": "7078",
        "spark.blockManager.port": "7079",
        "spark.driver.blockManager.port": "7079",
    }
    local = replace(settings({**cluster, "spark.sql.shuffle.partitions": "4"}, pod), local_master="local[*]")
    conf = build_conf(local)
    assert (conf["spark.master"], local.listen_address) == ("local[*]", "127.1.2.3")
    assert (conf["spark.driver.host"], conf["spark.driver.bindAddress"]) == ("127.1.2.3", "127.1.2.3")
    assert not (cluster.keys() - {"spark.master"}) & conf.keys()
    assert conf["spark.sql.shuffle.partitions"] == "4"


def test_the_jvm_gets_the_options_of_databases_that_the_class_names_in_full_and_no_session_changes_them() -> None:
    allow = (
        "spark.sql.*",
        " JDBC.Oracle ",
        "jdbc.postgresql.sslrootcert",
        "jdbc.*",
        "jdbc.mysql.*",
        "jdbc.a,jdbc.b",
        "*",
    )
    given = config(spark_conf={DATABASES: "jdbc.mysql"}, policy={"confAllow": allow})
    conf = build_conf(Settings(given, "", "t", None, PodIdentity(), None))
    assert conf[DATABASES] == "jdbc.oracle,jdbc.postgresql.sslrootcert"


@pytest.mark.parametrize(
    ("named", "set_to"),
    [
        ("a.Extensions,b.Extensions", f"{MERGED_SESSIONS},a.Extensions,b.Extensions,{FUNCTION_PARAMETERS}"),
        (" ", MERGED_SESSIONS),
        (None, MERGED_SESSIONS),
    ],
)
def test_the_gateway_extensions_stand_around_the_extensions_of_the_class(named: str | None, set_to: str) -> None:
    wish = {} if named is None else {EXTENSIONS: named}
    assert build_conf(settings(wish, PodIdentity())).get(EXTENSIONS) == set_to


@pytest.mark.parametrize(
    ("catalog", "has_views"),
    [
        ({}, True),
        ({"type": "Hive"}, True),
        ({"type": "rest"}, False),
        ({"catalog-impl": "org.apache.iceberg.nessie.NessieCatalog"}, False),
    ],
)
def test_views_are_left_to_spark_where_iceberg_shares_its_metastore(catalog: dict[str, str], has_views: bool) -> None:
    key = "spark.sql.catalog.spark_catalog"
    wish = {EXTENSIONS: "a.B", key: "org.apache.iceberg.spark.SparkSessionCatalog"}
    wish |= {f"{key}.{name}": value for name, value in catalog.items()}
    first = [SESSION_VIEWS] if has_views else []
    assert build_conf(settings(wish, PodIdentity()))[EXTENSIONS].split(",") == [
        MERGED_SESSIONS,
        *first,
        "a.B",
        FUNCTION_PARAMETERS,
    ]
