"""What a plain scalar of YAML is for kubectl: sigs.k8s.io/yaml, that is go-yaml 2, turned into JSON.

`yes`, `on` and `y` are booleans, `012` is octal, a date is text, and base 60 does not exist. The rules are those of `resolve.go`
of go-yaml 2.4 and of `convertToJSONableObject`. Pure.
"""

from __future__ import annotations

import math
import re

Scalar = str | int | float | bool | None

_CONSTANTS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
# Go's strconv.ParseInt with base 0.
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_JSON_INTEGERS = 1e21  # Go's encoding/json writes floats below it without an exponent: 2.0 becomes 2


def resolved(text: str) -> Scalar:
    """Returns the JSON value of a plain scalar."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text if text[0] == "." else text.replace("_", "")
    integer = _integer(plain)
    if integer is not None:
        return integer
    if _FLOAT.fullmatch(plain):
        value = float(plain)
        return text if math.isinf(value) else as_json(value)
    return text


def as_json(value: float) -> int | float:
    """Returns a number as it is once Go has written it as JSON: a whole one has no decimal point."""
    return int(value) if value.is_integer() and abs(value) < _JSON_INTEGERS else value


def object_key(value: Scalar) -> str | None:
    """Returns the text that a scalar has as a key of an object, None for null, which no key can be."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def _integer(text: str) -> int | None:
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    sign, *digits = found.groups()
    value = next(int(part, base) for part, base in zip(digits, (16, 2, 8, 10), strict=True) if part is not None)
    if sign == "-":
        return -value if value <= 2**63 else None
    return value if value < (2**63 if sign else 2**64) else None
