"""Completes an SQL text that is being typed: what its cursor asks for, looked up in the client's session.

A candidate replaces the whole dotted name before the cursor. Each look costs a few calls to the JVM: names are listed one
namespace at a time, without metadata, and columns are asked for only of tables that the statement names.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial

from sparksql.gateway.catalog.catalog import Catalog
from sparksql.gateway.catalog.cursor import CursorPlace, Table, Wish, read_cursor
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.jackson import read_json
from sparksql.gateway.spark.shapes import JvmSession
from sparksql.gateway.sql.errors import name_of
from sparksql.gateway.sql.window_syntax import FUNCTIONS, WINDOW_COLUMNS, may_call

MAX_CANDIDATES = 500
# Tokens of SqlBaseLexer.g4 that can be written in two ways; Spark's own list leaves them out.
_TWO_SPELLINGS = ("RLIKE", "REGEXP", "TEMPORARY", "TEMP")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

log = logging.getLogger(__name__)


def complete(driver: SparkDriver, session: JvmSession, text: str, position: int) -> list[str]:
    """Returns the candidates at an offset of a text (in code points), the likeliest kind first. Blocks.

    There are at most MAX_CANDIDATES.
    """
    wish = read_cursor(text, position)
    if wish.place is CursorPlace.NOTHING:
        return []
    names = _Names(Catalog(driver, session), wish, WINDOW_COLUMNS if may_call(text) else ())
    match wish.place:
        case CursorPlace.RELATION:
            looks = [names.relations, names.namespaces]
        case CursorPlace.NAMESPACE:
            looks = [names.namespaces]
        case CursorPlace.EXPRESSION:
            looks = [names.columns, names.functions]
        case CursorPlace.KEYWORD:  # no keyword has a dot: a name that the words before it do not explain
            looks = [names.columns, names.relations, names.namespaces] if wish.qualifier else []
    candidates = [candidate for look in looks for candidate in arrange(wish, _found(look))]
    if not wish.qualifier and not wish.is_quoted and (wish.prefix or wish.place is CursorPlace.KEYWORD):
        candidates.extend(word for word in _keywords(driver) if word.startswith(wish.prefix.upper()))
    return list(dict.fromkeys(candidates))[:MAX_CANDIDATES]


def arrange(wish: Wish, names: Iterable[str]) -> list[str]:
    """Returns, in order and as they are to be written, those of the names that begin with what was typed."""
    prefix = wish.prefix.lower()
    fitting = sorted({name for name in names if name.lower().startswith(prefix)}, key=lambda name: (name.lower(), name))
    return [wish.typed + _written(name, wish.is_quoted) for name in fitting]


def _written(name: str, is_quoted: bool) -> str:
    if is_quoted or _PLAIN_NAME.fullmatch(name) is None:
        return "`" + name.replace("`", "``") + "`"
    return name


@lru_cache(maxsize=1)
def _keywords(driver: SparkDriver) -> tuple[str, ...]:
    """Words of Spark's grammar, and those of window table functions, in order."""
    words = read_json(driver, driver.jvm.org.apache.spark.sql.catalyst.util.SQLKeywordUtils.keywords())
    return tuple(sorted({*words, *_TWO_SPELLINGS, *FUNCTIONS, "DESCRIPTOR"}))


class _Names:
    """Names that can stand after the qualifier of a wish."""

    def __init__(self, catalog: Catalog, wish: Wish, further_columns: tuple[str, ...]) -> None:
        self._catalog = catalog
        self._wish = wish
        self._further_columns = further_columns

    def relations(self) -> Iterator[str]:
        if not self._wish.qualifier:
            yield from self._wish.named_queries
        yield from self._catalog.table_names(self._wish.qualifier)

    def namespaces(self) -> Iterator[str]:
        """Schemas right below the qualifier; without one also catalogs."""
        yield from self._catalog.names_below(self._wish.qualifier)
        if not self._wish.qualifier:
            yield from self._catalog.catalogs()

    def columns(self) -> Iterator[str]:
        """Columns of the tables in scope; without a qualifier also what these are called, and columns of windows."""
        if not self._wish.qualifier:
            yield from self._further_columns
        for table in self._wish.tables:
            if not self._wish.qualifier:
                yield table.alias or table.parts[-1]
            if not self._wish.qualifier or table.is_called(self._wish.qualifier):
                yield from _found(partial(self._column_names, table))

    def functions(self) -> Iterator[str]:
        if not self._wish.qualifier:
            yield from (name for name in self._catalog.function_names() if _PLAIN_NAME.fullmatch(name))

    def _column_names(self, table: Table) -> list[str]:
        return self._catalog.column_names(table.parts)


def _found(look: Callable[[], Iterable[str]]) -> list[str]:
    """What a look finds; nothing where Spark cannot tell, as for a table that is not there yet."""
    try:
        return list(look())
    except Exception as exception:
        log.info("completion failed: %s", name_of(exception))
        return []
