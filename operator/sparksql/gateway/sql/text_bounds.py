"""Bounds on a text before Spark reads it: its tokens, how deeply it is nested, what Spark reads one by one. Pure.

Spark's parser takes as long as it likes: it looks at no interrupt, looks ahead over whole texts, and goes down its thread's
stack for each level. So what no statement needs is refused by one linear look. The look knows quotes, comments and words
and no grammar; where it is mistaken, the time that a text may take to be read (see `readers`) is the bound that remains.

What Spark 4.1 took to read and, where it came so far, to analyse texts of one shape, on two busy cores:

| bound | near the bound, or below it | above it |
|---|---|---|
| tokens | 60,000 in one IN list: 0.7 s | |
| nesting, 256 | 200 CASE: 3 s, STRUCT types: 4 s, lambdas: 4 s | 1,000 CASE: 8 s, types: 15 s; 5,000 of either: beyond 20 s |
| comments, 16 | 50 in each other: 0.7 s | 200, which are 809 characters: 7 s |
| set operations, 1,000 | 500 UNION ALL: 0.4 s | beyond the stack of the analysis, soon of the parser |
| markers, 2,000 | | each is several calls to the JVM, in which 60,000 took minutes |
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparksql.gateway.sql.errors import StatementError, refusal
from sparksql.wire.control import ErrorReason

MAX_TOKENS = 500_000  # an IN list of 100,000 values has 200,000
MAX_NESTING = 256
MAX_COMMENTS = 16  # within each other
MAX_SET_OPERATIONS = 1_000
MAX_MARKERS = 2_000
MAX_PARAMETERS = 64  # as many as spec.parameters of a SqlStatement takes

# As SqlBaseLexer.g4 has them. Possessive throughout: each character is looked at once. A quote or comment without an end
# goes to the end of the text.
_TOKEN = re.compile(
    r"""(?P<blank>\s++|--(?:\\\n|[^\r\n])*+)
    |(?P<comment>/\*(?!\+))
    |(?P<quoted>[rR]'[^']*+(?:'|\Z)|[rR]"[^"]*+(?:"|\Z)
        |'(?:[^'\\]|\\.|'')*+(?:'|\\?\Z)|"(?:[^"\\]|\\.|"")*+(?:"|\\?\Z)|`(?:[^`]|``)*+(?:`|\Z))
    |(?P<type>(?:ARRAY|MAP|STRUCT)\s*+<)
    |(?P<word>\w++)
    |(?P<cast>::)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_SET_OPERATORS = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS"})


@dataclass
class Extent:
    """Measures what a text asks of whoever reads it.

    `nesting` is of parentheses, brackets, types, CASE and blocks, `comments` of comments.
    """

    tokens: int = 0
    nesting: int = 0
    comments: int = 0
    set_operations: int = 0
    markers: int = 0


def measure(sql: str) -> Extent:
    """Returns the extent of a text; the look ends once one of the bounds is passed."""
    extent = Extent()
    position = brackets = types = words = 0
    while position < len(sql):
        match = _TOKEN.match(sql, position)
        if match is None or _is_too_much(extent):
            break
        position = match.end()
        match match.lastgroup:
            case "blank":
                continue
            case "comment":
                position, depth = _past_comment(sql, position)
                extent.comments = max(extent.comments, depth)
                continue
            case "type":
                types += 1
            case "word":
                word = match.group().upper()
                words = _blocks(words, word)
                extent.set_operations += word in _SET_OPERATORS
            case "other":
                match match.group():
                    case "(" | "[":
                        brackets += 1
                    case ")" | "]":
                        brackets = max(0, brackets - 1)
                    case ">":
                        types = max(0, types - 1)
                    case ":" | "?":
                        extent.markers += types == 0  # else it stands between the name and the type of a field
                    case ";":  # none of these reaches over the end of a statement
                        brackets = types = 0
                    case _:
                        pass
            case _:
                pass
        extent.tokens += 1
        extent.nesting = max(extent.nesting, brackets + types + words)
    return extent


def check_text(sql: str) -> None:
    """Refuses a text that is larger than what is read. Raises StatementError that names the bound."""
    extent = measure(sql)
    if extent.tokens > MAX_TOKENS:
        raise _too_much(f"more than {MAX_TOKENS:,} words and signs", "put values into a table and join it")
    if extent.nesting > MAX_NESTING:
        what = f"more than {MAX_NESTING} levels of parentheses, CASE, types or blocks within each other"
        raise _too_much(what, "take inner parts into views or WITH queries")
    if extent.comments > MAX_COMMENTS:
        raise _too_much(f"more than {MAX_COMMENTS} comments within each other", "take them out")
    if extent.set_operations > MAX_SET_OPERATIONS:
        raise _too_much(
            f"more than {MAX_SET_OPERATIONS:,} UNION, EXCEPT and INTERSECT", "use VALUES, or several statements"
        )
    if extent.markers > MAX_MARKERS:
        raise _too_much(
            f"more than {MAX_MARKERS:,} colons and parameter markers", "put values into a table and join it"
        )


def check_parameters(count: int) -> None:
    """Raises StatementError for more parameters than a statement may have."""
    if count > MAX_PARAMETERS:
        raise _too_much(
            f"{count:,} parameters where {MAX_PARAMETERS} are allowed", "put values into a table and join it"
        )


def _blocks(depth: int, word: str) -> int:
    match word:
        case "CASE" | "BEGIN":
            return depth + 1
        case "END":
            return max(0, depth - 1)
        case _:
            return depth


def _is_too_much(extent: Extent) -> bool:
    return (
        extent.tokens > MAX_TOKENS
        or extent.nesting > MAX_NESTING
        or extent.comments > MAX_COMMENTS
        or extent.set_operations > MAX_SET_OPERATIONS
        or extent.markers > MAX_MARKERS
    )


def _past_comment(sql: str, position: int) -> tuple[int, int]:
    """Where a bracketed comment ends whose inside begins here, and how deeply comments are nested in it."""
    depth = deepest = 1
    while depth > 0:
        edge = _COMMENT_EDGE.search(sql, position)
        if edge is None:
            return len(sql), deepest
        depth += 1 if edge.group() == "/*" else -1
        deepest, position = max(deepest, depth), edge.end()
    return position, deepest


def _too_much(what: str, remedy: str) -> StatementError:
    return refusal(ErrorReason.LIMIT_EXCEEDED, f"the text has {what}, more than is read; {remedy}")
