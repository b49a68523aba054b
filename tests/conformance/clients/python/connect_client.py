"""pyspark-client: Spark Connect without a JVM. TLS and token are part of the connection string."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

from lines import answer, guarded, plain, show_rows, task, until
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F


def connect(job: dict[str, Any], token: str | None = None, port: int | None = None, more: str = "") -> SparkSession:
    secret = job["token"] if token is None else token
    url = f"sc://{job['host']}:{port or job['connect_port']}/;use_ssl=true;token={secret};user_id=ann{more}"
    return SparkSession.builder.remote(url).create()


def run(spark: SparkSession, name: str, sql: str, fetch: bool = True) -> None:
    frame = spark.sql(sql)
    if fetch:
        show_rows(name, frame.columns, frame.collect())


def dataframe(spark: SparkSession, database: str) -> None:
    made = spark.createDataFrame([Row(k=n % 3, v=float(n)) for n in range(1000)])
    grouped = made.groupBy("k").agg(F.sum("v").alias("s"), F.count("*").alias("n")).orderBy("k")
    show_rows("dataframe", grouped.columns, grouped.collect())
    for _ in range(2):
        made.write.mode("overwrite").saveAsTable(f"{database}.written")
    answer("dataframe:written", value=spark.table(f"{database}.written").count())


def dropped(spark: SparkSession, database: str) -> None:
    counts = []
    for _ in range(2):
        spark.sql(f"CREATE TABLE {database}.dropped (a INT) USING parquet")
        counts.append(spark.table(f"{database}.dropped").count())
        spark.sql(f"INSERT INTO {database}.dropped VALUES (1)")
        counts.append(spark.table(f"{database}.dropped").count())
        spark.sql(f"DROP TABLE {database}.dropped -- with its files")
    answer("dropped", value=counts)


def pandas(spark: SparkSession) -> None:
    frame = spark.sql("SELECT id, CAST(id AS STRING) AS s FROM range(3)").toPandas()
    answer("pandas", value=frame.to_dict("list"))
    back = spark.createDataFrame(frame)
    answer("pandas:back", value=plain([tuple(row) for row in back.orderBy("id").collect()]))


def arrow(spark: SparkSession) -> None:
    table = spark.range(100_000).toArrow()
    answer("arrow", value=[table.num_rows, table.column("id")[99_999].as_py()])


def views(spark: SparkSession) -> None:
    spark.range(3).createOrReplaceTempView("own_frame")
    answer("views", value=spark.sql("SELECT sum(id) FROM own_frame").collect()[0][0])


def settings(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    seen = spark.sql("SET spark.sql.shuffle.partitions").collect()[0][1]
    answer("settings", value=[spark.conf.get("spark.sql.shuffle.partitions"), seen])


def catalog(spark: SparkSession, database: str) -> None:
    tables = sorted(table.name for table in spark.catalog.listTables(database))
    columns = [column.name for column in spark.catalog.listColumns(f"{database}.t")]
    answer("catalog", tables=tables, columns=columns, exists=spark.catalog.databaseExists(database))


def cancel(spark: SparkSession, endless: str) -> None:
    failures: list[Exception] = []

    def work() -> None:
        spark.addTag("mine")
        try:
            spark.sql(endless).collect()
        except Exception as error:  # the cancel is what is looked for
            failures.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    canceled: list[str] = []

    def interrupted() -> bool:
        canceled.extend(spark.interruptTag("mine"))
        return bool(canceled)

    until(interrupted, 120, "interrupted")
    thread.join(120)
    condition = failures[0].getCondition() if failures and isinstance(failures[0], PySparkException) else None
    answer("cancel", alive=thread.is_alive(), condition=condition, errors=[str(error)[:300] for error in failures])
    answer("cancel:after", value=spark.sql("SELECT 'alive' AS after").collect()[0][0])


def error_class(spark: SparkSession) -> None:
    try:
        spark.sql("SELECT * FROM nothing_there").collect()
    except PySparkException as error:
        answer("error_class", condition=error.getCondition(), sql_state=error.getSqlState(), kind=type(error).__name__)


def reattach(job: dict[str, Any]) -> None:
    """Reads a result of 30 MB; whoever started this program cuts the connection when it reads `reading`, and then makes a file."""
    spark = connect(job, port=job["cut_port"])
    total, rows = 0, 0
    frame = spark.range(0, 400_000, 1, 40).select("id", F.repeat(F.lit("x"), 60).alias("x"))
    for row in frame.toLocalIterator():
        total, rows = total + row.id, rows + 1
        if rows == 1000:
            answer("reattach:reading", value=rows)
            until(Path(job["cut_file"]).exists, 120, "cut")
    answer("reattach", value=[rows, total])
    spark.stop()


def shared_view(job: dict[str, Any]) -> None:
    spark = connect(job, more=";x-sparksql-session-share-views=true")
    run(spark, "shared_view_true", "SELECT n FROM shared")
    spark.stop()


def main() -> None:
    job = task()
    spark = connect(job)
    answer("version", value=spark.version)
    for name, sql, fetch in job["queries"]:
        guarded(name, partial(run, spark, name, sql, fetch))
    guarded("dataframe", partial(dataframe, spark, job["database"]))
    guarded("dropped", partial(dropped, spark, job["database"]))
    guarded("pandas", partial(pandas, spark))
    guarded("arrow", partial(arrow, spark))
    guarded("views", partial(views, spark))
    guarded("settings", partial(settings, spark))
    guarded("catalog", partial(catalog, spark, job["database"]))
    guarded("error_class", partial(error_class, spark))
    guarded("shared_view_true", partial(shared_view, job))
    guarded("shared_view_false", lambda: run(spark, "shared_view_false", "SELECT n FROM shared"))
    guarded("isolation", lambda: run(connect(job), "isolation", "SELECT * FROM own"))
    guarded("wrong_token", lambda: run(connect(job, token="wrong"), "wrong_token", "SELECT 1"))
    guarded("cancel", partial(cancel, spark, job["endless"]))
    if job.get("cut_port"):
        guarded("reattach", partial(reattach, job))
    guarded("close", spark.stop)


main()
