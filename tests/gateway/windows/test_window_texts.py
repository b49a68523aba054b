"""The text that Spark reads for one with window functions: it parses, and each of its places has one in the text of the user."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.sql.lexer import Lexed
from sparksql.gateway.sql.window_syntax import Edited, edited
from sparksql.gateway.windowing.calls import opened

from ..local_spark import local_spark

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
