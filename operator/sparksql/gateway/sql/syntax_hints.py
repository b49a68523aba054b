"""What to do about a text that is no Spark SQL: the keyword that was meant, or that it is another language. Pure.

A hint is for people and decides nothing, so its keywords need not be all that Spark has.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

FIRST = (
    "ADD", "ALTER", "ANALYZE", "BEGIN", "CACHE", "CALL", "CLEAR", "COMMENT", "CREATE", "DECLARE", "DELETE", "DESC",
    "DESCRIBE", "DROP", "EXECUTE", "EXPLAIN", "FROM", "INSERT", "LIST", "LOAD", "MERGE", "MSCK", "REFRESH", "REPAIR",
    "REPLACE", "RESET", "SELECT", "SET", "SHOW", "TABLE", "TRUNCATE", "UNCACHE", "UPDATE", "USE", "VALUES", "WITH",
)  # fmt: skip
INNER = (
    "AND", "AS", "BETWEEN", "BY", "CASE", "CROSS", "DATABASE", "DISTINCT", "ELSE", "END", "EXISTS", "FROM", "FULL",
    "FUNCTION", "GROUP", "HAVING", "INNER", "INSERT", "INTO", "JOIN", "LATERAL", "LEFT", "LIKE", "LIMIT", "MATCHED", "NOT",
    "NULL", "OFFSET", "ON", "OR", "ORDER", "OUTER", "OVER", "OVERWRITE", "PARTITION", "PARTITIONED", "QUALIFY", "REPLACE",
    "RIGHT", "SELECT", "SET", "TABLE", "TABLESAMPLE", "TEMPORARY", "THEN", "UNION", "UPDATE", "USING", "VALUES", "VIEW",
    "WHEN", "WHERE", "WINDOW", "WITH",
)  # fmt: skip
TEMPLATE = "templates are not filled in here: write the SQL itself, with :name for each of spec.parameters"
OTHER_LANGUAGE = "this is not Spark SQL: a statement begins with a keyword such as SELECT, INSERT or CREATE"
_TEMPLATES = ("{{", "{%", "{#")
_WORD = re.compile(r"[A-Za-z_]{1,30}+")
_WORD_BEFORE_CHARS = 40
_LIKENESS = 0.7


def syntax_hint(text: str, at: int) -> str:
    """Returns what to do about a statement that Spark cannot parse at a place; empty where nothing is known."""
    if text.startswith(_TEMPLATES, at):
        return TEMPLATE
    here = _WORD.match(text, at)
    if here is not None and not text[:at].strip():  # Spark does not know the first word, extensions included
        near = _near(here[0], FIRST)
        return "" if here[0].upper() in FIRST else f"did you mean {near}?" if near else OTHER_LANGUAGE
    first = _WORD.match(text.lstrip())
    if first is not None and first[0].upper() not in FIRST:  # a statement of an extension, with keywords of its own
        return ""
    before = text[max(0, at - _WORD_BEFORE_CHARS) : at].split()
    for word in (*([here[0]] if here is not None else []), *before[-1:]):
        near = _near(word, INNER)
        if near and word.upper() not in FIRST:
            return f"did you mean {near}?"
    return ""


def _near(word: str, keywords: tuple[str, ...]) -> str:
    """The keyword that a word resembles; empty for one that is a keyword, or that resembles none."""
    known = word.upper()
    found = get_close_matches(known, keywords, 1, _LIKENESS)
    return "" if not found or found[0] == known else found[0]
