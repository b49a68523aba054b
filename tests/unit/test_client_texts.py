"""What reads a client's text takes time in proportion to it, whatever it is made of, and no nesting takes its stack."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from sparksql.api import conf_policy, gateway_settings
from sparksql.api.quantities import cpu_millis, memory_mib
from sparksql.domain.session.memory import pod_mib
from sparksql.front import naming
from sparksql.front.model import FrontError
from sparksql.front.rest import read_open
from sparksql.gateway.catalog.cursor import read_cursor
from sparksql.gateway.catalog.name_patterns import NamePattern
from sparksql.gateway.frontends.rest import types as rest_types
from sparksql.gateway.frontends.rest.models import BadBodyError, ExecuteStatementRequest, read_body
from sparksql.gateway.frontends.rest.routing import match_route
from sparksql.gateway.frontends.thrift.types import hive_type
from sparksql.gateway.results.types import quoted_name
from sparksql.gateway.sessions.flink_dialect import interpret
from sparksql.gateway.sql import kafka_options, source_options
from sparksql.gateway.sql.errors import StatementError, Thrown, bounded, clean_message, describe
from sparksql.gateway.sql.masking import Masker
from sparksql.gateway.sql.own_columns import in_words
from sparksql.gateway.sql.policy import check_key, check_uri
from sparksql.gateway.sql.script import Fragment, ScriptTooLongError, Section, Token, locate, split
from sparksql.gateway.sql.text_bounds import check_text
from sparksql.gateway.sql.version_syntax import may_join_versions, version_edits
from sparksql.gateway.sql.window_syntax import Word, edited, may_call
from sparksql.protocols.hiveserver2.codec import ProtocolError, Reader, Struct, TMessageType, header
from sparksql.protocols.hiveserver2.http import login_name, presented_token
from sparksql.protocols.hiveserver2.properties import read_configuration, use_statement
from sparksql.wire.control import OperationError
from sparksql.wire.driver import SqlPolicy
from sparksql.wire.front import read_user
from tests.support.patterns.attacks import growth

LENGTHS = (400, 8_000)
_WORD = re.compile(r"`[^`]*+`|'[^']*+'|=>|\w++|[^\s\w]")
_POLICY = SqlPolicy(conf_allow=("spark.sql.*", "*a*a*a*b", "my.*"), jar_prefixes=("s3a://jars/",), enforced_conf={})

# What a hostile text repeats: signs that open, close, quote, escape and separate, words that begin something, and what belongs to
# one of the readers.
UNITS = (
    *(
        "'",
        '"',
        "`",
        "\\",
        "''",
        "\\'",
        "(",
        ")",
        "[",
        "{",
        "}",
        "<",
        "/*",
        "*/",
        "--",
        "--\n",
        "\n",
        " ",
        "\t",
        "\x00",
    ),
    *(
        ".",
        "a.",
        "`a`.",
        "a",
        "A ",
        "1",
        "é",
        "\u200b",
        ";",
        ",",
        "a,",
        "a;",
        ":",
        "::",
        ":a",
        "?",
        "/",
        "//",
        "a/",
        "../",
    ),
    *("*", "a*", "%", "%25", "%2525", "_", "=", "a=b ", "=>", "&", "#", "@", "|", "~", "$", "-", "--a"),
    *("line 1", " line 1, pos 2", "; line 1", "(line 1, pos 2) ", "\n== SQL", "\tat ", "Caused by: "),
    *(
        "TABLE ",
        "TUMBLE(",
        "TUMBLE(TABLE STREAM a ",
        "TABLE STREAM a ",
        "PARTITION BY a ",
        "TABLE a, ",
        "DATA => TABLE STREAM a ",
    ),
    *(
        "IF EXISTS ",
        "CASE ",
        "BEGIN ",
        "END;",
        "FROM a, ",
        "WITH a AS (",
        "TIMESTAMP AS OF ",
        "AS OF a.",
        "SET ",
        "STREAM ",
    ),
    *(
        "struct<a:",
        "array<",
        "map<string,",
        "decimal(1,",
        "ARRAY<",
        '{"a":',
        "[1,",
        '"a",',
        "spark.sql.",
        "spark.hadoop.",
        "key",
    ),
    *("ab", "ba", "compat/", "v1/", "__key_", "username=a ", 'username="a" ', "Basic ", "set:hiveconf:"),
)


def _words(text: str) -> list[Word]:
    return [Word(found.start(), found.end(), found[0].upper()) for found in _WORD.finditer(text)]


def _sections(text: str) -> list[Section]:
    """A section for each semicolon, as if the text had no comments and quotes."""
    sections, begin = [], 0
    for part in text.split(";"):
        words = part.split()
        token = Token(begin + len(part) - len(part.lstrip()), words[0].upper()) if words else None
        sections.append(Section(begin + len(part), token, tuple(Token(begin, word.upper()) for word in words[-2:])))
        begin += len(part) + 1
    return sections


def _window_calls(text: str) -> object:
    check_text(text)  # which bounds how deeply calls are nested
    return may_call(text), edited(text, _words(text))


def _version_edits(text: str) -> object:
    return may_join_versions(text), list(version_edits(text, _words(text)))


def _described(text: str) -> object:
    fragment = Fragment(text, 0)
    return describe([Thrown("SparkException", text, span=(0, len(text)))], fragment, text)


@dataclass(frozen=True)
class _Anything(Struct):
    """Declares no field, so that all are skipped."""


def _thrift(text: str) -> object:
    data = text.encode()
    reader = Reader(header("A", TMessageType.CALL, 1) + data)
    reader.header()
    return reader.message(_Anything)


def _conf(text: str) -> object:
    return (
        conf_policy.is_denied(text),
        conf_policy.is_allowed(f"spark.sql.{text}", _POLICY.conf_allow),
        conf_policy.is_allowed(text, (text[:200], "*a*a*a*b")),
        conf_policy.wrong_value(text, text),
        conf_policy.similar_key(text, _POLICY.conf_allow),
        conf_policy.redacted({text: text}),
    )


def _setting(key: str, text: str) -> object:
    with contextlib.suppress(ValueError):
        return gateway_settings.parse({key: text})
    return None


READERS: dict[str, Callable[[str], object]] = {
    "bounds": check_text,
    "cursor": lambda text: read_cursor(text, len(text)),
    "cursor before its end": lambda text: read_cursor(f"{text} ", len(text)),
    "window calls": _window_calls,
    "window call": lambda text: _window_calls(f"TUMBLE({text}"),
    "versions": _version_edits,
    "script": lambda text: split(text, _sections(text), lambda _: False),
    "places": lambda text: locate(text, len(text)),
    "messages": clean_message,
    "messages with a place": lambda text: clean_message(f"{text}; line 1, pos 2"),
    "errors": _described,
    "shown errors": lambda text: bounded(OperationError(message=text, fragment=text)),
    "masks": Masker(["ab", "a*", "*/", "a long value", "é"]).mask,
    "masks of signs": Masker(["()", "''", "*", "ba"]).mask,
    "masks of many lines": Masker(["\n".join(f"{number:05}" for number in range(50_000))]).mask,
    "masks of all": lambda text: Masker(["ab", text]).mask(text),
    "keys of SET": lambda text: check_key(text, _POLICY, text),
    "keys": _conf,
    "places of jars": lambda text: check_uri(text, _POLICY),
    "places of jars below": lambda text: check_uri(f"s3a://jars/{text}", _POLICY),
    "options": lambda text: source_options.problem({text: text, f"parquet.{text}": ""}, _POLICY.conf_allow),
    "options of Kafka": lambda text: kafka_options.problem({"kafka.sasl.jaas.config": text, f"kafka.{text}": ""}, ()),
    "options of Kafka's login": lambda text: kafka_options.problem(
        {"kafka.sasl.jaas.config": f"org.apache.kafka.common.security.plain.PlainLoginModule required {text}"}, ()
    ),
    "relations with options": source_options.may_give_relations_options,
    "names of columns": in_words,
    "Flink's statements": interpret,
    "sessions": naming.parse,
    "sessions of Thrift": lambda text: naming.parse_thrift({"use:database": text, "session": text, text: text}),
    "users": lambda text: (naming.own_name(text), naming.user_label(text), naming.home_of(text, "team")),
    "users of headers": read_user,
    "CPUs": cpu_millis,
    "memory": memory_mib,
    "sizes of executors": lambda text: pod_mib(1024, {"spark.executor.memoryOverhead": text}),
    "gateway's settings": lambda text: [_setting(key, text) for key in gateway_settings.KEYS],
    "paths": lambda text: match_route("GET", f"/v1/{text}", ("V1", "V4")),
    "bodies": lambda text: read_body(ExecuteStatementRequest, text.encode()),
    "bodies of the front": lambda text: read_open(text.encode(), text),
    "tokens": lambda text: (presented_token(f"Basic {text}"), presented_token(text), login_name(f"Basic {text}")),
    "properties": lambda text: (read_configuration({text: text, "use:database": text}), use_statement(text)),
    "Thrift messages": _thrift,
    "types": rest_types.logical_type.__wrapped__,
    "Hive's types": hive_type,
    "names of fields": quoted_name,
    "patterns of names": lambda text: NamePattern.parse(text[:400]).matches(text),
}


# How readers refuse a text. What takes the stack, RecursionError, is none of these.
REFUSALS = (StatementError, FrontError, BadBodyError, ProtocolError, ScriptTooLongError, ValueError)


def tolerant(read: Callable[[str], object]) -> Callable[[str], object]:
    """Reads a text that may be refused."""

    def reading(text: str) -> object:
        with contextlib.suppress(*REFUSALS):
            return read(text)
        return None

    return reading


@pytest.mark.parametrize("name", READERS)
def test_client_text_is_read_in_linear_time(name: str) -> None:
    read, found = tolerant(READERS[name]), []
    for unit in UNITS:
        told = growth(read, lambda length, unit=unit: (unit * (length // len(unit) + 1))[:length], LENGTHS)
        if told is not None:
            found.append(f"{unit!r}: {told}")
    assert found == []


def test_completion_of_a_name_of_many_parts_takes_linear_time() -> None:
    assert (
        growth(lambda text: read_cursor(text, len(text)), lambda length: "a." * (length // 2), (60_000, 240_000))
        is None
    )


@pytest.mark.parametrize("sign", ["(", "[", "CASE ", "ARRAY<", "/*"])
def test_text_nested_by_a_sign_alone_is_refused(sign: str) -> None:
    with pytest.raises(StatementError, match="within each other"):
        check_text(sign * 100_000)
