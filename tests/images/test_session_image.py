"""The session image: who it runs as, what it holds and leaves out, and that its JVMs start from the class-data archive."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.images.container import Container

CLASS_PATH = "/opt/spark/launch/classpath"


@pytest.fixture(scope="module")
def session(open_image: Callable[[str], Container]) -> Container:
    return open_image("localhost/spark-sql-session:dev")


@pytest.fixture(scope="module")
def class_path(session: Container) -> list[str]:
    return session.output("cat", CLASS_PATH).split(":")


def test_runs_as_a_numeric_unprivileged_user_with_a_name(session: Container) -> None:
    assert session.output("id", "-u") == "185"
    assert session.output("id", "-un") == "spark"


def test_session_image_is_writable_only_in_the_work_folders(session: Container) -> None:
    places = ("/opt", "/usr", "/etc", "/metastore", "/var/spark")
    # find also complains of folders that this user cannot even read.
    found = session.run("find", *places, "-xdev", "-writable", "-not", "-type", "l", "-prune", check=False).stdout
    assert set(found.splitlines()) == {"/opt/spark/work-dir", "/metastore", "/var/spark/local"}


@pytest.mark.parametrize(
    "jar",
    [
        "spark-connect_", "spark-hive_", "spark-hive-thriftserver_", "spark-kubernetes_", "spark-streaming_", "rocksdbjni-",
        "iceberg-spark-runtime-4.1_", "delta-spark_4.1_", "spark-sql-kafka-0-10_", "hadoop-aws-", "postgresql-",
    ],
)  # fmt: skip
def test_jar_is_on_the_class_path(class_path: list[str], jar: str) -> None:
    assert [path for path in class_path if path.rpartition("/")[2].startswith(jar)], class_path


@pytest.mark.parametrize(
    "jar",
    [
        "spark-mllib-local", "breeze", "spark-yarn", "spark-repl", "connect-repl", "hive-jdbc", "hive-beeline",
    ],
)  # fmt: skip
def test_jar_is_left_out(class_path: list[str], session: Container, jar: str) -> None:
    assert not [path for path in class_path if path.rpartition("/")[2].startswith(jar)]
    assert session.output("find", "/opt/spark", "-name", f"{jar}*") == ""


def test_jars_with_removed_classes_still_load_kryo_and_the_connect_helper(session: Container) -> None:
    """Kryo loads what it finds of MLlib by name, and Connect needs a class of it."""
    code = """
from py4j.java_gateway import GatewayParameters, JavaGateway
from sparksql.gateway.spark.jvm import DriverJvm
process = DriverJvm.start(300, lambda line: None)
there = process.connect()
gateway = JavaGateway(gateway_parameters=GatewayParameters(port=there.port, auth_token=there.secret))
spark = gateway.jvm.org.apache.spark
spark.serializer.KryoSerializer(spark.SparkConf(False)).newKryo()
print(gateway.jvm.java.lang.Class.forName("org.apache.spark.ml.util.ConnectHelper").getSimpleName())
gateway.close()
process.stop()
"""
    assert session.output("python3", "-c", code).splitlines()[-1] == "ConnectHelper"


def test_local_files_are_confined(session: Container) -> None:
    """Hadoop's class comes from our jar, and knows no folder unless the pod names some."""
    code = """
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JJavaError
from sparksql.gateway.spark.jvm import DriverJvm
import os
for roots in ("", "/tmp"):
    process = DriverJvm.start(300, lambda line: None, {**os.environ, "SPARKSQL_FILE_ROOTS": roots})
    there = process.connect()
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=there.port, auth_token=there.secret))
    hadoop = gateway.jvm.org.apache.hadoop
    for path in ("/etc/passwd", "/tmp"):
        files = hadoop.fs.FileSystem.getLocal(hadoop.conf.Configuration())
        try:
            print(roots or "none", path, files.exists(hadoop.fs.Path(path)))
        except Py4JJavaError as refused:
            print(roots or "none", path, refused.java_exception.getClass().getSimpleName())
    gateway.close()
    process.stop()
"""
    assert session.output("python3", "-c", code).splitlines()[-4:] == [
        "none /etc/passwd ConfinedException",
        "none /tmp ConfinedException",
        "/tmp /etc/passwd ConfinedException",
        "/tmp /tmp True",
    ]


def test_every_jar_of_the_class_path_exists(session: Container, class_path: list[str]) -> None:
    assert session.run("ls", *class_path).returncode == 0


def test_python_imports_the_gateway_and_its_libraries_compiled(session: Container) -> None:
    imports = "import sparksql.gateway, sparksql.wire.control, aiohttp, pyarrow, pandas, pyspark.sql; print(sparksql.__cached__)"
    cached = session.output("python3", "-c", imports)
    assert cached.endswith(".pyc")
    assert session.run("test", "-f", cached).returncode == 0


def test_the_image_holds_no_part_of_the_operator(session: Container) -> None:
    code = "import importlib.util as u; print([p for p in ('kube', 'engine', 'cli') if u.find_spec('sparksql.' + p)])"
    assert session.output("python3", "-c", code) == "[]"


@pytest.mark.parametrize("options", ["driver.options", "executor.options"])
def test_spark_classes_come_from_the_archive(session: Container, options: str) -> None:
    """With -Xshare:on the JVM does not start at all unless the archive fits class path and JVM."""
    backend = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    java = f"exec java @/opt/spark/launch/{options} -Xshare:on -Xlog:class+load:stdout -cp $(cat {CLASS_PATH}) {backend} --help"
    done = session.run("sh", "-c", java, check=False)
    loaded = [line for line in done.stdout.splitlines() if " org.apache.spark." in line and "$$Lambda" not in line]
    shared = [line for line in loaded if "source: shared objects file" in line]
    assert len(loaded) > 10, done.stdout[-2000:] + done.stderr
    assert shared == loaded


@pytest.mark.parametrize("options", ["driver.options", "executor.options"])
def test_the_optimising_compiler_is_asked_for_after_ten_times_the_calls_and_rounds(
    session: Container, options: str
) -> None:
    def thresholds(*given: str) -> dict[str, int]:
        printed = session.output("java", *given, "-XX:+PrintFlagsFinal", "-version")
        found = re.findall(r"(Tier4\w+Threshold)\s+= (\d+)", printed)
        return {name: int(value) for name, value in found}

    own = thresholds()
    assert "Tier4BackEdgeThreshold" in own
    assert thresholds(f"@/opt/spark/launch/{options}") == {name: 10 * value for name, value in own.items()}


def test_the_archive_stays_valid_with_jars_appended(session: Container) -> None:
    """A session's own jars come behind the image's; the metastore's configuration folder does, too."""
    java = (
        "exec java @/opt/spark/launch/executor.options -Xshare:on "
        f"-cp $(cat {CLASS_PATH}):/opt/spark/launch/metastore:/tmp org.apache.spark.util.VersionUtils"
    )
    assert "Main method not found" in session.run("sh", "-c", java, check=False).stderr


def test_the_class_data_archive_is_mapped_at_its_requested_address(session: Container) -> None:
    """Moved elsewhere each JVM would hold a private copy of most of it."""
    java = (
        "exec java @/opt/spark/launch/driver.options -Xlog:cds:stdout "
        f"-cp $(cat {CLASS_PATH}) org.apache.spark.util.VersionUtils"
    )
    assert "base 0x0000000800000000" in session.run("sh", "-c", java, check=False).stdout


def test_the_session_entrypoint_runs_other_commands_unchanged(session: Container) -> None:
    assert session.output("/opt/spark/entrypoint.sh", "echo", "a  b") == "a  b"
