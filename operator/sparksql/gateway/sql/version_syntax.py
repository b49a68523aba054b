"""A version of a table for each row, `FOR SYSTEM_TIME AS OF o.ts`, made one that Spark's parser takes.

Spark 4.1 parses these words, and refuses a time that is a column at once. It gets a text that no time can be: the column's name
behind a word of ours.

Pure: the tokens are given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sparksql.gateway.sql.window_syntax import Edit, Word

COLUMN = "column "
_AS_OF = re.compile(r"\b(?:SYSTEM_TIME|TIMESTAMP)\s+AS\s+OF\b", re.IGNORECASE)
_STREAM = re.compile(r"\bSTREAM\b", re.IGNORECASE)
_NAME = re.compile(r"[^\W\d]\w*|`[^'\\`]+`")
# What may follow a name that stands alone, beside another name or a keyword: all else makes it a part of an expression.
_ENDS = frozenset({"", ")", ",", ";", "|>"})
_OPERATORS = frozenset({"COLLATE", "DIV"})  # the words among the operators that a time may have
# Names that are a time, or a value, without parentheses.
_VALUES = frozenset({"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "NULL", "TRUE", "FALSE"})


def may_join_versions(text: str) -> bool:
    """Returns whether a text reads a STREAM, and may have a version of a table for each of its rows."""
    return _AS_OF.search(text) is not None and _STREAM.search(text) is not None


def version_edits(text: str, words: Sequence[Word]) -> Iterator[Edit]:
    """Yields what makes the columns behind AS OF texts. `words` are all tokens of the text."""
    for index in range(1, len(words) - 2):
        before, *as_of = (word.text for word in words[index - 1 : index + 2])
        if before not in ("SYSTEM_TIME", "TIMESTAMP") or as_of != ["AS", "OF"]:
            continue
        end = _end_of_name(words, index + 2)
        if end is not None:
            start, stop = words[index + 2].start, words[end - 1].end
            yield Edit(start, stop, f"'{COLUMN}{text[start:stop]}'")


def _end_of_name(words: Sequence[Word], first: int) -> int | None:
    """The index behind a name of one or several parts; None where something else stands."""
    at = first
    while at < len(words) and _NAME.fullmatch(words[at].text):
        if at + 1 < len(words) and words[at + 1].text == ".":
            at += 2
            continue
        is_value = at == first and words[at].text in _VALUES
        return None if is_value or not _ends(words[at + 1].text if at + 1 < len(words) else "") else at + 1
    return None


def _ends(following: str) -> bool:
    return following in _ENDS or (_NAME.fullmatch(following) is not None and following not in _OPERATORS)
