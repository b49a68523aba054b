"""Every kind of statement that Spark's grammar has, against the catalog, the extensions and the metastore of the chart.

The rows run in their order in one session. `{db}` is a database of the walk's own, `{place}` its folder, `{home}` the
database in which the session began. What Spark or a catalog refuses stands here with the condition that a user is told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FORMATS = ("parquet", "orc", "csv", "json", "avro", "iceberg")


@dataclass(frozen=True)
class Step:
    """A statement and what must come of it: `rows`, a cell that contains `shows`, an error with condition `fails` or, where it has
    none, a message that contains `refuses`; else that it is Finished."""

    sql: str
    rows: tuple[tuple[Any, ...], ...] | None = None
    shows: str = ""
    fails: str = ""
    refuses: str = ""

    def text(self, **names: str) -> str:
        sql = self.sql
        for name, value in names.items():
            sql = sql.replace(f"{{{name}}}", value)
        return sql


@dataclass
class _Walk:
    steps: list[Step] = field(default_factory=list)

    def ok(self, *statements: str) -> None:
        self.steps += map(Step, statements)

    def rows(self, sql: str, *rows: tuple[Any, ...]) -> None:
        self.steps.append(Step(sql, rows=rows))

    def shows(self, sql: str, text: str) -> None:
        self.steps.append(Step(sql, shows=text))

    def fails(self, sql: str, condition: str) -> None:
        self.steps.append(Step(sql, fails=condition))

    def refuses(self, sql: str, text: str) -> None:
        self.steps.append(Step(sql, refuses=text))


def _databases(walk: _Walk) -> None:
    walk.ok("CREATE DATABASE IF NOT EXISTS {db}", "CREATE DATABASE {db}_2 COMMENT 'second' WITH DBPROPERTIES ('a'='1')")
    walk.fails("CREATE DATABASE {db}", "SCHEMA_ALREADY_EXISTS")
    walk.shows("SHOW DATABASES LIKE '{db}_2'", "{db}_2")
    walk.shows("DESCRIBE DATABASE EXTENDED {db}_2", "second")
    walk.ok("ALTER DATABASE {db}_2 SET DBPROPERTIES ('b'='2')")
    walk.shows("DESCRIBE DATABASE EXTENDED {db}_2", "(b,2)")
    walk.ok("ALTER DATABASE {db}_2 UNSET DBPROPERTIES ('b')", "COMMENT ON DATABASE {db}_2 IS 'changed'")
    walk.shows("DESCRIBE DATABASE {db}_2", "second")  # a Hive metastore of 2.3 keeps the first comment, and its place
    walk.fails("ALTER DATABASE {db}_2 SET LOCATION '{place}/elsewhere'", "_LEGACY_ERROR_TEMP_1219")
    walk.fails("ALTER DATABASE {db}_2 DEFAULT COLLATION UTF8_LCASE", "UNSUPPORTED_FEATURE.SCHEMA_LEVEL_COLLATIONS")
    walk.ok("USE {db}_2")
    walk.rows("SELECT current_database() = '{db}_2'", (True,))
    walk.shows("SHOW CURRENT NAMESPACE", "{db}_2")
    walk.ok("USE NAMESPACE {db}", "SET CATALOG spark_catalog", "USE {home}")
    walk.shows("SHOW CATALOGS", "spark_catalog")
    walk.ok("CREATE TABLE {db}_2.t (a INT) USING parquet")
    walk.fails("DROP DATABASE {db}_2", "SCHEMA_NOT_EMPTY")
    walk.ok("DROP DATABASE {db}_2 CASCADE", "CREATE DATABASE {db}_2", "DROP DATABASE {db}_2")
    walk.ok("DROP DATABASE IF EXISTS {db}_2")
    walk.fails("DROP DATABASE {db}_2", "SCHEMA_NOT_FOUND")
    walk.fails("USE {db}_2", "SCHEMA_NOT_FOUND")


def _tables(walk: _Walk) -> None:
    for name in FORMATS:
        table = f"{{db}}.t_{name}"
        walk.ok(
            f"CREATE TABLE {table} (id INT COMMENT 'key', name STRING) USING {name} COMMENT 'of {name}' TBLPROPERTIES ('p'='1')",
            f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')",
        )
        walk.rows(f"SELECT id, name FROM {table} ORDER BY id", (1, "a"), (2, "b"))
        walk.ok(f"INSERT OVERWRITE {table} VALUES (3, 'c')")
        walk.rows(f"SELECT id, name FROM {table}", (3, "c"))
        walk.shows(f"DESCRIBE TABLE EXTENDED {table}", f"of {name}")
        walk.shows(f"DESCRIBE TABLE {table} id", "key")
        walk.shows(f"SHOW CREATE TABLE {table}", "CREATE TABLE")
        walk.shows(f"SHOW COLUMNS IN {table}", "name")
        walk.rows(f"SHOW TBLPROPERTIES {table} ('p')", ("p", "1"))
        walk.ok(f"ALTER TABLE {table} SET TBLPROPERTIES ('q'='2')", f"ALTER TABLE {table} UNSET TBLPROPERTIES ('q')")
        walk.ok(f"COMMENT ON TABLE {table} IS 'changed'")
        walk.ok(f"ALTER TABLE {table} ALTER COLUMN name COMMENT 'text'")
        if name == "avro":
            walk.fails(f"ALTER TABLE {table} ADD COLUMNS (more DOUBLE)", "_LEGACY_ERROR_TEMP_1260")
        else:
            walk.ok(f"ALTER TABLE {table} ADD COLUMNS (more DOUBLE COMMENT 'added')")
            walk.rows(f"SELECT id, name, more FROM {table}", (3, "c", None))
        walk.ok(f"CREATE TABLE {{db}}.ctas_{name} USING {name} AS SELECT id, name FROM {table}")
        walk.rows(f"SELECT id, name FROM {{db}}.ctas_{name}", (3, "c"))
        walk.ok(f"ALTER TABLE {{db}}.ctas_{name} RENAME TO {{db}}.moved_{name}", f"DROP TABLE {{db}}.moved_{name}")
        walk.ok(f"TRUNCATE TABLE {table}")
        walk.rows(f"SELECT count(*) FROM {table}", (0,))
        walk.ok(f"REFRESH TABLE {table}")
    walk.shows("SHOW TABLES IN {db}", "t_parquet")
    walk.shows("SHOW TABLE EXTENDED IN {db} LIKE 't_parquet'", "Provider: parquet")
    walk.fails("CREATE TABLE {db}.t_parquet (a INT) USING parquet", "TABLE_OR_VIEW_ALREADY_EXISTS")
    walk.ok("CREATE TABLE {db}.alike LIKE {db}.t_parquet", "DROP TABLE {db}.alike")
    walk.ok("ALTER TABLE {db}.t_parquet SET LOCATION '{place}/t_parquet'")
    for refused in (
        "ALTER TABLE {db}.t_parquet RENAME COLUMN name TO label",
        "ALTER TABLE {db}.t_parquet DROP COLUMN more",
        "ALTER TABLE {db}.t_parquet ADD CONSTRAINT c CHECK (id > 0)",
        "ALTER TABLE {db}.t_parquet DROP CONSTRAINT c",
        "REPLACE TABLE {db}.t_parquet (a INT) USING parquet",
        "UPDATE {db}.t_parquet SET id = 1",
        "DELETE FROM {db}.t_parquet WHERE id = 1",
        "MERGE INTO {db}.t_parquet t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "CREATE TABLE {db}.g (a INT, b INT GENERATED ALWAYS AS (a + 1)) USING parquet",
        "CREATE TABLE {db}.g (a BIGINT GENERATED ALWAYS AS IDENTITY) USING parquet",
    ):
        walk.fails(refused, "UNSUPPORTED_FEATURE.TABLE_OPERATION")
    walk.ok("ALTER TABLE {db}.t_parquet CLUSTER BY (id)", "ALTER TABLE {db}.t_parquet DEFAULT COLLATION UTF8_LCASE")
    walk.fails("CREATE INDEX i ON {db}.t_parquet (id)", "_LEGACY_ERROR_TEMP_1332")
    walk.fails("DROP INDEX i ON {db}.t_parquet", "_LEGACY_ERROR_TEMP_1332")
    walk.ok("CREATE TABLE {db}.d (a INT, b INT DEFAULT 7) USING parquet", "INSERT INTO {db}.d (a) VALUES (1)")
    walk.rows("SELECT a, b FROM {db}.d", (1, 7))
    walk.ok("CREATE TABLE {db}.c (s STRING COLLATE UTF8_LCASE) USING parquet", "INSERT INTO {db}.c VALUES ('A')")
    walk.rows("SELECT count(*) FROM {db}.c WHERE s = 'a'", (1,))
    walk.ok("DROP TABLE {db}.d", "DROP TABLE {db}.c", "DROP TABLE IF EXISTS {db}.nothing")
    walk.fails("DROP TABLE {db}.nothing", "TABLE_OR_VIEW_NOT_FOUND")


def _partitions(walk: _Walk) -> None:
    walk.ok("CREATE TABLE {db}.p (id INT, day INT) USING parquet PARTITIONED BY (day)")
    walk.ok("INSERT INTO {db}.p VALUES (1, 1), (2, 2)", "INSERT INTO {db}.p PARTITION (day = 3) VALUES (3)")
    walk.rows("SHOW PARTITIONS {db}.p", ("day=1",), ("day=2",), ("day=3",))
    walk.ok("INSERT OVERWRITE {db}.p PARTITION (day = 3) VALUES (4)")
    walk.rows("SELECT id FROM {db}.p WHERE day = 3", (4,))
    walk.ok("ALTER TABLE {db}.p ADD IF NOT EXISTS PARTITION (day = 9)")
    # One with rows: the object store of the tests cannot copy the mark that an empty folder is.
    walk.ok("INSERT INTO {db}.p VALUES (7, 7)", "ALTER TABLE {db}.p PARTITION (day = 7) RENAME TO PARTITION (day = 8)")
    walk.rows("SELECT id FROM {db}.p WHERE day = 8", (7,))
    walk.ok("ALTER TABLE {db}.p DROP PARTITION (day = 8)", "ALTER TABLE {db}.p DROP PARTITION (day = 9)")
    walk.ok("TRUNCATE TABLE {db}.p PARTITION (day = 3)")
    walk.ok("MSCK REPAIR TABLE {db}.p", "ALTER TABLE {db}.p RECOVER PARTITIONS")
    walk.rows("SELECT id, day FROM {db}.p ORDER BY id", (1, 1), (2, 2))
    walk.shows("DESCRIBE TABLE EXTENDED {db}.p PARTITION (day = 1)", "day=1")
    walk.fails("ALTER TABLE {db}.p DROP PARTITION (day = 77)", "PARTITIONS_NOT_FOUND")
    walk.ok("FROM (SELECT 1 AS id) INSERT INTO {db}.p SELECT id + 10, 5 INSERT INTO {db}.p SELECT id + 20, 6")
    walk.rows("SELECT id, day FROM {db}.p ORDER BY id", (1, 1), (2, 2), (11, 5), (21, 6))


def _hive(walk: _Walk) -> None:
    walk.ok(
        "CREATE TABLE {db}.h (id INT, name STRING) ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' STORED AS TEXTFILE"
    )
    walk.ok("INSERT OVERWRITE DIRECTORY '{place}/csv' USING csv SELECT 1, 'a'")
    walk.ok("INSERT OVERWRITE DIRECTORY '{place}/rows' ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' SELECT 1, 'a'")
    walk.ok("LOAD DATA INPATH '{place}/rows' INTO TABLE {db}.h")
    walk.rows("SELECT id, name FROM {db}.h", (1, "a"))
    walk.ok("ALTER TABLE {db}.h SET SERDEPROPERTIES ('field.delim'=';')")
    walk.fails("ALTER TABLE {db}.h REPLACE COLUMNS (id INT)", "UNSUPPORTED_FEATURE.TABLE_OPERATION")
    walk.fails("ALTER TABLE {db}.h CHANGE COLUMN name label STRING", "_LEGACY_ERROR_TEMP_0034")
    walk.fails("LOAD DATA INPATH '{place}/csv' INTO TABLE {db}.t_parquet", "_LEGACY_ERROR_TEMP_1261")


def _iceberg(walk: _Walk) -> None:
    table = "{db}.ice"
    walk.ok(f"CREATE OR REPLACE TABLE {table} (id INT, name STRING) USING iceberg PARTITIONED BY (bucket(2, id))")
    walk.ok(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    walk.ok(f"UPDATE {table} SET name = 'x' WHERE id = 1", f"DELETE FROM {table} WHERE id = 2")
    walk.ok(
        f"MERGE INTO {table} t USING (SELECT * FROM VALUES (1, 'm'), (5, 'n') AS v(id, name)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    walk.rows(f"SELECT id, name FROM {table} ORDER BY id", (1, "m"), (5, "n"))
    walk.ok(f"INSERT INTO {table} REPLACE WHERE id = 5 VALUES (5, 'r')")
    walk.ok(f"ALTER TABLE {table} ADD COLUMNS (extra INT)", f"ALTER TABLE {table} RENAME COLUMN extra TO other")
    walk.ok(f"ALTER TABLE {table} ALTER COLUMN other TYPE BIGINT", f"ALTER TABLE {table} DROP COLUMN other")
    walk.ok(f"ALTER TABLE {table} ADD PARTITION FIELD truncate(1, name)", f"ALTER TABLE {table} WRITE ORDERED BY id")
    walk.ok(f"ALTER TABLE {table} CREATE TAG kept", f"ALTER TABLE {table} CREATE BRANCH side")
    walk.rows(f"SELECT count(*) FROM {table} VERSION AS OF 'kept'", (2,))
    walk.ok(
        f"CALL spark_catalog.system.rewrite_data_files(table => '{table}', strategy => 'sort', sort_order => 'id DESC')"
    )
    walk.ok(f"CALL spark_catalog.system.expire_snapshots(table => '{table}')")
    walk.shows("SHOW PROCEDURES IN spark_catalog.system", "rewrite_data_files")
    walk.shows("DESCRIBE PROCEDURE spark_catalog.system.expire_snapshots", "expire_snapshots")
    walk.ok(f"REPLACE TABLE {table} USING iceberg AS SELECT 1 AS one")
    walk.rows(f"SELECT one FROM {table}", (1,))


def _views_and_functions(walk: _Walk) -> None:
    walk.ok("CREATE TABLE {db}.base USING parquet AS SELECT 1 AS a", "CREATE VIEW {db}.v AS SELECT a FROM {db}.base")
    walk.ok("ALTER VIEW {db}.v AS SELECT a + 3 AS a FROM {db}.base")
    walk.rows("SELECT a FROM {db}.v", (4,))
    walk.ok("ALTER VIEW {db}.v WITH SCHEMA EVOLUTION")
    walk.ok("CREATE OR REPLACE VIEW {db}.v WITH SCHEMA EVOLUTION AS SELECT a + 1 AS a FROM {db}.base")
    walk.ok("ALTER VIEW {db}.v SET TBLPROPERTIES ('k'='v')")
    walk.rows("SELECT a FROM {db}.v", (2,))
    walk.ok("ALTER VIEW {db}.v UNSET TBLPROPERTIES ('k')", "ALTER VIEW {db}.v RENAME TO {db}.w")
    walk.shows("SHOW VIEWS IN {db}", "w")
    walk.ok("CREATE OR REPLACE TEMPORARY VIEW walk_temp AS SELECT 3 AS a", "DROP VIEW walk_temp")
    walk.ok(
        "CREATE OR REPLACE TEMPORARY VIEW walk_temp USING parquet OPTIONS (path '{place}/base')", "DROP VIEW walk_temp"
    )
    walk.ok("DROP VIEW {db}.w")
    walk.ok("CREATE FUNCTION {db}.twice(x INT COMMENT 'it', y INT DEFAULT 2) RETURNS INT RETURN x * y")
    walk.rows("SELECT {db}.twice(4), {db}.twice(4, 3)", (8, 12))
    walk.ok("CREATE OR REPLACE FUNCTION {db}.twice(x INT) RETURNS INT COMMENT 'again' RETURN x * 2")
    walk.shows("DESCRIBE FUNCTION EXTENDED {db}.twice", "twice")
    walk.shows("SHOW USER FUNCTIONS IN {db}", "twice")
    walk.fails(
        "REFRESH FUNCTION {db}.twice", "CANNOT_LOAD_FUNCTION_CLASS"
    )  # Spark looks for a class, which SQL has none of
    walk.ok("DROP FUNCTION {db}.twice")
    walk.ok("CREATE TEMPORARY FUNCTION walk_pair(n INT) RETURNS TABLE (a INT, b STRING) RETURN SELECT n, 'x'")
    walk.rows("SELECT a, b FROM walk_pair(7)", (7, "x"))
    walk.ok("DROP TEMPORARY FUNCTION walk_pair")
    walk.ok("CREATE FUNCTION {db}.absolute AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFAbs'")
    walk.rows("SELECT {db}.absolute(-3)", (3,))
    walk.ok("DROP FUNCTION {db}.absolute", "DROP FUNCTION IF EXISTS {db}.absolute")
    walk.fails("CREATE FUNCTION {db}.bad(x NOSUCH) RETURNS INT RETURN 1", "UNSUPPORTED_DATATYPE")


def _the_rest(walk: _Walk) -> None:
    walk.ok("ANALYZE TABLE {db}.base COMPUTE STATISTICS", "ANALYZE TABLE {db}.base COMPUTE STATISTICS FOR ALL COLUMNS")
    walk.shows("DESCRIBE TABLE EXTENDED {db}.base a", "distinct_count")
    walk.ok(
        "ANALYZE TABLE {db}.p PARTITION (day) COMPUTE STATISTICS", "ANALYZE TABLES IN {db} COMPUTE STATISTICS NOSCAN"
    )
    walk.ok("CACHE LAZY TABLE {db}.base", "CACHE TABLE walk_cached AS SELECT 1 AS a", "UNCACHE TABLE {db}.base")
    walk.ok("UNCACHE TABLE IF EXISTS walk_cached", "CLEAR CACHE", "DROP VIEW walk_cached")
    walk.ok("REFRESH '{place}/base'")
    walk.shows("EXPLAIN SELECT * FROM {db}.base", "Physical Plan")
    walk.shows("DESCRIBE QUERY SELECT 1 AS one", "one")
    walk.ok("DECLARE VARIABLE walk_var INT DEFAULT 1", "SET VARIABLE walk_var = 5")
    walk.rows("SELECT walk_var", (5,))
    walk.ok("DROP TEMPORARY VARIABLE walk_var", "EXECUTE IMMEDIATE 'SELECT 1'", "BEGIN SELECT 1; END")
    walk.ok("SET spark.sql.shuffle.partitions = 3", "SET `spark.sql.shuffle.partitions` = `3`", "SET TIME ZONE 'UTC'")
    walk.ok("RESET spark.sql.shuffle.partitions", "RESET `spark.sql.shuffle.partitions`")
    walk.ok("LIST JARS")
    walk.fails("SET ROLE admin", "INVALID_STATEMENT_OR_CLAUSE")
    walk.fails("SHOW ROLES", "INVALID_STATEMENT_OR_CLAUSE")
    walk.refuses("ADD JAR 's3a://elsewhere/x.jar'", "jar prefixes")
    materialized = "CREATE MATERIALIZED VIEW {db}.m AS SELECT 1 AS a"
    flow = "CREATE FLOW f AS INSERT INTO {db}.base BY NAME SELECT 1 AS a"
    walk.fails(materialized, "UNSUPPORTED_FEATURE.CREATE_PIPELINE_DATASET_QUERY_EXECUTION")
    walk.fails(flow, "UNSUPPORTED_FEATURE.CREATE_FLOW_QUERY_EXECUTION")
    walk.ok("DROP DATABASE {db} CASCADE")
    walk.rows("SHOW DATABASES LIKE '{db}'")


def _all() -> tuple[Step, ...]:
    walk = _Walk()
    for part in (_databases, _tables, _partitions, _hive, _iceberg, _views_and_functions, _the_rest):
        part(walk)
    return tuple(walk.steps)


WALK: tuple[Step, ...] = _all()
