"""A version of a table for each row, as Spark's parser takes it, with the user's positions kept."""

from __future__ import annotations

import pytest

from sparksql.gateway.sql.version_syntax import may_join_versions, version_edits
from sparksql.gateway.sql.window_syntax import with_edits

from .test_window_syntax import words

JOIN = "FROM STREAM o JOIN t {} AS c ON o.k = c.k"
TEXTS = {
    "Flink's words": ("FOR SYSTEM_TIME AS OF o.ts", "FOR SYSTEM_TIME AS OF 'column o.ts'"),
    "Spark's words": ("timestamp as of Ts", "timestamp as of 'column Ts'"),
    "quoted": ("FOR SYSTEM_TIME AS OF a.o.`my ts`", "FOR SYSTEM_TIME AS OF 'column a.o.`my ts`'"),
    "a time": ("TIMESTAMP AS OF '2026-01-01'", "TIMESTAMP AS OF '2026-01-01'"),
    "a typed time": ("TIMESTAMP AS OF TIMESTAMP '2026-01-01'", "TIMESTAMP AS OF TIMESTAMP '2026-01-01'"),
    "now": ("TIMESTAMP AS OF current_timestamp", "TIMESTAMP AS OF current_timestamp"),
    "a call": ("TIMESTAMP AS OF now()", "TIMESTAMP AS OF now()"),
    "computed": ("TIMESTAMP AS OF o.ts + INTERVAL 1 DAY", "TIMESTAMP AS OF o.ts + INTERVAL 1 DAY"),
    "an operator": ("TIMESTAMP AS OF o.ts | 1", "TIMESTAMP AS OF o.ts | 1"),
    "a shift": ("TIMESTAMP AS OF o.ts >> 1", "TIMESTAMP AS OF o.ts >> 1"),
    "a word of an operator": ("TIMESTAMP AS OF o.ts DIV 2", "TIMESTAMP AS OF o.ts DIV 2"),
    "without an alias": ("TIMESTAMP AS OF o.ts)", "TIMESTAMP AS OF 'column o.ts')"),
    "a quote in the name": ("TIMESTAMP AS OF o.`t's`", "TIMESTAMP AS OF o.`t's`"),
    "a number": ("VERSION AS OF v", "VERSION AS OF v"),
}


@pytest.mark.parametrize(("written", "read"), TEXTS.values(), ids=TEXTS)
def test_a_column_behind_as_of_becomes_a_text_and_nothing_else_does(written: str, read: str) -> None:
    text = JOIN.format(written)
    edited = with_edits(text, version_edits(text, words(text)))
    assert edited.text == JOIN.format(read)
    assert edited.original(edited.text.index(" ON ")) == text.index(" ON ")


def test_texts_without_a_stream_or_a_version_are_left_alone() -> None:
    assert may_join_versions(JOIN.format("FOR system_time AS OF o.ts"))
    assert not may_join_versions("FROM o JOIN t FOR SYSTEM_TIME AS OF o.ts AS c ON o.k = c.k")
    assert not may_join_versions("FROM STREAM o JOIN t AS c ON o.k = c.k")
