"""What a check reports: a rule, a place in a file and a message.

The names of rules are a contract: annotations and other programs use them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    """Lists the rules by the name that a finding shows and that the annotation `sparksql.dev/lint-ignore` takes."""

    YAML_SYNTAX = "yaml-syntax"
    DUPLICATE_KEY = "duplicate-key"
    API_VERSION = "api-version"
    KIND = "kind"
    NAME = "name"
    UNKNOWN_FIELD = "unknown-field"
    REQUIRED_FIELD = "required-field"
    TYPE = "type"
    VALUE = "value"
    LIMIT = "limit"
    CROSS_FIELD = "cross-field"
    IMMUTABLE = "immutable"
    CONF = "conf"
    UNRESOLVED_REFERENCE = "unresolved-reference"
    MISSING_KEY = "missing-key"
    DEPENDENCY_CYCLE = "dependency-cycle"
    DUPLICATE_OBJECT = "duplicate-object"
    SQL = "sql"
    LINT_IGNORE = "lint-ignore"

    @property
    def summary(self) -> str:
        """Returns what the rule is about, in one sentence."""
        return _SUMMARIES[self]


_SUMMARIES = {
    Rule.YAML_SYNTAX: "A document is YAML or JSON that kubectl can read.",
    Rule.DUPLICATE_KEY: "A key is in a mapping once.",
    Rule.API_VERSION: "A resource of ours has the version of this program.",
    Rule.KIND: "A resource of our API group has a kind that exists.",
    Rule.NAME: "Names, labels and annotations have the form that Kubernetes takes.",
    Rule.UNKNOWN_FIELD: "A field is one of the kind's.",
    Rule.REQUIRED_FIELD: "A field that the kind requires is set.",
    Rule.TYPE: "A value has the type of its field.",
    Rule.VALUE: "A value is one that its field takes.",
    Rule.LIMIT: "A value is within the limits of its field.",
    Rule.CROSS_FIELD: "Fields fit each other.",
    Rule.IMMUTABLE: "A field that is immutable does not change.",
    Rule.CONF: "A Spark configuration key is one that a class may allow.",
    Rule.UNRESOLVED_REFERENCE: "A session, statement or savepoint that a resource names is among the files.",
    Rule.MISSING_KEY: "A ConfigMap or Secret among the files has the key that a resource names.",
    Rule.DEPENDENCY_CYCLE: "Statements do not depend on each other in a circle.",
    Rule.DUPLICATE_OBJECT: "A resource is defined once.",
    Rule.SQL: "A SQL text is one that the gateway takes.",
    Rule.LINT_IGNORE: "The annotation sparksql.dev/lint-ignore names rules that exist.",
}


@dataclass(frozen=True, order=True)
class Finding:
    """A place, by file, line and column (from 1, in characters), and what is wrong there.

    `subject` names the resource and the field: what stays the same when lines move.
    """

    path: str
    line: int
    column: int
    rule: Rule
    message: str
    subject: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.rule}: {self.message}"
