"""What a cursor asks for. A `|` in a text marks the cursor."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.catalog.completion import arrange
from sparksql.gateway.catalog.cursor import MAX_TABLES, Place, Table, Wish, read_cursor, tokens

texts = st.lists(st.sampled_from(["'", '"', "`", "\\", "a", "B1", "r", " ", "\n", ".", ",", ";", "(", ")", "-", "--", "/*", "*/", "FROM ", "é", "1", ":"]), max_size=20).map("".join) | st.lists(st.sampled_from(["SELECT", "FROM", "JOIN", "t", "a.b", "AS", ",", "*", "(", ")", "WITH", "IF", "EXISTS", "SHOW", "IN", "`x y`", "'s'", "1", ";", "."]), max_size=12).map(" ".join)  # fmt: skip


def read(text: str) -> Wish:
    assert text.count("|") == 1
    return read_cursor(text.replace("|", ""), text.index("|"))


@given(text=texts)
def test_tokens_lie_in_the_text_in_order(text: str) -> None:
    end = 0
    for token in tokens(text):
        assert text[end : token.start].strip() == ""
        assert token.text and text[token.start : token.end] == token.text
        end = token.end
    assert text[end:].strip() == ""


@given(text=texts, position=st.integers(-3, 60))
def test_any_text_can_be_read(text: str, position: int) -> None:
    wish = read_cursor(text, position)
    before = text[: min(max(position, 0), len(text))]
    assert before.replace("``", "`").endswith(wish.prefix)
    assert wish.typed in before
    assert len(wish.tables) <= MAX_TABLES


@given(text=texts, position=st.integers(0, 60), names=st.lists(st.text(max_size=5), max_size=5))
def test_candidates_begin_as_what_was_typed(text: str, position: int, names: list[str]) -> None:
    wish = read_cursor(text, position)
    for candidate in arrange(wish, names):
        assert candidate.startswith(wish.typed)
        shown = candidate.removeprefix(wish.typed).strip("`").replace("``", "`")
        assert shown.lower().startswith(wish.prefix.strip("`").lower())


def test_a_long_text_is_read_soon() -> None:
    for text in ("SELECT a, 'x' FROM t; " * 12_000, "'" * 256_000, "/*" * 128_000, "`" * 256_001, "FROM a, " * 32_000):
        begin = time.thread_time()
        read_cursor(text, len(text))
        assert time.thread_time() - begin < 2, text[:30]


@pytest.mark.parametrize(
    ("text", "place", "prefix"),
    [
        ("|", Place.KEYWORD, ""),
        ("sel|", Place.KEYWORD, "sel"),
        ("SEL|ECT 1", Place.KEYWORD, "SEL"),
        ("SELECT 1; sh|", Place.KEYWORD, "sh"),
        ("-- why\nsh|", Place.KEYWORD, "sh"),
        ("SHOW TAB|", Place.KEYWORD, "TAB"),
        ("SELECT |", Place.EXPRESSION, ""),
        ("SELECT a, b| FROM t", Place.EXPRESSION, "b"),
        ("SELECT a |", Place.KEYWORD, ""),
        ("SELECT * |", Place.KEYWORD, ""),
        ("SELECT t.* fr|", Place.KEYWORD, "fr"),
        ("SELECT 2 * |", Place.EXPRESSION, ""),
        ("SELECT 'x' fr|", Place.KEYWORD, "fr"),
        ("SELECT 1 /* one */ fr|", Place.KEYWORD, "fr"),
        ("SELECT count(a|", Place.EXPRESSION, "a"),
        ("SELECT * FROM |", Place.RELATION, ""),
        ("SELECT * FROM c|", Place.RELATION, "c"),
        ("SELECT * FROM a, |", Place.RELATION, ""),
        ("SELECT * FROM a x, (SELECT 1, |", Place.EXPRESSION, ""),
        ("SELECT f(a, |", Place.EXPRESSION, ""),
        ("SELECT * FROM f(1), c|", Place.RELATION, "c"),
        ("SELECT * FROM a LEFT JOIN b|", Place.RELATION, "b"),
        ("SELECT * FROM a WHERE x|", Place.EXPRESSION, "x"),
        ("SELECT * FROM a WHERE x = |", Place.EXPRESSION, ""),
        ("SELECT * FROM a WHERE x = 1 an|", Place.KEYWORD, "an"),
        ("SELECT * FROM a GROUP BY x, y|", Place.EXPRESSION, "y"),
        ("INSERT INTO c|", Place.RELATION, "c"),
        ("INSERT OVERWRITE c|", Place.RELATION, "c"),
        ("INSERT INTO t (a|", Place.EXPRESSION, "a"),
        ("UPDATE c|", Place.RELATION, "c"),
        ("UPDATE t SET c|", Place.EXPRESSION, "c"),
        ("MERGE INTO t USING c|", Place.RELATION, "c"),
        ("SELECT * FROM t JOIN u USING (c|", Place.EXPRESSION, "c"),
        ("CREATE TABLE t (a INT) USING p|", Place.KEYWORD, "p"),
        ("DROP TABLE IF EXISTS c|", Place.RELATION, "c"),
        ("CREATE TABLE IF NOT EXISTS c|", Place.RELATION, "c"),
        ("DROP SCHEMA IF EXISTS c|", Place.NAMESPACE, "c"),
        ("DROP FUNCTION c|", Place.EXPRESSION, "c"),
        ("USE c|", Place.NAMESPACE, "c"),
        ("SET CATALOG c|", Place.NAMESPACE, "c"),
        ("SHOW TABLES IN c|", Place.NAMESPACE, "c"),
        ("SHOW COLUMNS IN c|", Place.RELATION, "c"),
        ("SHOW IN |", Place.NAMESPACE, ""),
        ("DESCRIBE c|", Place.RELATION, "c"),
        ("DESC EXTENDED c|", Place.RELATION, "c"),
        ("SELECT a FROM t ORDER BY a DESC n|", Place.KEYWORD, "n"),
        ("SELECT 'a|", Place.NOTHING, ""),
        ("SELECT 'a|b'", Place.NOTHING, ""),
        ("SELECT 'it''s|", Place.NOTHING, ""),
        ("SELECT r'\\' FROM c|", Place.RELATION, "c"),
        ("SELECT 'a\\' FROM c|", Place.NOTHING, ""),
        ("SELECT 1 -- fr|", Place.NOTHING, ""),
        ("SELECT /* a /* b */ fr|", Place.NOTHING, ""),
        ("SELECT 12|", Place.NOTHING, ""),
        ("SELECT :na|", Place.NOTHING, "na"),
        ("SELECT f(x).a|", Place.NOTHING, ""),
        ("SELECT * FROM `a`|", Place.NOTHING, ""),
    ],
)  # fmt: skip
def test_the_kind_of_completion_and_its_prefix_follow_from_the_cursor(text: str, place: Place, prefix: str) -> None:
    wish = read(text)
    assert (wish.place, wish.prefix) == (place, prefix)


@pytest.mark.parametrize(
    ("text", "qualifier", "prefix", "typed"),
    [
        ("SELECT * FROM s.|", ("s",), "", "s."),
        ("SELECT * FROM c.s.ta|", ("c", "s"), "ta", "c.s."),
        ("SELECT * FROM `my s`.ta|", ("my s",), "ta", "`my s`."),
        ("SELECT * FROM `my ta|", (), "my ta", ""),
        ("SELECT * FROM `m|y ta`", (), "m", ""),
        ("SELECT a.co|l FROM t a", ("a",), "co", "a."),
        ("SELECT * FROM `a``b`.|", ("a`b",), "", "`a``b`."),
        ("SELECT a . b|", (), "b", ""),
    ],
)
def test_dotted_name_at_the_cursor_is_split_into_qualifier_and_prefix(
    text: str, qualifier: tuple[str, ...], prefix: str, typed: str
) -> None:
    wish = read(text)
    assert (wish.qualifier, wish.prefix, wish.typed) == (qualifier, prefix, typed)


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("SELECT | FROM a", [Table(("a",))]),
        ("SELECT | FROM s.a AS x, `b c` y JOIN d ON 1", [Table(("s", "a"), "x"), Table(("b c",), "y"), Table(("d",))]),
        ("SELECT | FROM a WHERE 1", [Table(("a",))]),
        ("SELECT | FROM (SELECT * FROM inner_t i) o", [Table(("inner_t",), "i")]),
        ("UPDATE t SET |", [Table(("t",))]),
        ("MERGE INTO t USING s.u z ON |", [Table(("t",)), Table(("s", "u"), "z")]),
        ("INSERT INTO t (|", [Table(("t",))]),
        ("SELECT 1 FROM x; SELECT | FROM y; SELECT 1 FROM z", [Table(("y",))]),
        ("SELECT | FROM a, a, a", [Table(("a",))]),
        ("SELECT 'FROM x' /* FROM y */ |", []),
    ],
)  # fmt: skip
def test_tables_in_scope_at_the_cursor_are_found(text: str, tables: list[Table]) -> None:
    assert list(read(text).tables) == tables


def test_a_table_is_called_by_its_alias_or_the_end_of_its_name() -> None:
    assert Table(("s", "t")).is_called(("T",))
    assert Table(("s", "t")).is_called(("s", "t"))
    assert not Table(("s", "t")).is_called(("s",))
    assert not Table(("s", "t")).is_called(("c", "s", "t"))
    assert Table(("s", "t"), "x").is_called(("X",))
    assert not Table(("s", "t"), "x").is_called(("t",))


def test_named_queries_of_a_statement_are_found() -> None:
    assert read("WITH a AS (SELECT 1), `b c` AS (SELECT 2) SELECT * FROM |").named_queries == ("a", "b c")
    assert read("SELECT CAST(x AS (int)) FROM |").named_queries == ()


def test_completed_names_are_quoted_where_spark_needs_it() -> None:
    names = ["Beta", "alpha", "al pha", "al`pha", "other"]
    assert arrange(Wish(Place.RELATION, prefix="AL"), names) == ["`al pha`", "`al``pha`", "alpha"]
    assert arrange(Wish(Place.RELATION, ("s",), "b", "s."), names) == ["s.Beta"]
    assert arrange(Wish(Place.RELATION, prefix="b", is_quoted=True), names) == ["`Beta`"]
