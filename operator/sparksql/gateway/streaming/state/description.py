"""What a checkpoint's state means, as it is kept beside it.

Version 1 had the readable parts alone, see `compatibility` for what may go on from such a one; version 2 did not have the
columns that aggregates are kept in, without which no state is rewritten, see `rewriting`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from sparksql.gateway.streaming.state.structure_nodes import Node

FORMAT_VERSION = 3
_STRUCTURES, _BUFFERS = 2, 3  # the versions that first had them
_READABLE_VERSIONS = (1, _STRUCTURES, FORMAT_VERSION)
AGGREGATE, IN_PYTHON = "aggregate", "state of a Python function"


class DescriptionError(Exception):
    """A stored description that this driver cannot read."""


@dataclass(frozen=True)
class StreamSource:
    """Describes what a query streams.

    `identity` tells it from others: its provider and its place, topics or table; `name` is for people. `reading` are
    the options that say how its values are read, each by a digest.
    """

    name: str
    identity: str
    reading: str = ""


@dataclass(frozen=True)
class StateColumn:
    """Describes a column of state.

    `meaning` is its expression over columns of the sources, `[1].amount` being one of the first source. `type` is
    Spark's; `name` is that of the result and for people only. An aggregate is kept in columns of the types `buffers`, in
    this order: of an average a sum and a count. Which function it is tells the structure of its operator.
    """

    name: str
    type: str
    meaning: str
    buffers: tuple[str, ...] = ()


@dataclass(frozen=True)
class SplitAverage:
    """Describes an average that the state stores as two aggregates, as that of HOP and CUMULATE: its value is a double.

    `total` and `count` are the places of its sum and its count among the operator's values, `own` those of the two
    that belong to it alone.
    """

    name: str
    total: int
    count: int
    own: tuple[int, ...]


@dataclass(frozen=True)
class StatefulOperator:
    """Describes an operator with state.

    `settings` are what else shapes it, such as a join's type. `inputs` are, in order, what its rows come from and go
    through, without projections and filters. `structure` is the digest of all that it is made of, among the `nodes` of
    its description, and empty where it is not known. It decides; what else is told here is for people. `as_written` is the
    same digest with the values in the order of the text, empty in descriptions of earlier versions, whose `structure` it is.
    `averages` are for the display of values: they are not compared, and an earlier driver ignores them.
    """

    kind: str
    keys: tuple[StateColumn, ...] = ()
    values: tuple[StateColumn, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    inputs: tuple[str, ...] = ()
    structure: str = ""
    as_written: str = ""
    averages: tuple[SplitAverage, ...] = ()


@dataclass(frozen=True)
class Setting:
    """A setting that the session was given, and the value that it has without that."""

    name: str
    value: str = field(repr=False)
    default: str


@dataclass(frozen=True)
class Watermark:
    """An event time column, by its meaning, and the delay behind its maximum."""

    column: str
    delay_millis: int


@dataclass(frozen=True)
class Description:
    """Describes what a checkpoint's state means.

    Sources are in the order of Spark's offset log; operators stand after those whose rows they take. `text_hash` is of
    the submitted text, empty when it is not known, and `parameters` of the values that it was bound to, None in
    descriptions of earlier versions. `confs` are for whoever reads the state: Spark itself goes on with those of the
    checkpoint, so they are not compared. `settings` are compared, see the module of that name; None where nobody has
    looked. `retracts`: its rows are changes, of which each counts as much as its weight.
    """

    spark_version: str
    text_hash: str
    output_mode: str
    sources: tuple[StreamSource, ...]
    watermarks: tuple[Watermark, ...] = ()
    operators: tuple[StatefulOperator, ...] = ()
    confs: tuple[tuple[str, str], ...] = ()
    group_filters: tuple[str, ...] = ()
    nodes: dict[str, Node] = field(default_factory=dict)
    settings: tuple[Setting, ...] | None = None
    parameters: str | None = None
    retracts: bool = False
    version: int = FORMAT_VERSION

    @property
    def is_of_first_version(self) -> bool:
        """Returns whether the file is of the first version, which has no structures."""
        return self.version < _STRUCTURES

    @property
    def has_buffers(self) -> bool:
        """Returns whether the file tells in which columns each aggregate is kept."""
        return self.version >= _BUFFERS

    @property
    def is_text_only(self) -> bool:
        """Returns whether nothing is known but the text, see `of_text`."""
        return [each.kind for each in self.operators] == [f"text {self.text_hash[:12]}"]

    def to_json(self) -> str:
        """Returns the file's text."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Description:
        """Reads a description's text. Raises DescriptionError for what is no description of this form."""
        try:
            raw = json.loads(text)
            if raw["version"] not in _READABLE_VERSIONS:
                raise DescriptionError(f"it has version {raw['version']}, this driver supports {FORMAT_VERSION}")
            return cls(
                spark_version=str(raw["spark_version"]),
                text_hash=str(raw["text_hash"]),
                output_mode=str(raw["output_mode"]),
                sources=tuple(StreamSource(**each) for each in raw["sources"]),
                watermarks=tuple(Watermark(**each) for each in raw["watermarks"]),
                operators=tuple(map(_operator, raw["operators"])),
                confs=_pairs(raw["confs"]),
                group_filters=tuple(map(str, raw.get("group_filters", ()))),
                nodes=dict(raw.get("nodes", {})),
                settings=_settings(raw.get("settings")),
                parameters=raw.get("parameters"),
                retracts=bool(raw.get("retracts", False)),
                version=int(raw["version"]),
            )
        except (KeyError, TypeError, ValueError) as broken:
            raise DescriptionError("it is not a description of state") from broken


def _operator(raw: Any) -> StatefulOperator:
    keys, values = (tuple(map(_column, raw[part])) for part in ("keys", "values"))
    inputs = tuple(map(str, raw["inputs"]))
    structure, as_written = (str(raw.get(part, "")) for part in ("structure", "as_written"))
    averages = tuple(map(_average, raw.get("averages", ())))
    return StatefulOperator(raw["kind"], keys, values, _pairs(raw["settings"]), inputs, structure, as_written, averages)


def _average(raw: Any) -> SplitAverage:
    return SplitAverage(str(raw["name"]), int(raw["total"]), int(raw["count"]), tuple(map(int, raw["own"])))


def _column(raw: Any) -> StateColumn:
    return StateColumn(**{**raw, "buffers": tuple(map(str, raw.get("buffers", ())))})


def _settings(raw: Any) -> tuple[Setting, ...] | None:
    return None if raw is None else tuple(Setting(**each) for each in raw)


def _pairs(raw: Any) -> tuple[tuple[str, str], ...]:
    return tuple((str(key), str(value)) for key, value in raw)
