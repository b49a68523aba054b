"""Messages about changed queries have no name that only the gateway or a rule of Spark knows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.sql.lexer import Lexed
from sparksql.gateway.sql.window_syntax import edited
from sparksql.gateway.streaming import analysis
from sparksql.gateway.streaming.state.compatibility import differences
from sparksql.gateway.streaming.state.describe import describe
from sparksql.gateway.streaming.state.description import Description
from sparksql.gateway.streaming.state.messages import in_query_words, message
from sparksql.gateway.windowing.calls import opened
from sparksql.gateway.windowing.rewrite import for_stream

from ..local_spark import local_spark
from .structures import make_tables

SOURCE = "TABLE(FROM STREAM src WATERMARK ts DELAY OF INTERVAL 10 SECONDS)"
TUMBLE = "TUMBLE({}, DESCRIPTOR(ts), INTERVAL 1 MINUTE)"
HOP = "HOP({}, DESCRIPTOR(ts), INTERVAL 30 SECONDS, INTERVAL 1 MINUTE)"
CUMULATE = HOP.replace("HOP", "CUMULATE")
SESSION = "SESSION({} PARTITION BY country, DESCRIPTOR(ts), INTERVAL 1 MINUTE)"
_GENERATED = re.compile(r"__\w+|\bgid\b|#[0-9a-f]{8}|aggregate_id")


def counted(values: str, call: str = TUMBLE, where: str = "", keys: str = ", country") -> str:
    return (
        f"SELECT window_end{keys}, {values} FROM {call.format(SOURCE)}{where} GROUP BY window_start, window_end{keys}"
    )


USERS = counted("count(DISTINCT id), count(*)", where=" WHERE country IN ('de', 'fr', 'it')")
ONE, BOTH = counted("count(DISTINCT id)"), counted("count(DISTINCT id), count(*)")
HOPS = counted("count(*), avg(amount)", HOP)
SESSIONS = counted("count(*)", SESSION)
CHANGES = {
    "order of listed values": (USERS, USERS.replace("'de', 'fr', 'it'", "'it', 'de', 'fr'")),
    "another listed value": (USERS, USERS.replace("'it'", "'it', 'at'")),
    "aggregate beside listed values": (USERS, USERS.replace("count(*)", "sum(amount)")),
    "aggregate beside DISTINCT removed": (BOTH, ONE),
    "aggregate beside DISTINCT added": (ONE, BOTH),
    "DISTINCT removed": (counted("count(DISTINCT id), count(DISTINCT amount)"), ONE),
    "DISTINCT of another column": (ONE, counted("count(DISTINCT amount)")),
    "FILTER of DISTINCT": tuple(
        counted(f"count(DISTINCT id) FILTER (WHERE amount > {least}), sum(amount)") for least in (1, 2)
    ),
    "key beside DISTINCT": (ONE, counted("count(DISTINCT id)", keys=", country, j")),
    "DISTINCT added": (counted("count(*)"), BOTH),
    "HOP to CUMULATE": (HOPS, HOPS.replace("HOP", "CUMULATE")),
    "TUMBLE to HOP": (counted("count(*)"), counted("count(*)", HOP)),
    "size of HOP": (HOPS, HOPS.replace("1 MINUTE", "90 SECONDS")),
    "gap of SESSION": (SESSIONS, SESSIONS.replace("1 MINUTE", "2 MINUTES")),
}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    with local_spark(tmp_path_factory.mktemp("messages"), **{"spark.sql.shuffle.partitions": "1"}) as started:
        make_tables(started)
        yield started


def described(driver: SparkDriver, sql: str) -> Description:
    session = driver.clone()
    driver.activate(session)
    calls = edited(sql, Lexed(driver.jvm, sql).words())
    plan = opened(driver.jvm, session.sessionState().sqlParser().parsePlan(calls.text))
    frame = driver.of_rows(session, analysis.prepared(driver, session, plan))
    analysed = for_stream(driver, session, frame, "append").queryExecution().analyzed()
    return describe(driver, session, analysed, text=sql, output_mode="append", mask=str, qualified=str)


@pytest.mark.parametrize("name", CHANGES)
def test_message_about_a_changed_stream_query_has_no_generated_name(driver: SparkDriver, name: str) -> None:
    old, new = (described(driver, sql) for sql in CHANGES[name])
    found = differences(old, new)
    assert found
    every = [message(found, old, new), *(text for each in found for text in in_query_words(each, old, new))]
    assert [text for text in every if _GENERATED.search(text)] == []
