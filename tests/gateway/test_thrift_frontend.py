"""The HiveServer2 frontend of a real gateway, spoken to by raw calls."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sparksql.protocols.hiveserver2 import messages as m
from sparksql.wire.driver import CONFIG_FILE, DriverConfig
from tests.support.client_session import call, open_rest, rest_http
from tests.support.connect_client import until
from tests.support.ports import free_port
from tests.support.process import GatewayProcess, running
from tests.support.thrift_client import Fields, Refused, ThriftClient, rows_of

from .client import connect

COLUMNS, ROWS = 9, 4  # protocol versions V10 and V5
ENDLESS = "SELECT count(*) FROM range(100000000000000)"
FINISHED, CANCELED, ERROR, TIMED_OUT = 2, 3, 5, 8


class Session:
    """A session of its own connection."""

    def __init__(self, client: ThriftClient, protocol: int = COLUMNS, **configuration: str) -> None:
        self.client = client
        request = m.TOpenSessionReq(protocol, "ada", configuration)
        self.opened = client.call("OpenSession", request)
        if self.is_open:
            self.handle = m.TSessionHandle(_identifier(self.opened[3]))

    @property
    def is_open(self) -> bool:
        return self.opened[1][1] == 0

    def execute(self, sql: str, **fields: Any) -> Fields:
        return self.client.call("ExecuteStatement", m.TExecuteStatementReq(self.handle, sql, **fields))

    def start(self, sql: str, **fields: Any) -> m.TOperationHandle:
        answer = self.execute(sql, run_async=True, **fields)
        assert answer[1] == {1: 0}, answer
        return _operation(answer)

    def status(self, operation: m.TOperationHandle) -> Fields:
        return self.client.call("GetOperationStatus", m.TGetOperationStatusReq(operation))

    def until(self, operation: m.TOperationHandle, condition: Callable[[int], bool], seconds: float = 120) -> Fields:
        deadline = time.monotonic() + seconds
        while not condition((seen := self.status(operation))[2]):
            assert time.monotonic() < deadline, seen
        return seen

    def end(self, operation: m.TOperationHandle) -> Fields:
        return self.until(operation, lambda state: state not in (0, 1, 7))

    def fetch(self, operation: m.TOperationHandle, orientation: int = 0, max_rows: int = 10_000) -> Fields:
        answer = self.client.call("FetchResults", m.TFetchResultsReq(operation, orientation, max_rows))
        assert answer[1] == {1: 0}, answer
        return answer

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        answer = self.execute(sql)
        assert answer[1] == {1: 0}, answer
        return self.all_rows(answer)

    def look(self, method: str, request: m.SessionRequest) -> list[tuple[Any, ...]]:
        answer = self.client.call(method, request)
        assert answer[1] == {1: 0}, answer
        return self.all_rows(answer)

    def all_rows(self, answer: Fields) -> list[tuple[Any, ...]]:
        operation = _operation(answer)
        found: list[tuple[Any, ...]] = []
        while page := rows_of(self.fetch(operation)):
            found += page
        self.client.call("CloseOperation", m.OperationRequest(operation))
        return [tuple(cell.decode() if isinstance(cell, bytes) else cell for cell in row) for row in found]


def _identifier(handle: Fields) -> m.THandleIdentifier:
    return m.THandleIdentifier(handle[1][1], handle[1][2])


def _operation(answer: Fields) -> m.TOperationHandle:
    return m.TOperationHandle(_identifier(answer[2]), answer[2][2])


class Frontend:
    def __init__(self, gateway: GatewayProcess, port: int) -> None:
        self.gateway = gateway
        self.port = port

    def connect(self, **options: Any) -> ThriftClient:
        return ThriftClient(self.port, self.gateway.client_tls(), **options)


def thrift_port(gateway: GatewayProcess) -> int:
    config = DriverConfig.model_validate_json((gateway.folder / "config" / CONFIG_FILE).read_text())
    return config.endpoints.thrift_port


def until_open(frontend: Frontend, seconds: float = 600) -> None:
    """Until Spark is there; before, the frontend says so."""
    deadline = time.monotonic() + seconds
    while socket.socket().connect_ex(("127.0.0.1", frontend.port)) != 0:
        assert time.monotonic() < deadline, frontend.gateway.log_tail()
        time.sleep(0.05)
    while True:
        with frontend.connect() as client:
            session = Session(client)
            if session.is_open:
                return
            assert session.opened[1][3] == b"08001" and b"try again" in session.opened[1][5], session.opened
        assert time.monotonic() < deadline and frontend.gateway.process.poll() is None, frontend.gateway.log_tail()
        time.sleep(0.2)


@pytest.fixture(scope="module")
def frontend(gateway: GatewayProcess) -> Frontend:
    opened = Frontend(gateway, thrift_port(gateway))
    until_open(opened)
    return opened


@pytest.fixture
def session(frontend: Frontend) -> Iterator[Session]:
    with frontend.connect() as client:
        yield Session(client)


VALUES = """
SELECT true, 1Y, CAST(NULL AS SMALLINT), 3, 4L, 0.1F, 0.1D, 1.50BD, 0.00000001BD, 'ä', DATE'2020-01-02',
  TIMESTAMP'2020-01-02 03:04:05.120', TIMESTAMP_NTZ'2020-01-02 03:04:05', INTERVAL 1 DAY, NULL,
  array(1, NULL), map('k', array('x"y')), named_struct('a', DATE'2020-01-01', 'b', 1.50BD), parse_json('{"a":1}'),
  CAST(map() AS MAP<STRING, INT>)
"""
SHOWN = (
    True, 1, None, 3, 4, 0.1, 0.1, "1.50", "0.00000001", "ä", "2020-01-02",
    "2020-01-02 03:04:05.12", "2020-01-02 03:04:05", "INTERVAL '1' DAY", None,
    "[1,null]", '{"k":["x\\"y"]}', '{"a":"2020-01-01","b":1.50}', '{"a":1}', "{}",
)  # fmt: skip
TYPE_IDS = [0, 1, 2, 3, 4, 5, 6, 15, 15, 7, 17, 8, 8, 7, 16, 10, 11, 12, 7, 11]


@pytest.mark.parametrize("protocol", [COLUMNS, ROWS])
def test_thrift_rows_show_values_of_every_type(frontend: Frontend, protocol: int) -> None:
    with frontend.connect() as client:
        session = Session(client, protocol)
        assert session.opened[2] == protocol
        assert session.rows(VALUES) == [SHOWN]


def test_columns_have_hives_types(session: Session) -> None:
    operation = _operation(session.execute(VALUES))
    schema = session.client.call("GetResultSetMetadata", m.OperationRequest(operation))[2]
    types = [column[2][1][0][1] for column in schema[1]]
    assert [entry[1] for entry in types] == TYPE_IDS
    assert types[7][2][1] == {b"precision": {1: 3}, b"scale": {1: 2}}


def test_statements_without_rows_have_an_empty_column(session: Session) -> None:
    operation = _operation(session.execute("CREATE OR REPLACE TEMPORARY VIEW nothing AS SELECT 1"))
    schema = session.client.call("GetResultSetMetadata", m.OperationRequest(operation))[2]
    assert [column[1] for column in schema[1]] == [b"Result"]
    assert rows_of(session.fetch(operation)) == []


def test_a_large_result_comes_whole_and_again(session: Session) -> None:
    count = 120_000
    answer = session.execute(f"SELECT id, concat('row ', id) AS t FROM range({count}) ORDER BY id")
    operation = _operation(answer)
    first = session.fetch(operation)
    assert first[2] is True and first[3][1] == 0
    second = session.fetch(operation, max_rows=1000)
    assert second[3][1] == len(rows_of(first))
    assert rows_of(session.fetch(operation, orientation=4)) == rows_of(first)
    rest = session.all_rows(answer)
    assert len(rows_of(first)) + len(rest) == count
    assert rest[-1] == (count - 1, f"row {count - 1}")


@pytest.mark.parametrize(
    ("sql", "sql_state", "told"),
    [
        ("SELECT *\n  FROM nosuch", "42P01", "[TABLE_OR_VIEW_NOT_FOUND]"),
        ("SELEC 1", "42601", "(line 1, position 1)"),
        ("SELECT 1 / 0", "22012", "[DIVIDE_BY_ZERO]"),
        ("SET spark.driver.memory=1g", "42501", "spark.driver.memory"),
    ],
)
@pytest.mark.parametrize("run_async", [False, True])
def test_errors_tell_condition_state_and_place(
    session: Session, sql: str, sql_state: str, told: str, run_async: bool
) -> None:
    if run_async:
        status = session.end(session.start(sql))
        assert status[2] == ERROR
        state, message = status[3], status[5]
    else:
        status = session.execute(sql)[1]
        assert status[1] == 3
        state, message = status[3], status[5]
    assert (state.decode(), told in message.decode()) == (sql_state, True), message


def test_the_place_of_an_error_is_the_clients(session: Session) -> None:
    message = session.execute("SELECT *\n  FROM nosuch")[1][5].decode()
    assert message.endswith("SQLSTATE: 42P01 (line 2, position 8)")


def test_a_statement_is_cancelled(session: Session) -> None:
    operation = session.start(ENDLESS)
    session.until(operation, lambda state: state == 1)
    assert session.client.call("CancelOperation", m.OperationRequest(operation)) == {1: {1: 0}}
    status = session.end(operation)
    assert (status[2], status[3]) == (CANCELED, b"HY008")
    assert session.client.call("CancelOperation", m.OperationRequest(operation)) == {1: {1: 0}}
    fetched = session.client.call("FetchResults", m.TFetchResultsReq(operation, 0, 10))
    assert fetched[1][3] == b"HY008"


def test_a_statement_beyond_its_query_timeout_is_timed_out(session: Session) -> None:
    operation = session.start(ENDLESS, query_timeout=1)
    status = session.end(operation)
    assert (status[2], status[3]) == (TIMED_OUT, b"HYT00")


def test_fetching_waits_for_the_end(session: Session) -> None:
    operation = session.start("SELECT count(*) FROM range(1000000)")
    assert rows_of(session.fetch(operation)) == [(1_000_000,)]
    assert session.status(operation)[2] == FINISHED


async def test_session_and_statement_of_a_vanished_client_are_closed(frontend: Frontend) -> None:
    async with connect(frontend.gateway) as control:

        async def clients() -> dict[str, list[dict[str, Any]]]:
            async with control.http.get("/control/v1/clients") as response:
                return dict(await response.json())

        client = frontend.connect(user="vanishing")
        session = Session(client)
        session.start(ENDLESS)
        (mine,) = [one for one in (await clients())["sessions"] if one["name"] == "vanishing"]
        assert mine["door"] == "thrift"
        client.socket.close()

        async def is_gone() -> bool:
            left = await clients()
            handles = {one["session"] for one in left["operations"]} | {one["handle"] for one in left["sessions"]}
            return mine["handle"] not in handles

        await until("nothing is left of it", is_gone)


def test_sessions_begin_as_their_configuration_says(frontend: Frontend) -> None:
    with frontend.connect() as client:
        first = Session(client)
        own = first.rows("SELECT current_database()")
        first.rows("CREATE DATABASE IF NOT EXISTS thrift_begin")
        conf = {"set:hiveconf:spark.sql.shuffle.partitions": "7", "set:hiveconf:hive.x": "1"}
        configured = Session(client, **conf, **{"use:database": "thrift_begin"})
        assert configured.rows("SELECT current_database()") == [("thrift_begin",)]
        assert configured.rows("SET spark.sql.shuffle.partitions") == [("spark.sql.shuffle.partitions", "7")]
        assert first.rows("SELECT current_database()") == own != [("thrift_begin",)]


@pytest.mark.parametrize(
    ("configuration", "sql_state", "told"),
    [
        ({"spark.driver.memory": "1g"}, "42501", "spark.driver.memory"),
        ({"use:database": "no_such_one"}, "42704", "no_such_one"),
        ({"use:database": "no`such"}, "42601", "no`such"),
    ],
)
def test_sessions_that_may_not_begin_are_not_there(
    frontend: Frontend, configuration: dict[str, str], sql_state: str, told: str
) -> None:
    with frontend.connect() as client:
        status = Session(client, **configuration).opened[1]
        assert (status[3].decode(), told in status[5].decode()) == (sql_state, True), status


def test_the_catalog_is_told_as_jdbc_asks(session: Session) -> None:
    session.rows("CREATE DATABASE IF NOT EXISTS thrift_catalog")
    session.rows(
        "CREATE TABLE IF NOT EXISTS thrift_catalog.orders (id INT NOT NULL COMMENT 'key', price DECIMAL(10,2)) USING parquet"
    )
    session.rows("CREATE OR REPLACE VIEW thrift_catalog.cheap AS SELECT * FROM thrift_catalog.orders WHERE price < 1")
    handle = session.handle
    assert ("spark_catalog",) in session.look("GetCatalogs", m.SessionRequest(handle))
    assert session.look("GetSchemas", m.TGetSchemasReq(handle, None, "thrift\\_c%")) == [
        ("thrift_catalog", "spark_catalog")
    ]
    tables = session.look("GetTables", m.TGetTablesReq(handle, None, "thrift_catalog", "%", None))
    assert [row[:4] for row in tables] == [
        ("spark_catalog", "thrift_catalog", "cheap", "VIEW"),
        ("spark_catalog", "thrift_catalog", "orders", "TABLE"),
    ]
    only = session.look("GetTables", m.TGetTablesReq(handle, "", "thrift_cat.*", ".*", ["VIEW"]))
    assert [row[2] for row in only] == ["cheap"]
    columns = session.look("GetColumns", m.TGetColumnsReq(handle, None, "thrift_catalog", "orders", "%"))
    assert [(row[3], row[4], row[5], row[6], row[8], row[11], row[16]) for row in columns] == [
        ("id", 4, "INT", 10, 0, "key", 1),
        ("price", 3, "DECIMAL(10,2)", 10, 2, "", 2),
    ]
    functions = session.look("GetFunctions", m.TGetFunctionsReq(handle, None, None, "abs"))
    assert [(row[2], row[5]) for row in functions] == [("abs", "org.apache.spark.sql.catalyst.expressions.Abs")]
    assert ("VIEW",) in session.look("GetTableTypes", m.SessionRequest(handle))
    assert session.look("GetPrimaryKeys", m.SessionRequest(handle)) == []
    assert len(session.look("GetTypeInfo", m.SessionRequest(handle))) > 10


def test_thrift_server_info_names_spark_sql_and_its_version(session: Session) -> None:
    told = [session.client.call("GetInfo", m.TGetInfoReq(session.handle, kind))[2][1] for kind in (13, 17, 18)]
    assert told[:2] == [b"Spark SQL", b"Spark SQL"] and told[2].startswith(b"4.")


def test_a_thrift_client_with_a_wrong_token_is_refused(frontend: Frontend) -> None:
    with pytest.raises(Refused, match="not this session's token"):
        frontend.connect(token="another")


def test_there_is_no_way_without_tls(frontend: Frontend) -> None:
    with pytest.raises((EOFError, ConnectionError)):
        ThriftClient(frontend.port, None, seconds=90)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1:DeprecationWarning")
def test_old_tls_is_refused(frontend: Frontend) -> None:
    tls = frontend.gateway.client_tls()
    tls.minimum_version = tls.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
        ThriftClient(frontend.port, tls, seconds=90)


@pytest.mark.thorough
async def test_an_open_thrift_connection_keeps_its_session_until_the_gateway_ends(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    port = free_port()
    with running(
        tmp_path_factory.mktemp("closing"),
        endpoints={"thrift": True, "thrift_port": port},
        spark_conf={"spark.sql.gateway.session.idle-timeout": "2s", "spark.sql.gateway.session.check-interval": "1s"},
    ) as gateway:
        frontend = Frontend(gateway, port)
        await asyncio.to_thread(until_open, frontend)
        client = frontend.connect()
        session = Session(client)
        async with rest_http(gateway) as http:
            for _ in range(2):
                unused = await open_rest(http)

                async def has_expired(handle: str = unused.handle) -> bool:
                    _, seen = await call(http, "GET", "/control/v1/clients")
                    return handle not in {entry["handle"] for entry in seen["sessions"]}

                await until("the session that nobody uses has expired", has_expired)
        session.start(ENDLESS)
        gateway.terminate()
        assert client.is_closed()
        assert gateway.wait(90) == 0


def test_rows_of_a_query_without_end_come_as_they_are_written(session: Session, frontend: Frontend) -> None:
    with frontend.connect() as client:
        other = Session(client)
        other.rows("CREATE TABLE thrift_stream (k STRING, v INT) USING parquet")
        query = session.start("SELECT k, sum(v) AS total FROM STREAM thrift_stream GROUP BY k")
        assert session.end(query)[2] == FINISHED
        columns = session.client.call("GetResultSetMetadata", m.OperationRequest(query))[2][1]
        assert [column[1] for column in columns] == [b"op", b"k", b"total"]

        other.rows("INSERT INTO thrift_stream VALUES ('a', 1)")
        assert rows_of(session.fetch(query)) == [(b"+I", b"a", 1)]
        other.rows("INSERT INTO thrift_stream VALUES ('a', 2)")
        assert rows_of(session.fetch(query, max_rows=1)) == [(b"-U", b"a", 1)]
        assert rows_of(session.fetch(query, max_rows=1)) == [(b"+U", b"a", 3)]

        first = session.client.call("FetchResults", m.TFetchResultsReq(query, 4, 10))
        assert first[1][1] == 3 and b"FETCH_NEXT" in first[1][5], first
        assert other.client.call("CancelOperation", m.OperationRequest(query))[1] == {1: 0}
        ended = session.client.call("FetchResults", m.TFetchResultsReq(query, 0, 10))
        assert ended[1][1] == 3 and b"cancelled" in ended[1][5], ended
        other.rows("DROP TABLE thrift_stream")
