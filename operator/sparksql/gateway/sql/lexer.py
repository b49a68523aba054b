"""Spark's own lexer, asked for the few tokens that matter: semicolons, the tokens around them, and `:name` markers.

A text of 256 KiB has tens of thousands of tokens and each look at one is a call to the JVM, so only tokens of a given type
are fetched. Offsets are code points, as in Python's strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from py4j.java_gateway import get_field

from sparksql.gateway.spark.shapes import Jvm
from sparksql.gateway.sql.script import Section, Token
from sparksql.gateway.sql.window_syntax import Word

_DEFAULT_CHANNEL = 0
_EOF = -1
# A token as ANTLR prints it, `[@3,7:11='TABLE',<350>,1:7]`: up to its text, and behind it.
_PRINTED = re.compile(r"\[@\d+,(\d+):(-?\d+)='")
_PRINTED_REST = re.compile(r"',<(-?\d+)>(,channel=\d+)?,\d+:\d+\](?:, )?")
_ESCAPED = re.compile(r"[\n\r\t]")  # printed as two characters each


class Lexed:
    """The tokens of one text."""

    def __init__(self, jvm: Jvm, sql: str) -> None:
        parser = jvm.org.apache.spark.sql.catalyst.parser
        antlr = jvm.org.antlr.v4.runtime
        self._sql = sql
        self._types = parser.SqlBaseLexer
        stream = parser.UpperCaseCharStream(antlr.CharStreams.fromString(sql))
        self._lexer = parser.SqlBaseLexer(stream)
        self._tokens = antlr.CommonTokenStream(self._lexer)
        self._tokens.fill()
        self._count = int(self._tokens.size())
        # By the settings of the thread's session, as the parser. The lexer makes one token of what it quotes in any case.
        self._quotes_names = '"' in sql and bool(
            jvm.org.apache.spark.sql.internal.SQLConf.get().doubleQuotedIdentifiers()
        )

    def sections(self) -> list[Section]:
        """Returns what lies between semicolons; the last section is the rest of the text.

        A comment without an end takes in all that follows. Where it stands alone it is a statement all the same, which Spark's
        parser refuses: what was meant to run behind it must not be left out without a word.
        """
        sections: list[Section] = []
        begin = 0
        for semicolon in self._of_type("SEMICOLON"):
            index = int(semicolon.getTokenIndex())
            sections.append(self._section(begin, index, int(semicolon.getStartIndex())))
            begin = index + 1
        rest = self._section(begin, self._count, len(self._sql))
        if rest.first is None and get_field(self._lexer, "has_unclosed_bracketed_comment"):
            comment = self._tokens.get(self._count - 2)  # the last one before EOF
            rest = Section(rest.end, Token(int(comment.getStartIndex()), "/*"))
        sections.append(rest)
        return sections

    def markers(self) -> list[tuple[int, str]]:
        """Returns the offsets and names of `:name` markers.

        A path into a VARIANT column (`v:name`) looks the same and is among them.
        """
        found: list[tuple[int, str]] = []
        for colon in self._of_type("COLON"):
            following = next(self._visible(range(int(colon.getTokenIndex()) + 1, self._count)), None)
            if following is not None:
                found.append((int(colon.getStartIndex()), self._named(self._text(following))))
        return found

    def words(self) -> list[Word]:
        """Returns all tokens but comments and blanks: the JVM prints them at once, where each would take five calls."""
        printed = str(self._tokens.getTokens().toString())
        found: list[Word] = []
        at = 1
        while begins := _PRINTED.match(printed, at):
            start, end = int(begins[1]), int(begins[2]) + 1
            text = self._sql[start:end]
            length = len(text) + len(_ESCAPED.findall(text)) if end > start else len("<EOF>")
            rest = _PRINTED_REST.match(printed, begins.end() + length)
            if rest is None:
                raise ValueError("ANTLR prints tokens in another way")
            if rest[2] is None and int(rest[1]) != _EOF:
                found.append(Word(start, end, self._named(text).upper()))
            at = rest.end()
        return found

    def has_any(self, *type_names: str) -> bool:
        """Returns whether any token has one of these types."""
        return any(True for name in type_names for _ in self._of_type(name))

    def _named(self, token: str) -> str:
        """A token's text, of a name in backquotes if it has double ones."""
        if not self._quotes_names or not token.startswith('"'):
            return token
        name = token[1:-1].replace('""', '"').replace("`", "``")
        return f"`{name}`"

    def _of_type(self, name: str) -> list[Any]:
        if self._count == 0:
            return []
        tokens = self._tokens.getTokens(0, self._count - 1, getattr(self._types, name))
        return [] if tokens is None else list(tokens)

    def _section(self, begin: int, end: int, end_offset: int) -> Section:
        first = next(self._visible(range(begin, end)), None)
        if first is None:
            return Section(end_offset, None)
        last: list[Token] = []
        for token in self._visible(range(end - 1, begin - 1, -1)):
            last.append(Token(int(token.getStartIndex()), self._text(token).upper()))
            if len(last) == 2:
                break
        return Section(end_offset, Token(int(first.getStartIndex()), self._text(first).upper()), tuple(last))

    def _visible(self, indices: range) -> Iterator[Any]:
        for index in indices:
            token = self._tokens.get(index)
            if token.getChannel() == _DEFAULT_CHANNEL and token.getType() != _EOF:
                yield token

    def _text(self, token: Any) -> str:
        return self._sql[int(token.getStartIndex()) : int(token.getStopIndex()) + 1]
