"""The look at a text before it is read: what it counts, and that it is linear."""

from __future__ import annotations

import pytest

from sparksql.gateway.sql.errors import StatementError
from sparksql.gateway.sql.text_bounds import MAX_COMMENTS, MAX_MARKERS, MAX_NESTING, Extent, check_text, measure
from sparksql.wire.control import ErrorReason
from tests.support.work import LINEAR, growth


@pytest.mark.parametrize(
    ("sql", "extent"),
    [
        ("SELECT 1", Extent(tokens=2)),
        ("SELECT (a[(1)])", Extent(tokens=9, nesting=3)),
        ("SELECT ')', \"(\", `(`, '\\'(', '''(' -- ((\n", Extent(tokens=10)),
        ("SELECT r'\\', (1)", Extent(tokens=6, nesting=1)),
        ("SELECT /* (( /* ( */ */ 1", Extent(tokens=2, comments=2)),
        ("SELECT /*+ BROADCAST(t) */ 1", Extent(tokens=11, nesting=1)),
        ("SELECT CASE WHEN a THEN CASE b WHEN 1 THEN 2 END END", Extent(tokens=13, nesting=2)),
        ("CREATE TABLE t (a STRUCT<b: ARRAY<INT>, c: MAP<INT, INT>>)", Extent(tokens=21, nesting=3)),
        ("SELECT 1 < 2, 3 > 2", Extent(tokens=8)),
        ("SELECT :a, ?, v:b, x::INT", Extent(tokens=13, markers=3)),
        ("SELECT 1 UNION SELECT 2 minus SELECT 3", Extent(tokens=8, set_operations=2)),
        ("SELECT (1; SELECT (2", Extent(tokens=7, nesting=1)),
        ("SELECT 'no end", Extent(tokens=2)),
    ],
    ids=range(13),
)
def test_tokens_nesting_comments_and_markers_of_sql_are_counted(sql: str, extent: Extent) -> None:
    assert measure(sql) == extent


LEGITIMATE = {
    "a long IN list": "SELECT 1 WHERE 5 IN (" + ", ".join(map(str, range(100_000))) + ")",
    "a chain of AND": "SELECT 1 WHERE " + " AND ".join(f"a <> {n}" for n in range(5_000)),
    "a script": "INSERT INTO t VALUES ((1), 'a;b');\n" * 500,
    "rows": "INSERT INTO t VALUES " + ", ".join(f"({n}, 'x')" for n in range(80_000)),
    "nested calls": "SELECT " + "replace(" * 200 + "a" + ", 'x', 'y')" * 200,
    "a wide struct": "CREATE TABLE t (a STRUCT<" + ", ".join(f"f{n}: INT" for n in range(5_000)) + ">)",
    "JSON": "SELECT from_json('" + "[{" * 1_000 + "}]" * 1_000 + "', 'a INT')",
}


@pytest.mark.parametrize("name", LEGITIMATE)
def test_sql_as_tools_generate_it_is_within_the_bounds(name: str) -> None:
    check_text(LEGITIMATE[name])


TOO_MUCH = {
    "words and signs": "SELECT " + "1, " * 300_000,
    "levels of parentheses": "SELECT " + "(" * 10_000 + "1" + ")" * 10_000,
    "levels of": "SELECT " + "CASE WHEN a THEN 1 ELSE " * (MAX_NESTING + 1) + "0" + " END" * (MAX_NESTING + 1),
    "blocks within": "BEGIN " * 1_000 + "SELECT 1; " + "END; " * 1_000,
    "types or": "SELECT CAST(NULL AS " + "ARRAY<" * 1_000 + "INT" + ">" * 1_000 + ")",
    "comments within": "/*" * (MAX_COMMENTS + 1) + "*/" * (MAX_COMMENTS + 1) + "SELECT 1",
    "UNION": "SELECT 1" + " UNION ALL SELECT 1" * 20_000,
    "parameter markers": "SELECT " + ":a, " * (MAX_MARKERS + 1),
}


@pytest.mark.parametrize("named", TOO_MUCH)
def test_sql_beyond_a_bound_is_refused_with_bound_and_remedy(named: str) -> None:
    with pytest.raises(StatementError) as refused:
        check_text(TOO_MUCH[named])
    error = refused.value.error
    assert error.reason is ErrorReason.LIMIT_EXCEEDED
    assert named in error.message
    assert "more than" in error.message
    assert "; " in error.message, "the remedy is missing"


@pytest.mark.parametrize(
    "piece", ["'", '"', "`", "/*", "*/", "--", "\\", "(", "r'", "'\\", "CASE ", "ARRAY<", "$$", "\n"]
)
def test_the_look_is_linear_whatever_the_text_is(piece: str) -> None:
    assert growth(lambda count: measure(piece * count), 10_000) < LINEAR
