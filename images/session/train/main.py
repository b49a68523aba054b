"""Writes the launch files and trains the class-data archive of the image.

Usage: main.py LAUNCH ARCHIVES. LAUNCH gets `classpath` (one line), `driver.options` and `executor.options` (one java option
per line, fit for `java @file`); ARCHIVES gets `spark.jsa`. A driver and an executor run once as they do in pods, the JVM
notes the classes they load, and one archive is made from both lists: one file serves driver, executor and metastore.
Invariant: the build fails unless a JVM with the written files really takes Spark's classes from the archive.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import workload
from pod_stand_in import ApiServer

SPARK_HOME = Path(os.environ["SPARK_HOME"])
GATEWAY_SERVER = "org.apache.spark.api.python.PythonGatewayServer"
# Serializable lambdas, which Scala's are, cannot be archived; a mismatch of class path or JVM makes all the rest unshared.
LEAST_SHARED_PERCENT = 90


def main(launch: Path, archives: Path) -> None:
    # Our own jar comes first: it has one class of Hadoop's in it.
    class_path = ":".join(
        str(jar) for folder in ("own", "jars", "connectors") for jar in sorted((SPARK_HOME / folder).glob("*.jar"))
    )
    (launch / "classpath").write_text(class_path + "\n", encoding="utf-8")
    archive = archives / "spark.jsa"
    archives.mkdir(parents=True, exist_ok=True)
    os.environ["SPARKSQL_FILE_ROOTS"] = tempfile.gettempdir()  # where the training's tables are
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # a build has no name that resolves; a driver pod has the same setting
    common = [
        f"-XX:SharedArchiveFile={archive}",
        # At its own address the archive is shared page by page; moved elsewhere, as is the default, every pointer in it has
        # to be written: 0.2 s and 210 MB of private memory for each JVM.
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:ArchiveRelocationMode=0",
        "-XX:-UsePerfData",
        # A start calls many methods often enough for the optimising compiler and never again, and a query runs many loops
        # that end soon after: on two cores it took more time than Spark itself. Ten times the calls and the rounds of a
        # loop are asked for; a scan of millions of rows gets there at once.
        "-XX:Tier4InvocationThreshold=50000",
        "-XX:Tier4MinInvocationThreshold=6000",
        "-XX:Tier4CompileThreshold=150000",
        "-XX:Tier4BackEdgeThreshold=400000",
        f"-Dlog4j2.configurationFile=file:{launch}/log4j2.properties",
    ]
    # Small heaps: the serial collector starts faster and has no threads of its own. Executors choose by their size.
    driver_options = [*module_options(), "-XX:+UseSerialGC", *common]
    write_lines(launch / "driver.options", driver_options)
    # As the gateway has for its driver (gateway/jvm.py): an XML schema that SQL names must not name local files.
    xml = ["-Djavax.xml.accessExternalDTD=http,https", "-Djavax.xml.accessExternalSchema=http,https"]
    write_lines(launch / "executor.options", [*common, *xml])
    with tempfile.TemporaryDirectory() as folder:
        driver_classes, executor_classes = Path(folder, "driver.classes"), Path(folder, "executor.classes")
        java = ["java", "-cp", class_path, *without_archive(driver_options)]
        with ApiServer(["/opt/spark/entrypoint.sh"]) as api_server:
            workload.run(java, driver_classes, executor_classes, api_server, Path(folder))
        dump(class_path, [driver_classes, executor_classes], archive)
    verify(class_path, driver_options)


def module_options() -> list[str]:
    """The java options that this Spark version asks for on this Java version, as its own launcher prints them."""
    submit = "org.apache.spark.deploy.SparkSubmit"
    launcher = [
        "java",
        "-cp",
        f"{SPARK_HOME}/jars/*",
        "org.apache.spark.launcher.Main",
        submit,
        "--class",
        "Any",
        "any.jar",
    ]
    # The variable as Spark's load-spark-env.sh sets it; without it the launcher looks for a build tree.
    environment = {**os.environ, "SPARK_SCALA_VERSION": "2.13"}
    printed = subprocess.run(launcher, capture_output=True, check=True, text=True, env=environment).stdout
    command = [argument.strip("\n") for argument in printed.split("\0")]
    options = command[command.index("-cp") + 2 : command.index(submit)]
    return [option for option in options if not option.startswith("-Xmx")]


def without_archive(options: Iterable[str]) -> list[str]:
    """`options` for a run that notes classes: the archive does not exist yet."""
    return [option for option in options if not option.startswith("-XX:SharedArchiveFile")]


def dump(class_path: str, lists: Sequence[Path], archive: Path) -> None:
    """Makes one archive of the classes in `lists`, first come first."""
    lines = dict.fromkeys(line for path in lists for line in path.read_text(encoding="utf-8").splitlines())
    merged = archive.with_suffix(".classes")
    write_lines(merged, lines)
    # G1 alone can store heap objects (interned strings, mirrors); the serial collector reads them as well.
    options = ["-Xshare:dump", "-XX:+UseG1GC", f"-XX:SharedClassListFile={merged}", f"-XX:SharedArchiveFile={archive}"]
    subprocess.run(
        ["java", "-Xmx1g", *options, "-Xlog:cds=error,cds+dynamic=error", "-cp", class_path],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    merged.unlink()
    print(f"archive: {len(lines)} lines, {archive.stat().st_size / 1e6:.0f} MB", flush=True)


def verify(class_path: str, options: Sequence[str]) -> None:
    """Starts the driver's JVM with the archive made mandatory and counts where Spark's classes came from."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "_PYSPARK_DRIVER_CONN_INFO_PATH": f"{folder}/connection"}
        loaded = subprocess.run(
            ["java", "-Xshare:on", "-Xlog:class+load:stdout", *options, "-cp", class_path, GATEWAY_SERVER],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            text=True,
            env=environment,
        ).stdout.splitlines()
    spark = [line for line in loaded if " org.apache.spark." in line and "$$Lambda" not in line]
    shared = [line for line in spark if "source: shared objects file" in line]
    print(f"verified: {len(shared)} of {len(spark)} Spark classes come from the archive", flush=True)
    if len(shared) * 100 < len(spark) * LEAST_SHARED_PERCENT:
        raise SystemExit("the class-data archive is not used")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
