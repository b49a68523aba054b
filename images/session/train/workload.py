"""What the training run does: the statements of a usual session on every connector that the image has.

Each class that is loaded here starts from the archive later; a class that is not is loaded the slow way, nothing else. So
the workload is wide, not deep. Optional connectors are found by their jars, because not every Spark line has them all.
"""

from __future__ import annotations

import os
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pod_stand_in import DRIVER_POD, NAMESPACE, ApiServer

START_SECONDS = 120
GATEWAY_SERVER = "org.apache.spark.api.python.PythonGatewayServer"

QUERIES = (
    "CREATE DATABASE IF NOT EXISTS d",
    "CREATE TABLE d.t USING parquet PARTITIONED BY (p) AS SELECT id, id % 3 AS p, concat('n', id) AS s, "
    "id * 1.5D AS x, timestamp'2026-01-01' + make_interval(0, 0, 0, 0, 0, 0, id) AS ts FROM range(100)",
    "INSERT INTO d.t SELECT id, 's', 0.5, current_timestamp(), id % 3 FROM range(10)",
    "SELECT p, count(*), sum(x), max(s), approx_count_distinct(id) FROM d.t WHERE id > 3 GROUP BY p ORDER BY p",
    "SELECT /*+ MERGE(a) */ a.id, b.s FROM d.t a JOIN d.t b ON a.id = b.id LIMIT 5",
    "SELECT /*+ BROADCAST(b) */ a.id, b.s FROM d.t a LEFT JOIN d.t b ON a.id = b.id WHERE a.s LIKE 'n%' LIMIT 5",
    "SELECT id, row_number() OVER (PARTITION BY p ORDER BY ts DESC) r, lag(id) OVER (PARTITION BY p ORDER BY id) FROM d.t",
    "SELECT window(ts, '1 minute').start w, count(DISTINCT id), collect_list(id) FROM d.t GROUP BY 1 ORDER BY 1 LIMIT 3",
    "WITH c AS (SELECT explode(array(1, 2, 3)) e) SELECT e, CASE WHEN e > 1 THEN 'a' ELSE 'b' END, to_json(named_struct('e', e)), "
    "date_add(current_date(), e), regexp_replace('abc', 'b', 'x'), cast(e AS DECIMAL(10,2)) / 3 FROM c WHERE e IN (1, 3)",
    "SELECT p, grouping_id(), avg(x) FROM d.t GROUP BY CUBE (p, s) HAVING avg(x) > 1 LIMIT 5",
    "SELECT * FROM d.t WHERE id IN (SELECT max(id) FROM d.t) UNION ALL SELECT * FROM d.t WHERE p = 0 LIMIT 3",
    "CREATE OR REPLACE TEMP VIEW v AS SELECT * FROM d.t",
    "CREATE TABLE d.j (a INT, b STRING) USING json",
    "INSERT INTO d.j VALUES (1, 'x')",
    "CREATE TABLE d.c (a INT, b STRING) USING csv",
    "INSERT INTO d.c VALUES (1, 'x')",
    "SELECT * FROM d.j JOIN d.c USING (a)",
    "DESCRIBE TABLE EXTENDED d.t",
    "SHOW TABLES IN d",
    "SHOW DATABASES",
    "SHOW CREATE TABLE d.t",
    "EXPLAIN FORMATTED SELECT p, count(*) FROM d.t GROUP BY p",
    "SET spark.sql.shuffle.partitions=2",
    "USE d",
    "DECLARE OR REPLACE VARIABLE q INT DEFAULT 1",
    "SELECT q + 1",
    "CACHE TABLE v",
    "ANALYZE TABLE d.t COMPUTE STATISTICS",
    "DROP TABLE d.c",
)
ICEBERG_QUERIES = (
    "CREATE TABLE ice.d.t (k INT, v STRING, ts TIMESTAMP) USING iceberg PARTITIONED BY (days(ts)) "
    "TBLPROPERTIES ('write.merge.mode'='merge-on-read')",
    "INSERT INTO ice.d.t VALUES (1, 'a', current_timestamp()), (2, 'b', current_timestamp())",
    "MERGE INTO ice.d.t t USING (SELECT 2 k, 'c' v UNION ALL SELECT 3, 'd') s ON t.k = s.k "
    "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)",
    "UPDATE ice.d.t SET v = 'z' WHERE k = 1",
    "DELETE FROM ice.d.t WHERE k = 3",
    "SELECT v, count(*) FROM ice.d.t GROUP BY v",
    "SELECT snapshot_id, operation FROM ice.d.t.snapshots",
)
DELTA_QUERIES = (
    "CREATE TABLE d.delta (k INT, v STRING) USING delta",
    "INSERT INTO d.delta VALUES (1, 'a'), (2, 'b')",
    "MERGE INTO d.delta t USING (SELECT 2 k, 'c' v) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "SELECT v, count(*) FROM d.delta GROUP BY v",
)


def run(java: Sequence[str], driver_classes: Path, executor_classes: Path, api_server: ApiServer, folder: Path) -> None:
    """Runs `java` as a driver whose executor the stand-in starts; both JVMs note their classes in the two files."""
    with driver_jvm([*java, "-Xmx1g", f"-XX:DumpLoadedClassList={driver_classes}"], folder):
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.enableHiveSupport()
        for key, value in configuration(api_server, executor_classes, folder).items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        exercise(spark, folder)
        spark.stop()


@contextmanager
def driver_jvm(command: Sequence[str], folder: Path) -> Iterator[None]:
    """Starts Spark's py4j server and points PySpark at it; closing its stdin ends it in order, which writes the class list."""
    connection = folder / "connection"
    environment = {**os.environ, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection)}
    process = subprocess.Popen([*command, GATEWAY_SERVER], stdin=subprocess.PIPE, env=environment)
    deadline = time.monotonic() + START_SECONDS
    while not connection.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"the driver's JVM did not start (exit code {process.poll()})")
        time.sleep(0.05)
    content = connection.read_bytes()
    port, length = struct.unpack_from(">ii", content)
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = content[8 : 8 + length].decode()
    yield
    assert process.stdin is not None
    process.stdin.close()
    if process.wait(START_SECONDS) != 0:
        raise SystemExit(f"the driver's JVM ended with exit code {process.returncode}")


def configuration(api_server: ApiServer, executor_classes: Path, folder: Path) -> dict[str, str]:
    """A session's configuration in a pod, as far as it decides which classes are loaded."""
    template = folder / "executor.yaml"
    template.write_text("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: spark\n", encoding="utf-8")
    settings = {
        "spark.master": f"k8s://{api_server.url}",
        "spark.app.name": "training",
        "spark.kubernetes.namespace": NAMESPACE,
        "spark.kubernetes.driver.pod.name": DRIVER_POD,
        "spark.kubernetes.container.image": "training",
        "spark.kubernetes.executor.podTemplateFile": str(template),
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.authenticate": "true",
        "spark.executor.instances": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": f"-XX:DumpLoadedClassList={executor_classes}",
        "spark.kubernetes.executor.request.cores": "1",
        "spark.scheduler.mode": "FAIR",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:training;create=true",
        "spark.hadoop.fs.s3a.endpoint": api_server.url,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": "training",
        "spark.hadoop.fs.s3a.secret.key": "training",
        "spark.hadoop.fs.s3a.attempts.maximum": "1",
        "spark.sql.warehouse.dir": f"file:{folder}/warehouse",
        "spark.sql.shuffle.partitions": "2",
    }
    extensions = []
    if has_connector("iceberg-spark-runtime"):
        extensions.append("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        settings["spark.sql.catalog.ice"] = "org.apache.iceberg.spark.SparkCatalog"
        settings["spark.sql.catalog.ice.type"] = "hadoop"
        settings["spark.sql.catalog.ice.warehouse"] = f"file:{folder}/iceberg"
    if has_connector("delta-spark"):
        extensions.append("io.delta.sql.DeltaSparkSessionExtension")
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        settings["spark.databricks.delta.snapshotPartitions"] = "2"
    return {**settings, "spark.sql.extensions": ",".join(extensions)} if extensions else settings


def exercise(spark: Any, folder: Path) -> None:
    """Every way into Spark that the gateway has: SQL, parser, Arrow, Python UDF, clones, streaming, s3a."""
    queries = [*QUERIES]
    if has_connector("iceberg-spark-runtime"):
        queries += ICEBERG_QUERIES
    if has_connector("delta-spark"):
        queries += DELTA_QUERIES
    for query in queries:
        spark.sql(query).collect()
    jvm, session = spark._jvm, spark._jsparkSession
    session.sessionState().sqlParser().parsePlan("MERGE INTO d.t a USING v b ON a.id = b.id WHEN MATCHED THEN DELETE")
    session.cloneSession()
    spark.table("d.t").toArrow()
    spark.udf.register("plus_one", lambda number: number + 1, "long")
    spark.sql("SELECT plus_one(id) FROM range(5)").collect()
    spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    spark.sparkContext.statusTracker().getActiveJobsIds()
    run_stream(spark, folder)
    if has_connector("spark-sql-kafka"):
        options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
        spark.readStream.format("kafka").options(**options).load()
    path = jvm.org.apache.hadoop.fs.Path("s3a://training/none")
    path.getFileSystem(session.sessionState().newHadoopConf()).exists(path)


def run_stream(spark: Any, folder: Path) -> None:
    """A stateful stream with each kind of state store, from and to files."""
    provider_package = "org.apache.spark.sql.execution.streaming.state"
    for store in ("HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"):
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", f"{provider_package}.{store}")
        events = spark.sql("SELECT * FROM STREAM d.t").withWatermark("ts", "1 second")
        counts = (
            events.selectExpr("p", "window(ts, '1 minute') AS w")
            .groupBy("p", "w")
            .count()
            .select("p", "w.start", "count")
        )
        writer = counts.writeStream.outputMode("append").trigger(availableNow=True)
        query = writer.option("checkpointLocation", f"file:{folder}/checkpoint-{store}").toTable(f"d.stream_{store}")
        query.awaitTermination()


def has_connector(name: str) -> bool:
    """Whether the image has a connector jar whose file name starts with `name`."""
    return any(Path(os.environ["SPARK_HOME"], "connectors").glob(f"{name}*.jar"))
