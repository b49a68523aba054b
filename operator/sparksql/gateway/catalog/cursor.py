"""What a cursor in an SQL text asks for: a table, a schema, something of an expression, or a keyword. Pure.

A text that is being typed does not parse, so the tokens before the cursor decide: the last word or sign tells what follows it,
and the names after FROM, JOIN and the like, on both sides of the cursor, tell whose columns may be meant. A wrong guess costs
a candidate too many or too few, never more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

MAX_TABLES = 16  # whose columns are looked up


class CursorPlace(Enum):
    """Names the kinds of words that can stand at the cursor."""

    NOTHING = auto()  # inside a literal, a comment, or after something that has no name
    KEYWORD = auto()
    RELATION = auto()
    NAMESPACE = auto()
    EXPRESSION = auto()


@dataclass(frozen=True)
class Table:
    """A table that the statement names, and what it calls it."""

    parts: tuple[str, ...]
    alias: str | None = None

    def is_called(self, qualifier: tuple[str, ...]) -> bool:
        """Returns whether `qualifier.column` can be one of its columns."""
        wanted = tuple(part.lower() for part in qualifier)
        if self.alias is not None:
            return wanted == (self.alias.lower(),)
        return wanted == tuple(part.lower() for part in self.parts)[-len(wanted) :]


@dataclass(frozen=True)
class Wish:
    """Describes what is wanted at the cursor. A candidate stands for all of `qualifier.prefix` and begins with `typed`."""

    place: CursorPlace
    qualifier: tuple[str, ...] = ()
    prefix: str = ""
    typed: str = ""
    """The qualifier as it stands in the text, with its last dot."""
    is_quoted: bool = False
    tables: tuple[Table, ...] = ()
    named_queries: tuple[str, ...] = ()


class TokenKind(Enum):
    """Kinds of tokens that make a difference here."""

    WORD = auto()
    QUOTED = auto()
    SIGN = auto()
    LITERAL = auto()
    COMMENT = auto()


@dataclass(frozen=True)
class CursorToken:
    """A token of the text. `is_open` says that what is typed at its end belongs to it, as after a quote without its pair."""

    kind: TokenKind
    text: str = field(repr=False)
    start: int
    is_open: bool = False

    @property
    def end(self) -> int:
        """Returns the offset behind the token's last character."""
        return self.start + len(self.text)

    @property
    def upper(self) -> str:
        """Returns a word in capitals, any other token as it is."""
        return self.text.upper() if self.kind is TokenKind.WORD else self.text

    @property
    def is_name(self) -> bool:
        """Returns whether the token may be an identifier."""
        return self.kind in (TokenKind.WORD, TokenKind.QUOTED)

    @property
    def name(self) -> str:
        """Returns the name without its backticks."""
        if self.kind is not TokenKind.QUOTED:
            return self.text
        return (self.text[1:] if self.is_open else self.text[1:-1]).replace("``", "`")


_TOKEN = re.compile(
    r"""(?P<space>\s++)
    | (?P<line>--[^\n]*+)
    | (?P<block>/\*)
    | (?P<literal>[rR]'[^']*+(?P<c1>'?) | [rR]"[^"]*+(?P<c2>"?)
        | '(?:[^'\\]|\\.|'')*+(?P<c3>'?) | "(?:[^"\\]|\\.|"")*+(?P<c4>"?))
    | (?P<quoted>`(?:[^`]|``)*+(?P<c5>`?))
    | (?P<word>[^\W\d]\w*+)
    | (?P<number>\d[\w]*+)
    | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


def tokens(text: str) -> Iterator[CursorToken]:
    """Returns the tokens of a text, without blanks."""
    position = 0
    while found := _TOKEN.match(text, position):
        position = found.end()
        match found.lastgroup:
            case "space":
                continue
            case "block":
                position, is_open = _end_of_comment(text, position)
                yield CursorToken(TokenKind.COMMENT, text[found.start() : position], found.start(), is_open)
            case "line":
                yield CursorToken(TokenKind.COMMENT, found[0], found.start(), True)
            case "word":
                yield CursorToken(TokenKind.WORD, found[0], found.start())
            case "quoted":
                yield CursorToken(TokenKind.QUOTED, found[0], found.start(), not found["c5"])
            case "sign":
                yield CursorToken(TokenKind.SIGN, found[0], found.start())
            case "number":  # open: what is typed at its end belongs to it
                yield CursorToken(TokenKind.LITERAL, found[0], found.start(), True)
            case _:
                is_closed = any(found[group] for group in ("c1", "c2", "c3", "c4"))
                yield CursorToken(TokenKind.LITERAL, found[0], found.start(), not is_closed)


def _end_of_comment(text: str, position: int) -> tuple[int, bool]:
    """End of a bracketed comment whose beginning ends here (they nest), and whether it is open."""
    depth = 1
    while edge := _COMMENT_EDGE.search(text, position):
        position = edge.end()
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return position, False
    return len(text), True


def read_cursor(text: str, position: int) -> Wish:
    """Returns what is wanted at an offset (in code points; one outside the text is moved to its ends)."""
    cursor = min(max(position, 0), len(text))
    statement = _statement(list(tokens(text)), cursor)
    if any(token.kind in (TokenKind.LITERAL, TokenKind.COMMENT) and _holds(token, cursor) for token in statement):
        return Wish(CursorPlace.NOTHING)
    visible = [token for token in statement if token.kind is not TokenKind.COMMENT]
    before = [token for token in visible if token.start < cursor]
    typed = _typed_name(before, cursor)
    if typed is None:
        return Wish(CursorPlace.NOTHING)
    qualifier, partial = typed
    context = before[: len(before) - 2 * len(qualifier) - (partial is not None)]
    return Wish(
        place=_place(context),
        qualifier=tuple(token.name for token in qualifier),
        prefix="" if partial is None else _cut(partial, cursor).name,
        typed="".join(f"{token.text}." for token in qualifier),
        is_quoted=partial is not None and partial.kind is TokenKind.QUOTED,
        tables=_tables(visible),
        named_queries=_named_queries(visible),
    )


def _statement(found: Sequence[CursorToken], cursor: int) -> list[CursorToken]:
    """Tokens of the statement that the cursor is in; semicolons inside a block end one too."""
    statement: list[CursorToken] = []
    for token in found:
        if token.kind is TokenKind.SIGN and token.text == ";":
            if token.start >= cursor:
                break
            statement = []
        else:
            statement.append(token)
    return statement


def _holds(token: CursorToken, cursor: int) -> bool:
    return token.start < cursor < token.end or (token.is_open and cursor == token.end)


def _cut(token: CursorToken, cursor: int) -> CursorToken:
    """The part of a name before the cursor; without its last backtick, a quoted one is open."""
    text = token.text[: cursor - token.start]
    return CursorToken(token.kind, text, token.start, token.is_open or len(text) < len(token.text))


def _typed_name(before: Sequence[CursorToken], cursor: int) -> tuple[list[CursorToken], CursorToken | None] | None:
    """The name that ends at the cursor: its qualifier, and what is there of its last part. None if none can stand here."""
    remaining = list(before)
    partial: CursorToken | None = None
    begin = cursor
    if remaining and remaining[-1].is_name and remaining[-1].end >= cursor:
        partial = remaining.pop()
        begin = partial.start
        if partial.kind is TokenKind.QUOTED and not partial.is_open and partial.end == cursor:
            return None
    qualifier: list[CursorToken] = []
    while remaining and remaining[-1].text == "." and remaining[-1].end == begin:
        dot = remaining.pop()
        if not remaining or not remaining[-1].is_name or remaining[-1].end != dot.start:
            return None
        qualifier.append(remaining.pop())
        begin = qualifier[-1].start
    return qualifier[::-1], partial


_RELATION_WORDS = frozenset({"FROM", "JOIN", "INTO", "TABLE", "OVERWRITE", "UPDATE", "VIEW"})
_NAMESPACE_WORDS = frozenset({"USE", "SCHEMA", "DATABASE", "NAMESPACE", "CATALOG"})
# fmt: off
_EXPRESSION_WORDS = frozenset({
    "SELECT", "DISTINCT", "WHERE", "ON", "BY", "HAVING", "AND", "OR", "NOT", "WHEN", "THEN", "ELSE", "CASE", "SET",
    "BETWEEN", "LIKE", "ILIKE", "RLIKE", "QUALIFY", "FUNCTION", "CALL", "EXECUTE", "RETURN", "IF", "WHILE", "UNTIL",
})
# fmt: on
# Words of lists: a comma asks for the same again.
_LIST_WORDS = frozenset({"FROM", "JOIN", "SELECT", "BY", "SET", "TABLE", "VALUES", "WHERE", "ON", "HAVING", "USE"})


def _place(context: Sequence[CursorToken]) -> CursorPlace:
    """What can stand after these tokens."""
    words = [token.upper for token in context]
    while words[-1:] == ["EXISTS"] and "IF" in words[-3:-1]:  # DROP TABLE IF EXISTS name
        del words[-2 if words[-2] == "IF" else -3 :]
    if not words:
        return CursorPlace.KEYWORD
    last = words[-1]
    if words[0] == "SHOW" and last in ("IN", "FROM"):
        return CursorPlace.RELATION if words[1] in ("COLUMNS", "PARTITIONS") else CursorPlace.NAMESPACE
    if words[0] in ("DESCRIBE", "DESC") and last in ("DESCRIBE", "DESC", "EXTENDED", "FORMATTED"):
        return CursorPlace.RELATION
    if words[0] == "MERGE" and last == "USING":
        return CursorPlace.RELATION
    if last in _RELATION_WORDS:
        return CursorPlace.RELATION
    if last in _NAMESPACE_WORDS:
        return CursorPlace.NAMESPACE
    if last == ":":  # a parameter's name, or a path into a value
        return CursorPlace.NOTHING
    if last == ",":
        return _place_in_list(words)
    if last == "*" and words[-2:-1] and words[-2] in ("SELECT", "DISTINCT", "ALL", ",", "."):
        return CursorPlace.KEYWORD
    if last in _EXPRESSION_WORDS or last in _OPENING_SIGNS:
        return CursorPlace.EXPRESSION
    return CursorPlace.KEYWORD


_OPENING_SIGNS = frozenset("(=<>+-*/%|&^~![{")


def _place_in_list(words: Sequence[str]) -> CursorPlace:
    """What the comma at the end separates: tables of a FROM, or expressions."""
    depth = 0
    for word in reversed(words):
        if word == ")":
            depth += 1
        elif word == "(":
            if depth == 0:
                return CursorPlace.EXPRESSION
            depth -= 1
        elif depth == 0 and word in _LIST_WORDS:
            return CursorPlace.RELATION if word == "FROM" else CursorPlace.EXPRESSION
    return CursorPlace.EXPRESSION


_TABLE_WORDS = frozenset({"FROM", "JOIN", "INTO", "UPDATE", "TABLE", "OVERWRITE", "USING"})
# Words after a table's name that are no alias.
# fmt: off
_NO_ALIAS = frozenset({
    "ANTI", "AS", "BY", "CLUSTER", "CROSS", "DISTRIBUTE", "EXCEPT", "FOR", "FROM", "FULL", "GROUP", "HAVING", "INNER",
    "INTERSECT", "JOIN", "LATERAL", "LEFT", "LIMIT", "MINUS", "NATURAL", "OFFSET", "ON", "OPTIONS", "ORDER",
    "OUTER", "PARTITION", "PIVOT", "QUALIFY", "REPLACE", "RIGHT", "SELECT", "SEMI", "SET", "SORT", "TABLESAMPLE",
    "UNION", "UNPIVOT", "USING", "VALUES", "VERSION", "WHEN", "WHERE", "WINDOW", "WITH",
})
# fmt: on


def _tables(statement: Sequence[CursorToken]) -> tuple[Table, ...]:
    """Tables that the statement names, the first MAX_TABLES."""
    found: dict[Table, None] = {}
    position = 0
    while position < len(statement) and len(found) < MAX_TABLES:
        word = statement[position].upper
        position += 1
        if word not in _TABLE_WORDS:
            continue
        table, position = _table(statement, position)
        while table is not None:
            found[table] = None
            if word != "FROM" or position >= len(statement) or statement[position].text != ",":
                break
            table, position = _table(statement, position + 1)
    return tuple(found)[:MAX_TABLES]


def _table(statement: Sequence[CursorToken], index: int) -> tuple[Table | None, int]:
    """The table whose name begins at this token, and the index after its alias."""
    parts: list[str] = []
    while index < len(statement) and statement[index].is_name and statement[index].upper not in _NO_ALIAS:
        parts.append(statement[index].name)
        index += 1
        if index >= len(statement) or statement[index].text != ".":
            break
        index += 1
    if not parts:
        return None, index
    if index < len(statement) and statement[index].upper == "AS":
        index += 1
    alias = None
    if index < len(statement) and statement[index].is_name and statement[index].upper not in _NO_ALIAS:
        alias = statement[index].name
        index += 1
    return Table(tuple(parts), alias), index


def _named_queries(statement: Sequence[CursorToken]) -> tuple[str, ...]:
    """Names that a WITH gives: those before `AS (`."""
    if all(token.upper != "WITH" for token in statement):
        return ()
    triples = zip(statement, statement[1:], statement[2:], strict=False)
    return tuple(name.name for name, word, sign in triples if name.is_name and word.upper == "AS" and sign.text == "(")
