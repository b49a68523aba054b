"""CEL rules of CRDs, compiled by Google's own CEL runtime, with the functions of Kubernetes that our rules use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

from cel_expr_python import cel

_FIELD = re.compile(r"\b(?:self|oldSelf(?:\.value\(\))?)\.(\w+(?:\.\w+)*)(?![\w(])")
_OLD = re.compile(r"\boldSelf\b")
_QUANTITY = re.compile(r"([0-9.]+)([A-Za-z]*)")
# Suffixes of quantities that a rule of ours may meet (Kubernetes' apimachinery, pkg/api/resource).
_UNITS: dict[str, int | Decimal] = {
    "": 1, "m": Decimal("0.001"), "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip


class _Absent:
    """Stands for the former state of what had none."""


ABSENT = _Absent()


@dataclass(frozen=True)
class Expression:
    """A rule. `fields` are those of `self` that it names, in order; `is_transition`: it compares two states."""

    program: Any
    fields: tuple[tuple[str, ...], ...]
    is_transition: bool

    def holds(self, value: Any, old: Any, *, is_optional: bool) -> bool:
        """Returns whether a value keeps the rule. `old` is its former state, ABSENT without one.

        With `is_optional` the rule is for values without a former state too (`optionalOldSelf`). What a rule cannot be evaluated
        for breaks it, as in the API server.
        """
        if self.is_transition and old is ABSENT and not is_optional:
            return True
        former = ([] if old is ABSENT else [old]) if is_optional else old
        data = {"self": value, "oldSelf": former} if self.is_transition else {"self": value}
        return self.program.eval(data=data).value() is True


@cache
def expression(rule: str) -> Expression:
    """Returns the compiled form of a rule."""
    fields = dict.fromkeys(tuple(found[1].split(".")) for found in _FIELD.finditer(rule))
    return Expression(_environment().compile(rule), tuple(fields), _OLD.search(rule) is not None)


def is_optional(rule: Mapping[str, Any]) -> bool:
    """Returns whether a rule of a schema is evaluated without a former state as well."""
    return bool(rule.get("optionalOldSelf"))


@cache
def _environment() -> Any:
    kinds = cel.Type
    functions = [
        _function("quantity", [kinds.STRING], kinds.DOUBLE, _quantity),
        _function("compareTo", [kinds.DOUBLE, kinds.DOUBLE], kinds.INT, _compare),
        # An optional value is a list of at most one.
        _function("hasValue", [kinds.LIST], kinds.BOOL, bool),
        _function("value", [kinds.LIST], kinds.DYN, _only),
    ]
    return cel.NewEnv(variables={"self": kinds.DYN, "oldSelf": kinds.DYN}, functions=functions)


def _function(name: str, parameters: list[Any], result: Any, implementation: Any) -> Any:
    is_member = name != "quantity"
    overload = cel.Overload(
        id=f"{name}_", return_type=result, parameters=parameters, is_member=is_member, impl=implementation
    )
    return cel.FunctionDecl(name, [overload])


def _quantity(text: str) -> float:
    """Returns the number that a quantity stands for; only two of them are ever compared."""
    found = _QUANTITY.fullmatch(text)
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"{text} is no quantity")
    return float(Decimal(found[1]) * _UNITS[found[2]])


def _compare(one: float, other: float) -> int:
    return (one > other) - (one < other)


def _only(values: list[Any]) -> Any:
    return values[0]
