"""impyla: a second implementation of the HiveServer2 client in Python, with metadata calls of its own."""

from __future__ import annotations

from functools import partial
from typing import Any

from impala import dbapi
from lines import answer, follow, guarded, plain, show_rows, task, until


def connect(job: dict[str, Any], token: str | None = None) -> Any:
    return dbapi.connect(
        host=job["host"], port=job["thrift_port"], use_ssl=True, ca_cert=job["ca"], auth_mechanism="PLAIN",
        user="ann", password=job["token"] if token is None else token, timeout=120,
    )  # fmt: skip


def run(cursor: Any, name: str, sql: str, fetch: bool = True) -> None:
    cursor.execute(sql)
    if fetch:
        show_rows(name, [column[0] for column in cursor.description], cursor.fetchall())


def cancel(connection: Any, endless: str) -> None:
    cursor = connection.cursor()
    cursor.execute_async(endless)
    until(lambda: cursor.status() == "RUNNING_STATE", 120, "running")
    cursor.cancel_operation()  # closes the operation as well
    run(cursor, "cancel", "SELECT 'alive' AS after")
    cursor.close()


def metadata(connection: Any, database: str) -> None:
    with connection.cursor() as cursor:
        cursor.get_databases()
        databases = [row[0] for row in cursor.fetchall()]
        cursor.get_tables(database_name=database)
        tables = [(row[1], row[2], row[3]) for row in cursor.fetchall()]
        schema = cursor.get_table_schema("t", database_name=database)
        exists = [cursor.table_exists(name, database_name=database) for name in ("t", "nothing")]
        answer("metadata", databases=databases, tables=plain(tables), schema=plain(schema), exists=exists)


def main() -> None:
    job = task()
    connection = connect(job)
    cursor = connection.cursor()  # every cursor is a session of its own
    for name, sql, fetch in job["queries"]:
        guarded(name, partial(run, cursor, name, sql, fetch))
    guarded("metadata", partial(metadata, connection, job["database"]))
    following = connection.cursor()
    guarded("follow", partial(follow, following, cursor, following.cancel_operation, job["database"]))
    guarded("wrong_token", lambda: run(connect(job, token="wrong").cursor(), "wrong_token", "SELECT 1"))
    guarded("cancel", partial(cancel, connection, job["endless"]))
    guarded("close", connection.close)


main()
