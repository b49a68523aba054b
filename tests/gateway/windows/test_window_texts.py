"""The text that Spark reads for one with window functions: it parses, each of its places has one in the text of the user, and its
windows are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.sql.lexer import Lexed
from sparksql.gateway.sql.window_syntax import Edited, edited
from sparksql.gateway.streaming import analysis
from sparksql.gateway.streaming.state.describe import describe
from sparksql.gateway.windowing.calls import opened
from sparksql.gateway.windowing.rewrite import for_stream
from sparksql.gateway.windowing.time_windows import lengths

from ..local_spark import local_spark
from ..local_spark import run as execute

drawn = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    with local_spark(tmp_path_factory.mktemp("spark")) as started:
        yield started


def as_read(driver: SparkDriver, text: str) -> Edited:
    return edited(text, Lexed(driver.jvm, text).words())


def check_places(text: str, read: Edited) -> None:
    """Each character of the user's text is in the other one or a blank, and its place there leads back to its own."""
    for at, character in enumerate(text):
        place = at + sum(len(edit.text) for edit in read.edits if edit.start == edit.end <= at)
        assert read.text[place] in (character, " "), (text, read.text, at)
        assert read.original(place) == at, (text, read.text, at)
    back = [read.original(place) for place in range(len(read.text) + 1)]
    assert back == sorted(back) and back[-1] == len(text), (text, read.text)


gaps = st.sampled_from((" ", "  ", "\n", "\t", " /* TABLE (🙂) */ ", " -- ü TUMBLE(\n", "\r\n"))
names = st.sampled_from(
    ("t", "c.db.t", "`a b`", "`TABLE`.`x.y`", "db . t", "`🙂`", "stream", "tumble", "session.t", "`hop`")
)
columns = st.sampled_from(("k", "`k 1`", "`🙂`", "uid"))
intervals = st.sampled_from(
    ("INTERVAL '5' MINUTES", "INTERVAL 5 MINUTES", "'5 minutes'", "INTERVAL '1' DAY", "interval 1 hour")
)
streams = st.sampled_from(
    (
        "STREAM t",
        "stream db.t WITH ('maxFilesPerTrigger' = '1', 'x' = ', (')",
        "STREAM t WATERMARK ts DELAY OF INTERVAL 30 SECONDS",
        "STREAM t WITH ('a' = 'b') WATERMARK to_timestamp(x, 'y, z') AS ts DELAY OF INTERVAL 1 MINUTE",
    )
)


@st.composite
def cased(draw: st.DrawFn, word: str) -> str:
    return draw(st.sampled_from((word, word.lower(), word.capitalize())))


@st.composite
def tables(draw: st.DrawFn, depth: int) -> str:
    """The first argument of a call."""
    gap, word = draw(gaps), draw(cased("TABLE"))
    kind = draw(st.integers(0, 5 if depth else 3))
    match kind:
        case 0:
            return f"{word}{gap}{draw(names)}"
        case 1:
            return f"{word}{gap}({draw(names)})"
        case 2:
            return f"{word}{gap}{draw(streams)}"
        case 3:
            return f"{word}{gap}({draw(streams)})"
        case 4:
            return f"{word} (SELECT a, row_number() OVER (PARTITION BY a ORDER BY b) FROM {draw(calls(depth - 1))} w)"
        case _:
            return f"{word}{gap}({draw(calls(depth - 1, outer=False))})"


@st.composite
def calls(draw: st.DrawFn, depth: int = 1, *, outer: bool = True) -> str:
    function = draw(st.sampled_from(("TUMBLE", "HOP", "CUMULATE", "SESSION", "`tumble`")))
    gap = draw(gaps)
    table, time = draw(tables(depth)), f"DESCRIPTOR({gap}{draw(columns)})"
    if function == "SESSION" and draw(st.booleans()):
        parts = ", ".join(draw(st.lists(columns, min_size=1, max_size=3)))
        parts = f"({parts})" if draw(st.booleans()) else parts
        table = f"{table}{gap}PARTITION BY {parts}"
    lengths = [draw(intervals) for _ in range(2 if function in ("HOP", "CUMULATE") else 1)]
    if draw(st.booleans()):
        labels = ("STEP", "SIZE") if len(lengths) == 2 else ("size",)
        arguments = [f"DATA => {table}", f"timecol =>{gap}{time}"]
        arguments += [f"{label} => {length}" for label, length in zip(labels, lengths, strict=True)]
    else:
        arguments = [table, time, *lengths]
    call = f"{draw(cased(function))}{draw(st.sampled_from(('', gap)))}({f',{gap}'.join(arguments)})"
    return f"{draw(cased('TABLE'))}{gap}({gap}{call}{gap})" if outer and draw(st.booleans()) else call


@st.composite
def statements(draw: st.DrawFn) -> str:
    one, gap = draw(calls()), draw(gaps)
    form = draw(
        st.sampled_from(
            (
                "SELECT * FROM {one}",
                "SELECT '🙂 TABLE(TUMBLE(' AS x, w.* FROM{gap}{one} AS w JOIN {other} v ON w.a = v.a",
                "INSERT INTO d SELECT window_start, count(*) FROM {one}{gap}GROUP BY window_start, window_end",
                "WITH c AS (SELECT * FROM {one}) SELECT * FROM c, {other}",
                "SELECT tumble FROM {one} WHERE hop(a) > 1 AND session IS NULL",
                "EXPLAIN SELECT * FROM {one} UNION ALL SELECT * FROM {other}",
            )
        )
    )
    return str(form.format(one=one, gap=gap, other=draw(calls())))


@drawn
@given(text=statements())
def test_texts_with_window_functions_parse_in_spark_with_every_place_kept(driver: SparkDriver, text: str) -> None:
    read = as_read(driver, text)
    check_places(text, read)
    try:
        plan = driver.base.sessionState().sqlParser().parsePlan(read.text)
        opened(driver.jvm, plan)
    except Exception as refused:
        raise AssertionError(f"{text!r}\n{read.text!r}\n{refused}") from None


WORDS = (
    *("SELECT", "*", "FROM", "TABLE", "(", ")", ",", "STREAM", "PARTITION", "BY", "tumble", "hop", ".", "'TUMBLE('", "=>", "DESCRIPTOR"),
    *(";", "`session`", "TUMBLE", "SESSION (", "TUMBLE(", "🙂", "-- HOP(\n", "/* CUMULATE( */", "INTERVAL", "'5'", "ü", "x", ":p", "`", "'"),
)  # fmt: skip
words = st.sampled_from(WORDS)


@drawn
@given(text=st.one_of(st.lists(words, max_size=25).map(" ".join), st.lists(words, max_size=25).map("".join)))
def test_places_are_kept_in_texts_that_are_no_sql(driver: SparkDriver, text: str) -> None:
    check_places(text, as_read(driver, text))


@drawn
@given(
    text=st.one_of(
        st.text(max_size=60),
        st.lists(words.filter(lambda word: "(" not in word or word[0] in "'-/"), max_size=25).map(" ".join),
        names.map(lambda name: f"SELECT tumble, hop FROM TABLE({name}) JOIN session ON TABLE = PARTITION BY x"),
    )
)
def test_texts_without_calls_are_left_as_they_are(driver: SparkDriver, text: str) -> None:
    assert as_read(driver, text) == Edited(text)


COUNTED = "SELECT window_start, window_end, count(*) AS n FROM"
BY_WINDOW = "GROUP BY window_start, window_end"
INFERRED = {
    "called": (f"{COUNTED} CUMULATE(TABLE ev, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '30' SECOND) {BY_WINDOW}", {2000, 30_000}),
    "in a temporary view": (f"{COUNTED} hops {BY_WINDOW}", {15_000, 45_000}),
    "Spark's own in a view": ("SELECT n FROM own", {20_000}),
    "Spark's own in a function": ("SELECT n FROM counted()", {25_000, 5_000}),
}  # fmt: skip


@pytest.mark.parametrize("name", INFERRED)
def test_windows_are_seen_wherever_they_are_written(driver: SparkDriver, name: str) -> None:
    text, expected = INFERRED[name]
    session = driver.clone()
    execute(
        driver,
        session,
        "CREATE OR REPLACE TEMPORARY VIEW ev AS SELECT TIMESTAMP'2026-01-01' AS ts",
        "CREATE OR REPLACE TEMPORARY VIEW own AS SELECT count(*) AS n FROM ev GROUP BY window(ts, '20 seconds')",
        "CREATE OR REPLACE TEMPORARY FUNCTION counted() RETURNS TABLE(n BIGINT) RETURN SELECT count(*) AS n FROM ev "
        "GROUP BY window(ts, '25 seconds', '5 seconds')",
    )

    def read(sql: str) -> object:
        driver.activate(session)
        calls = edited(sql, Lexed(driver.jvm, sql).words())
        plan = session.sessionState().sqlParser().parsePlan(calls.text)
        return driver.of_rows(session, analysis.prepared(driver, session, opened(driver.jvm, plan)))

    read(
        "CREATE OR REPLACE TEMPORARY VIEW hops AS SELECT * FROM HOP(TABLE ev, DESCRIPTOR(ts), INTERVAL '15' SECOND, INTERVAL '45' SECOND)"
    )
    found = read(text)
    assert set(lengths(driver.jvm, found.queryExecution().analyzed())) == expected  # type: ignore[attr-defined]


def test_distincts_are_described_the_same_whenever_they_are_prepared(driver: SparkDriver, tmp_path: Path) -> None:
    """Spark's rule has them in the order of a hash table, another one in each analysis."""
    session = driver.clone()
    execute(
        driver,
        session,
        f"CREATE TABLE many (ts TIMESTAMP, a INT, b INT, c INT, d INT) USING json LOCATION '{tmp_path}'",
    )
    (tmp_path / "0.json").write_text("{}")
    sql = (
        "SELECT window_end, d % 3, count(DISTINCT a), count(DISTINCT b) FILTER (WHERE c > 1), sum(DISTINCT c), count(DISTINCT a, c), "
        "avg(d) FROM TUMBLE(TABLE(FROM STREAM many WATERMARK ts DELAY OF INTERVAL 1 MINUTE), DESCRIPTOR(ts), INTERVAL 1 HOUR) "
        "GROUP BY window_start, window_end, d % 3"
    )
    calls = edited(sql, Lexed(driver.jvm, sql).words())
    seen = []
    for _ in range(8):
        driver.activate(session)
        plan = opened(driver.jvm, session.sessionState().sqlParser().parsePlan(calls.text))
        frame = driver.of_rows(session, analysis.prepared(driver, session, plan))
        analysed = for_stream(driver, session, frame, "append").queryExecution().analyzed()
        seen.append(describe(driver, session, analysed, text=sql, output_mode="append", mask=str, qualified=str))
    assert all(description == seen[0] for description in seen), [description.operators for description in seen]
