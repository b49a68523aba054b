"""Texts with window table functions as Spark's parser takes them, with the user's positions kept."""

from __future__ import annotations

import re

import pytest

from sparksql.gateway.sql.window_syntax import Word, edited, may_call

TOKEN = re.compile(r"`[^`]*`|'[^']*'|=>|\w+|[^\s\w]")


def words(text: str) -> list[Word]:
    return [Word(found.start(), found.end(), found[0].upper()) for found in TOKEN.finditer(text)]


TEXTS = {
    "Spark's form": ("FROM TUMBLE(TABLE(t), DESCRIPTOR(ts), x)", "FROM TUMBLE(TABLE(t), DESCRIPTOR(ts), x)"),
    "outer TABLE": ("FROM TABLE(TUMBLE(TABLE(t), x)) AS w", "FROM      (TUMBLE(TABLE(t), x)) AS w"),
    "bare name": ("FROM TUMBLE(TABLE a.`b c`, x)", "FROM TUMBLE(TABLE (a.`b c`), x)"),
    "computed name": ("FROM HOP(TABLE IDENTIFIER('a' || 'b'), x)", "FROM HOP(TABLE (IDENTIFIER('a' || 'b')), x)"),
    "named": ("FROM hop(DATA => TABLE t, TIMECOL => x)", "FROM hop(DATA => TABLE (t), TIMECOL => x)"),
    "stream": (
        "FROM HOP(TABLE STREAM s WATERMARK ts DELAY OF i, x)",
        "FROM HOP(TABLE (FROM STREAM s WATERMARK ts DELAY OF i), x)",
    ),
    "stream in parentheses": ("FROM HOP(TABLE(STREAM s), x)", "FROM HOP(TABLE(FROM STREAM s), x)"),
    "table called stream": ("FROM HOP(TABLE stream, x)", "FROM HOP(TABLE (stream), x)"),
    "function of a function": (
        "FROM HOP(TABLE(TUMBLE(TABLE t, x)), y)",
        "FROM HOP(TABLE(FROM TUMBLE(TABLE (t), x)), y)",
    ),
    "partition": (
        "FROM SESSION(TABLE t PARTITION BY a, b, DESCRIPTOR(ts), g)",
        "FROM SESSION(TABLE (t) PARTITION BY (a, b), DESCRIPTOR(ts), g)",
    ),
    "partition before a name": (
        "FROM SESSION(DATA => TABLE t PARTITION BY a, TIMECOL => x)",
        "FROM SESSION(DATA => TABLE (t) PARTITION BY (a), TIMECOL => x)",
    ),
    "partition in parentheses": (
        "FROM SESSION(TABLE(t) PARTITION BY (a, b), DESCRIPTOR(ts), g)",
        "FROM SESSION(TABLE(t) PARTITION BY (a, b), DESCRIPTOR(ts), g)",
    ),
    "OVER in the table": (
        "FROM HOP(TABLE(SELECT rank() OVER (PARTITION BY a) FROM t), x)",
        "FROM HOP(TABLE(SELECT rank() OVER (PARTITION BY a) FROM t), x)",
    ),
    "of a schema": ("FROM my.TUMBLE(TABLE t, x)", "FROM my.TUMBLE(TABLE t, x)"),
    "in a literal": ("SELECT 'TUMBLE(TABLE t)'", "SELECT 'TUMBLE(TABLE t)'"),
    "cut off": ("FROM TABLE(TUMBLE(TABLE", "FROM      (TUMBLE(TABLE"),
    "another TABLE": ("TABLE t UNION SELECT * FROM range(3)", "TABLE t UNION SELECT * FROM range(3)"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_edited_to_what_spark_parses_and_keeps_its_positions(name: str) -> None:
    text, expected = TEXTS[name]
    made = edited(text, words(text))
    assert made.text == expected
    for at, character in enumerate(made.text):
        before = made.original(at)
        assert 0 <= before <= len(text)
        if character.isalnum() and not any(edit.text and character in edit.text for edit in made.edits):
            assert text[before] == character, (at, before)
    assert made.original(len(made.text)) == len(text)


def test_names_of_the_functions_are_seen_as_words_alone() -> None:
    assert may_call("select * from Tumble (table t)") and may_call("`HOP`(x)")
    assert not may_call("SELECT session_window(ts, 'x'), hops FROM tumbler")
