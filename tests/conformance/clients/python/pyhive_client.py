"""PyHive: TLS as its documentation has it for transports of one's own, SASL PLAIN with the token as password."""

from __future__ import annotations

import ssl
from functools import partial
from typing import Any

import thrift_sasl
from lines import answer, follow, guarded, plain, show_rows, task, until
from pyhive import hive
from TCLIService.ttypes import TOperationState
from thrift.transport.TSSLSocket import TSSLSocket


def connect(job: dict[str, Any], token: str | None = None, **options: Any) -> hive.Connection:
    socket = TSSLSocket(job["host"], job["thrift_port"], cert_reqs=ssl.CERT_REQUIRED, ca_certs=job["ca"])
    password = job["token"] if token is None else token
    sasl = partial(hive.get_installed_sasl, host=job["host"], sasl_auth="PLAIN", username="ann", password=password)
    transport = thrift_sasl.TSaslClientTransport(sasl, "PLAIN", socket)
    return hive.connect(thrift_transport=transport, username="ann", **options)


def run(connection: hive.Connection, name: str, sql: str, fetch: bool = True) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        if fetch:
            show_rows(name, [column[0] for column in cursor.description], cursor.fetchall())


def cancel(connection: hive.Connection, endless: str) -> None:
    cursor = connection.cursor()
    cursor.execute(endless, async_=True)
    until(lambda: cursor.poll().operationState == TOperationState.RUNNING_STATE, 120, "running")
    cursor.cancel()
    until(lambda: cursor.poll().operationState == TOperationState.CANCELED_STATE, 120, "canceled")
    cursor.close()
    run(connection, "cancel", "SELECT 'alive' AS after")


def poll(connection: hive.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM range(5) ORDER BY id", async_=True)
        until(lambda: cursor.poll().operationState == TOperationState.FINISHED_STATE, 120, "finished")
        first = cursor.fetchmany(2)
        answer("poll", value=plain([first, cursor.fetchone(), cursor.fetchall(), cursor.fetchone()]))


def types(connection: hive.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 AS i, 'a' AS s, CAST(1 AS DECIMAL(10,2)) AS d, current_date() AS t, array(1) AS a")
        answer("types", value=[column[:2] for column in cursor.description])


def parameters(connection: hive.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT %(a)s AS a, %(b)s AS b", {"a": "it's \\ fine", "b": 5})
        answer("parameters", value=plain(cursor.fetchall()))


def settings(job: dict[str, Any]) -> None:
    connection = connect(job, database=job["database"], configuration={"spark.sql.shuffle.partitions": "5"})
    with connection.cursor() as cursor:
        cursor.execute("SET spark.sql.shuffle.partitions")
        set_to = cursor.fetchall()
        cursor.execute("SELECT current_database()")
        answer("settings", value=plain([set_to, cursor.fetchall()]))
    connection.close()


def shared_view(job: dict[str, Any], shares: str) -> None:
    connection = connect(job, configuration={"spark.sql.gateway.session.share-views": shares})
    run(connection, f"shared_view_{shares}", "SELECT n FROM shared")
    connection.close()


def main() -> None:
    job = task()
    connection = connect(job)
    for name, sql, fetch in job["queries"]:
        guarded(name, partial(run, connection, name, sql, fetch))
    guarded("poll", partial(poll, connection))
    guarded("types", partial(types, connection))
    guarded("parameters", partial(parameters, connection))
    guarded("settings", partial(settings, job))
    cursor = connection.cursor()
    guarded("follow", partial(follow, cursor, connection.cursor(), cursor.cancel, job["database"]))
    guarded("shared_view_true", partial(shared_view, job, "true"))
    guarded("shared_view_false", partial(shared_view, job, "false"))
    guarded("isolation", lambda: run(connect(job), "isolation", "SELECT * FROM own"))
    guarded("wrong_token", lambda: run(connect(job, token="wrong"), "wrong_token", "SELECT 1"))
    guarded("cancel", partial(cancel, connection, job["endless"]))
    guarded("close", connection.close)


main()
