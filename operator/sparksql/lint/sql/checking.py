"""Checks SQL beside the other checks, where Java and Spark are installed; a note names the reason where it did not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparksql.lint.check import kept
from sparksql.lint.findings import Finding
from sparksql.lint.sql.sources import SqlText

_REMEDY = "install Java 17 or later and the extra `local` of spark-sql-operator, which has Spark's parser"


def check_sql(texts: Sequence[SqlText], others: Callable[[], list[Finding]]) -> tuple[list[Finding], list[str]]:
    """Returns the findings of texts and of the other checks, which are done while Spark starts, and notes."""
    if not texts:
        return others(), []
    try:
        from sparksql.lint.sql import spark
    except ImportError as missing:
        return others(), [f"SQL was not checked: {missing}; {_REMEDY}"]
    findings: list[Finding] | None = None
    try:
        with spark.started() as jvm:
            findings = others()
            found = spark.findings(texts, jvm)
    except spark.UNUSABLE as error:
        words = str(error).strip().splitlines()
        return others() if findings is None else findings, [
            f"SQL was not checked: {words[0] if words else type(error).__name__}; {_REMEDY}"
        ]
    for text, finding in found:
        findings += kept((finding,), text.user, text.holder)
    return findings, []
