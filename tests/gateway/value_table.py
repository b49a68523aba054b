"""One table of values: each of a type, alone and inside others at two levels, with what each endpoint shows of it.

What is around a value is written here once for all types: a value looks the same wherever it stands. What Spark's cast to
STRING shows is the text of this table as well, so a row is right by Spark itself, and by what each client reads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ZONE = "America/New_York"


@dataclass(frozen=True)
class Value:
    """A value of SQL, and how it is shown.

    `text` is Spark's cast to STRING, `control` the control API's JSON and the plugin's, `rest` JSON of REST, `plain` REST's
    PLAIN_TEXT, `hive` what HiveServer2's clients get, and `inner` its text inside of a list there. `preview` is given where
    status shows another text than the cast. `is_text` marks types that are shown as the cast wherever they stand.
    """

    type: str
    sql: str
    text: str | None
    control: Any
    rest: Any
    plain: str | None
    hive: Any
    inner: str
    preview: str | None = None
    is_text: bool = False

    @property
    def previewed(self) -> str | None:
        return self.text if self.preview is None else self.preview


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _number(type_: str, sql: str, value: float, text: str, inner: str | None = None) -> Value:
    """Of JSON's numbers, NaN and the infinities are texts."""
    told = value if isinstance(value, int) or math.isfinite(value) else text
    return Value(type_, sql, text, told, told, text, value, inner or _json(told))


def _decimal(type_: str, sql: str, text: str, rest: float) -> Value:
    return Value(type_, sql, text, text, rest, text, text, text)


def _string(type_: str, sql: str, text: str) -> Value:
    return Value(type_, sql, text, text, text, text, text, _json(text))


def _binary(sql: str, text: str, base64: str, digits: str) -> Value:
    return Value("BINARY", sql, text, base64, base64, f"x'{digits}'", text, f'"{base64}"', preview=base64)


def _time(type_: str, sql: str, text: str) -> Value:
    """REST has ISO 8601 in JSON, with Z for an instant, and six digits of a second in PLAIN_TEXT."""
    rest = text.replace(" ", "T") + ("Z" if type_ == "TIMESTAMP" else "")
    seconds, _, fraction = text.partition(".")
    return Value(type_, sql, text, text, rest, f"{seconds}.{fraction.ljust(6, '0')}", text, f'"{text}"')


def _as_text(type_: str, sql: str, text: str, cast: str | None = None) -> Value:
    """`cast` is given where Spark casts the value to another text than inside of a list."""
    return Value(type_, sql, cast or text, text, text, text, text, text, preview=text, is_text=True)


VALUES = (
    Value("BOOLEAN", "true", "true", True, True, "TRUE", True, "true"),
    Value("BOOLEAN", "false", "false", False, False, "FALSE", False, "false"),
    _number("TINYINT", "7Y", 7, "7"),
    _number("SMALLINT", "-32768S", -32768, "-32768"),
    _number("INT", "2147483647", 2147483647, "2147483647"),
    _number("BIGINT", "-9223372036854775808L", -9223372036854775808, "-9223372036854775808"),
    _number("FLOAT", "CAST(0.1 AS FLOAT)", 0.1, "0.1"),
    _number("FLOAT", "CAST('-Infinity' AS FLOAT)", -math.inf, "-Infinity"),
    _number("DOUBLE", "0.1D", 0.1, "0.1"),
    _number("DOUBLE", "-0.0D", -0.0, "-0.0"),
    _number("DOUBLE", "1e10", 1e10, "1.0E10", "1e+10"),
    _number("DOUBLE", "1.0E-5D", 1e-05, "1.0E-5", "0.00001"),
    _number("DOUBLE", "CAST('NaN' AS DOUBLE)", math.nan, "NaN"),
    _decimal("DECIMAL(3,2)", "1.50", "1.50", 1.5),
    _decimal("DECIMAL(10,0)", "CAST(1000 AS DECIMAL(10,0))", "1000", 1000),
    _decimal("DECIMAL(20,10)", "CAST(0 AS DECIMAL(20,10))", "0.0000000000", 0),
    _decimal(
        "DECIMAL(38,0)",
        "12345678901234567890123456789012345678",
        "12345678901234567890123456789012345678",
        12345678901234567890123456789012345678,
    ),
    _string("STRING", "''", ""),
    _string("STRING", "'a, b: {c} -> [d]'", "a, b: {c} -> [d]"),
    _string("STRING", "'a\"\\n\\\\'", 'a"\n\\'),
    _string("STRING", "'null'", "null"),
    _string("STRING", "'\U0001f642 ü'", "\U0001f642 ü"),
    _string("STRING", "CAST(X'53E9A2' AS STRING)", "S\ufffd"),
    _string("STRING", "'a' COLLATE UTF8_LCASE", "a"),
    _string("STRING", "CAST('ab' AS CHAR(3))", "ab"),
    _string("STRING", "CAST('ab' AS VARCHAR(3))", "ab"),
    _binary("X'6869'", "hi", "aGk=", "6869"),
    _binary("X''", "", "", ""),
    *(_string("DATE", f"DATE'{text}'", text) for text in ("2026-01-31", "-0044-03-15", "0001-01-01", "+12345-01-31")),
    *(
        _time("TIMESTAMP", f"TIMESTAMP'{text}'", text)
        for text in (
            "2024-01-01 07:00:00",
            "2024-07-01 07:00:00.5",
            "1883-01-01 00:00:00",
            "2040-07-01 00:00:00.000001",
            "+12345-07-01 12:00:00",
            "-0044-03-15 12:00:00",
        )
    ),
    *(
        _time("TIMESTAMP_NTZ", f"TIMESTAMP_NTZ'{text}'", text)
        for text in ("2024-01-01 07:00:00.000001", "2024-03-10 02:30:00", "-0044-03-15 12:00:00")
    ),
    *(
        _as_text("INTERVAL", sql, sql)
        for sql in ("INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '-1' MONTH", "INTERVAL '1 02:03:04.5' DAY TO SECOND")
    ),
    _as_text("INTERVAL", "make_interval(1, 2, 0, 3, 4)", "1 years 2 months 3 days 4 hours"),
    _as_text("VARIANT", "parse_json('{\"a\": [1, null]}')", '{"a":[1,null]}'),
    _as_text("VARIANT", "parse_json('\"x\"')", '"x"', cast="x"),
)


@dataclass(frozen=True)
class Around:
    """A type around another one: of each of its texts, what is before and behind that of the value inside."""

    sql: str
    text: str
    plain: str
    inner: str
    json: Callable[[Any], Any]

    def of(self, value: Value) -> Value:
        """Returns the value inside of this type."""
        if value.is_text:
            return _as_text(value.type, self.sql.replace("@", value.sql), self.text.replace("@", value.control))
        text = self.text.replace("@", value.text or "")
        inner = self.inner.replace("@", value.inner)
        return Value(
            value.type,
            self.sql.replace("@", value.sql),
            text,
            self.json(value.control),
            self.json(value.rest),
            self.plain.replace("@", value.plain or ""),
            inner,
            inner,
            preview=None if value.preview is None else self.text.replace("@", value.preview),
        )


NESTS = (
    Around("array(@)", "[@]", "[@]", "[@]", lambda inner: [inner]),
    Around("map('k', @)", "{k -> @}", "{k=@}", '{"k":@}', lambda inner: {"k": inner}),
    Around("named_struct('f', @)", "{@}", "(@)", '{"f":@}', lambda inner: {"f": inner}),
)
# Names of fields that contain words of types, and NULL beside a value.
NAMED = (
    Around(
        "named_struct('variant', @, 'interval', 1)", "{@, 1}", "(@, 1)", '{"variant":@,"interval":1}',
        lambda inner: {"variant": inner, "interval": 1},
    ),
    Around(
        "array(named_struct('void time(', 'a', 'b:int,c', @))", "[{a, @}]", "[(a, @)]", '[{"void time(":"a","b:int,c":@}]',
        lambda inner: [{"void time(": "a", "b:int,c": inner}],
    ),
    Around("array(@, NULL)", "[@, null]", "[@, NULL]", "[@,null]", lambda inner: [inner, None]),
)  # fmt: skip

AT_ONE_LEVEL = tuple(value for leaf in VALUES for value in (leaf, *(nest.of(leaf) for nest in (*NESTS, *NAMED))))
AT_TWO_LEVELS = tuple(outer.of(inner.of(leaf)) for leaf in VALUES for outer in NESTS for inner in NESTS)
TABLE = (*AT_ONE_LEVEL, *AT_TWO_LEVELS)
