"""What a cursor asks for. A `|` in a text marks the cursor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.catalog.completion import arrange
from sparksql.gateway.catalog.cursor import MAX_TABLES, CursorPlace, Table, Wish, read_cursor, tokens
from tests.support.work import LINEAR, growth

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


@pytest.mark.parametrize("piece", ["SELECT a, 'x' FROM t; ", "'", "/*", "`", "FROM a, "])
def test_reading_takes_work_in_proportion_to_the_text(piece: str) -> None:
    def read(count: int) -> None:
        text = piece * (count // len(piece)) + piece[0]
        read_cursor(text, len(text))

    assert growth(read, 10_000) < LINEAR


@pytest.mark.parametrize(
    ("text", "place", "prefix"),
    [
        ("|", CursorPlace.KEYWORD, ""),
        ("sel|", CursorPlace.KEYWORD, "sel"),
        ("SEL|ECT 1", CursorPlace.KEYWORD, "SEL"),
        ("SELECT 1; sh|", CursorPlace.KEYWORD, "sh"),
        ("-- why\nsh|", CursorPlace.KEYWORD, "sh"),
        ("SHOW TAB|", CursorPlace.KEYWORD, "TAB"),
        ("SELECT |", CursorPlace.EXPRESSION, ""),
        ("SELECT a, b| FROM t", CursorPlace.EXPRESSION, "b"),
        ("SELECT a |", CursorPlace.KEYWORD, ""),
        ("SELECT * |", CursorPlace.KEYWORD, ""),
        ("SELECT t.* fr|", CursorPlace.KEYWORD, "fr"),
        ("SELECT 2 * |", CursorPlace.EXPRESSION, ""),
        ("SELECT 'x' fr|", CursorPlace.KEYWORD, "fr"),
        ("SELECT 1 /* one */ fr|", CursorPlace.KEYWORD, "fr"),
        ("SELECT count(a|", CursorPlace.EXPRESSION, "a"),
        ("SELECT * FROM |", CursorPlace.RELATION, ""),
        ("SELECT * FROM c|", CursorPlace.RELATION, "c"),
        ("SELECT * FROM a, |", CursorPlace.RELATION, ""),
        ("SELECT * FROM a x, (SELECT 1, |", CursorPlace.EXPRESSION, ""),
        ("SELECT f(a, |", CursorPlace.EXPRESSION, ""),
        ("SELECT * FROM f(1), c|", CursorPlace.RELATION, "c"),
        ("SELECT * FROM a LEFT JOIN b|", CursorPlace.RELATION, "b"),
        ("SELECT * FROM a WHERE x|", CursorPlace.EXPRESSION, "x"),
        ("SELECT * FROM a WHERE x = |", CursorPlace.EXPRESSION, ""),
        ("SELECT * FROM a WHERE x = 1 an|", CursorPlace.KEYWORD, "an"),
        ("SELECT * FROM a GROUP BY x, y|", CursorPlace.EXPRESSION, "y"),
        ("INSERT INTO c|", CursorPlace.RELATION, "c"),
        ("INSERT OVERWRITE c|", CursorPlace.RELATION, "c"),
        ("INSERT INTO t (a|", CursorPlace.EXPRESSION, "a"),
        ("UPDATE c|", CursorPlace.RELATION, "c"),
        ("UPDATE t SET c|", CursorPlace.EXPRESSION, "c"),
        ("MERGE INTO t USING c|", CursorPlace.RELATION, "c"),
        ("SELECT * FROM t JOIN u USING (c|", CursorPlace.EXPRESSION, "c"),
        ("CREATE TABLE t (a INT) USING p|", CursorPlace.KEYWORD, "p"),
        ("DROP TABLE IF EXISTS c|", CursorPlace.RELATION, "c"),
        ("CREATE TABLE IF NOT EXISTS c|", CursorPlace.RELATION, "c"),
        ("DROP SCHEMA IF EXISTS c|", CursorPlace.NAMESPACE, "c"),
        ("DROP FUNCTION c|", CursorPlace.EXPRESSION, "c"),
        ("USE c|", CursorPlace.NAMESPACE, "c"),
        ("SET CATALOG c|", CursorPlace.NAMESPACE, "c"),
        ("SHOW TABLES IN c|", CursorPlace.NAMESPACE, "c"),
        ("SHOW COLUMNS IN c|", CursorPlace.RELATION, "c"),
        ("SHOW IN |", CursorPlace.NAMESPACE, ""),
        ("DESCRIBE c|", CursorPlace.RELATION, "c"),
        ("DESC EXTENDED c|", CursorPlace.RELATION, "c"),
        ("SELECT a FROM t ORDER BY a DESC n|", CursorPlace.KEYWORD, "n"),
        ("SELECT 'a|", CursorPlace.NOTHING, ""),
        ("SELECT 'a|b'", CursorPlace.NOTHING, ""),
        ("SELECT 'it''s|", CursorPlace.NOTHING, ""),
        ("SELECT r'\\' FROM c|", CursorPlace.RELATION, "c"),
        ("SELECT 'a\\' FROM c|", CursorPlace.NOTHING, ""),
        ("SELECT 1 -- fr|", CursorPlace.NOTHING, ""),
        ("SELECT /* a /* b */ fr|", CursorPlace.NOTHING, ""),
        ("SELECT 12|", CursorPlace.NOTHING, ""),
        ("SELECT :na|", CursorPlace.NOTHING, "na"),
        ("SELECT f(x).a|", CursorPlace.NOTHING, ""),
        ("SELECT * FROM `a`|", CursorPlace.NOTHING, ""),
    ],
)  # fmt: skip
def test_the_kind_of_completion_and_its_prefix_follow_from_the_cursor(
    text: str, place: CursorPlace, prefix: str
) -> None:
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
    assert arrange(Wish(CursorPlace.RELATION, prefix="AL"), names) == ["`al pha`", "`al``pha`", "alpha"]
    assert arrange(Wish(CursorPlace.RELATION, ("s",), "b", "s."), names) == ["s.Beta"]
    assert arrange(Wish(CursorPlace.RELATION, prefix="b", is_quoted=True), names) == ["`Beta`"]
