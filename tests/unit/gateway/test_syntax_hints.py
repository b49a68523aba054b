"""Remedies for texts that are no Spark SQL."""

from __future__ import annotations

import pytest

from sparksql.gateway.sql.syntax_hints import OTHER_LANGUAGE, TEMPLATE, syntax_hint


@pytest.mark.parametrize(
    ("marked", "hint"),
    [
        ("¦SELCT 2", "did you mean SELECT?"),
        ("  ¦INSRET INTO t VALUES (1)", "did you mean INSERT?"),
        ("CREATE ¦TABEL t (id INT)", "did you mean TABLE?"),
        ("SELECT * ¦FORM t", "did you mean FROM?"),
        ("SELECT 1 FROM t GRUOP ¦BY id", "did you mean GROUP?"),
        ("¦df = spark.read.table('t')", OTHER_LANGUAGE),
        ("¦import os", OTHER_LANGUAGE),
        ("SELECT ¦{{ ref('a') }}", TEMPLATE),
        ("¦{% set a = 1 %}", TEMPLATE),
        ("OPTIMIZE t ¦ZORDR BY id", ""),
        ("SELECT 1 ¦)", ""),
        ("SELECT (1 FROM¦", ""),
        ("¦", ""),
    ],
)
def test_text_that_cannot_be_parsed_has_a_remedy_where_one_is_known(marked: str, hint: str) -> None:
    at = marked.index("¦")
    assert syntax_hint(marked.replace("¦", ""), at) == hint
