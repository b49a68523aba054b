"""The cross-field rules of our kinds in Python: one predicate for each CEL rule of the CRDs, found by the rule's text. Pure.

The rules themselves stay in the models, from which the CRDs are made. A test walks through all of them and finds each
predicate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sparksql.api.quantities import QuantityError, cpu_millis, memory_mib
from sparksql.api.session_class import DRIVER_PORTS

Rule = Callable[[Any, Any], bool]
"""Takes the value and the value before, None without one; returns whether the rule holds."""

_FRONTENDS = ("blockmanager", "connect", "control", "driver-rpc", "https", "rest", "thrift")


def _quantity(parse: Callable[[str | int], int]) -> Rule:
    def holds(self: Any, _: Any) -> bool:
        try:
            parse(self)
        except QuantityError:
            return False
        return not isinstance(self, float)  # its text depends on who writes it

    return holds


def _matches(pattern: str) -> Rule:
    compiled = re.compile(pattern)
    return lambda self, _: compiled.fullmatch(self) is not None


def _one_of(first: str, second: str) -> Rule:
    return lambda self, _: (first in self) != (second in self)


def _unchanged(field: str) -> Rule:
    return lambda self, old: _same(self.get(field), old.get(field)) and (field in self) == (field in old)


def _kept(field: str) -> Rule:
    """The field may be added, and is immutable then."""
    return lambda self, old: field not in self or field not in old or self[field] == old[field]


def _ratcheting(holds: Callable[[Mapping[str, Any]], bool]) -> Rule:
    """The rule of new objects; objects that broke it before may still break it."""
    return lambda self, old: holds(self) or (old is not None and not holds(old))


def _same(new: Any, old: Any) -> bool:
    """Equality of values, in which the order of named entries does not count."""
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(entry in old for entry in new)
    return bool(new == old)


def _sql_unchanged(self: Any, old: Any) -> bool:
    if ("sql" in self) != ("sql" in old):
        return False
    return "sql" not in self or self["sql"] == old["sql"] or "streaming" in self


def _same_names(self: Any, old: Any) -> bool:
    new_names, old_names = (sorted(each["name"] for each in value.get("parameters", ())) for value in (self, old))
    return new_names == old_names


def _unique_frontends(self: Any, _: Any) -> bool:
    frontends: Sequence[Any] = self.get("frontends", ())
    return all(len({each[field] for each in frontends}) == len(frontends) for field in ("name", "port"))


def _selector_values(self: Any, _: Any) -> bool:
    return bool(self.get("values")) == (self["operator"] in ("In", "NotIn"))


def _keys(self: Iterable[str], _: Any) -> bool:
    return all(0 < len(key) <= 253 for key in self)


def _set_only_with(field: str, source: str) -> Rule:
    return lambda self, _: (self.get(field) is not None) == (self["source"] == source)


def _optional_equal(field: str) -> str:
    return f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"


def _since(rule: str) -> str:
    return f"({rule}) || (oldSelf.hasValue() && !({rule.replace('self.', 'oldSelf.value().')}))"


_QUANTITY = (
    "string(self).matches(r'^{}$') && quantity(string(self)).compareTo(quantity('{}')) >= 0 "
    "&& quantity(string(self)).compareTo(quantity('{}')) <= 0"
)
_DATABASE, _LABEL, _PARAMETER = (
    r"[A-Za-z0-9_]*(\{namespace\}[A-Za-z0-9_]*)?",
    "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    "[A-Za-z_][A-Za-z0-9_]*",
)

RULES: Mapping[str, Rule] = {
    "self.metadata.name.size() <= 50 && !self.metadata.name.contains('.')": lambda self, _: (
        len(self["metadata"]["name"]) <= 50 and "." not in self["metadata"]["name"]
    ),
    _QUANTITY.format("([0-9]{1,4}(\\.[0-9]{1,3})?|[0-9]{1,7}m)", "1m", "1024"): _quantity(cpu_millis),
    _QUANTITY.format("[0-9]{1,15}(\\.[0-9]{1,3})?(Ki|Mi|Gi|Ti|k|M|G|T)?", "1Mi", "16Ti"): _quantity(memory_mib),
    "!has(self.instances) || (!has(self.min) && !has(self.max))": lambda self, _: (
        "instances" not in self or ("min" not in self and "max" not in self)
    ),
    "!has(self.min) || has(self.max)": lambda self, _: "min" not in self or "max" in self,
    "!has(self.min) || !has(self.max) || self.min <= self.max": lambda self, _: (
        "min" not in self or "max" not in self or self["min"] <= self["max"]
    ),
    "self.all(k, k.size() > 0 && k.size() <= 253)": _keys,
    f"self.matches(r'^{_DATABASE}$')": _matches(_DATABASE),
    f"self.matches('^{_LABEL}$')": _matches(_LABEL),
    f"self.matches('^{_PARAMETER}$')": _matches(_PARAMETER),
    "has(self.sql) != has(self.sqlFrom)": _one_of("sql", "sqlFrom"),
    "has(self.sessionRef) != has(self.session)": _one_of("sessionRef", "session"),
    "has(self.value) != has(self.valueFrom)": _one_of("value", "valueFrom"),
    "has(self.secretKeyRef) != has(self.configMapKeyRef)": _one_of("secretKeyRef", "configMapKeyRef"),
    "has(self.intervalSeconds) != has(self.cron)": _one_of("intervalSeconds", "cron"),
    "self.desiredState != 'Stopped' || has(self.streaming)": lambda self, _: (
        self["desiredState"] != "Stopped" or "streaming" in self
    ),
    "has(self.sql) == has(oldSelf.sql) && (!has(self.sql) || self.sql == oldSelf.sql || has(self.streaming))": (
        _sql_unchanged
    ),
    "!has(self.validateAgainst) || self.mode == 'Validate'": lambda self, _: (
        "validateAgainst" not in self or self["mode"] == "Validate"
    ),
    **{
        _optional_equal(field): _unchanged(field)
        for field in (
            "sql",
            "sqlFrom",
            "operator",
            "validateAgainst",
            "sessionRef",
            "session",
            "value",
            "valueFrom",
        )
    },
    "self.mode == oldSelf.mode": _unchanged("mode"),
    "self.statementRef == oldSelf.statementRef": _unchanged("statementRef"),
    "self.source == oldSelf.source": _unchanged("source"),
    "has(self.streaming) == has(oldSelf.streaming)": lambda self, old: ("streaming" in self) == ("streaming" in old),
    "(has(self.parameters) ? self.parameters.size() : 0) == (has(oldSelf.parameters) ? oldSelf.parameters.size() : 0)"
    " && (!has(self.parameters) || !has(oldSelf.parameters) || self.parameters.all(new, "
    "oldSelf.parameters.exists(old, old.name == new.name)))": _same_names,
    "(has(self.dependsOn) ? self.dependsOn.size() : 0) == (has(oldSelf.dependsOn) ? oldSelf.dependsOn.size() : 0) && "
    "(!has(self.dependsOn) || !has(oldSelf.dependsOn) || self.dependsOn == oldSelf.dependsOn)": lambda self, old: _same(
        self.get("dependsOn", []), old.get("dependsOn", [])
    ),
    "(has(self.type) ? self.type : 'STRING') == (has(oldSelf.type) ? oldSelf.type : 'STRING')": lambda self, old: (
        self.get("type", "STRING") == old.get("type", "STRING")
    ),
    _since("self.restoreNonce == '' || has(self.startFrom)"): _ratcheting(
        lambda self: self["restoreNonce"] == "" or "startFrom" in self
    ),
    "self.mode != 'Interval' || has(self.intervalMillis)": lambda self, _: (
        self["mode"] != "Interval" or "intervalMillis" in self
    ),
    "!has(self.deletedRetentionSeconds) || (has(self.orderBy) && has(self.deleteWhen))": lambda self, _: (
        "deletedRetentionSeconds" not in self or ("orderBy" in self and "deleteWhen" in self)
    ),
    _since("has(self.cron) || self.timezone == 'UTC'"): _ratcheting(
        lambda self: "cron" in self or self["timezone"] == "UTC"
    ),
    "(has(self.location) && dyn(self.location) != null) == (self.source == 'Existing')": _set_only_with(
        "location", "Existing"
    ),
    "(has(self.sql) && dyn(self.sql) != null) == (self.source == 'Query')": _set_only_with("sql", "Query"),
    "!has(self.operator) || dyn(self.operator) == null || self.source == 'Query'": lambda self, _: (
        self.get("operator") is None or self["source"] == "Query"
    ),
    "!has(self.location) || !has(oldSelf.location) || self.location == oldSelf.location": _kept("location"),
    "!has(self.frontends) || self.frontends.all(f, self.frontends.filter(g, g.name == f.name || g.port == f.port).size()"
    " == 1)": _unique_frontends,
    _since("!self.front.only || self.networkPolicy.enabled"): _ratcheting(
        lambda self: not self["front"]["only"] or self["networkPolicy"]["enabled"]
    ),
    "self.operator in ['In', 'NotIn'] ? (has(self.values) && self.values.size() > 0) : (!has(self.values) || "
    "self.values.size() == 0)": _selector_values,
    f"!(self.name in {[*_FRONTENDS]!r})": lambda self, _: self["name"] not in _FRONTENDS,
    f"!(self.port in {[*DRIVER_PORTS]!r})": lambda self, _: self["port"] not in DRIVER_PORTS,
}
