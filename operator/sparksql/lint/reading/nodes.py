"""A document as JSON data in which each value knows its place, made from the events of the YAML parser. Pure.

The parser is libyaml, of which kubectl's go-yaml is a port. Events are taken one by one and not as PyYAML's tree, whose making
recurses within C: a text of deep brackets would end the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from sparksql.lint.findings import Rule
from sparksql.lint.reading.scalars import Scalar, object_key, resolved

MAX_DEPTH = 200
MAX_ALIASED = 100_000  # values that aliases may add to a document
_TAG = "tag:yaml.org,2002:"
_MERGE = "<<"
_SHOWN_CHARS = 40
_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

Step = str | int


@dataclass(frozen=True)
class Problem:
    """What is wrong with a document as YAML; `path` is that of the mapping or list where it stands."""

    rule: Rule
    at: int
    message: str
    path: tuple[Step, ...] = ()


class UnreadableError(Exception):
    """A document cannot be read."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at = at
        self.message = message


@dataclass(slots=True)
class Node:
    """A value and the half-open range of its text. `keys` are where the keys of a mapping stand, `size` counts values."""

    start: int
    end: int
    value: Any = field(repr=False)
    style: str | None = None
    children: dict[Step, Node] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    size: int = 1

    def find(self, path: tuple[Step, ...]) -> Node | None:
        """Returns the value at a path, None if there is none."""
        node = self
        for step in path:
            found = node.children.get(step)
            if found is None:
                return None
            node = found
        return node

    def key_at(self, path: tuple[Step, ...]) -> int | None:
        """Returns where the key of a path stands, or the entry of a list; None if there is none."""
        parent = self.find(path[:-1]) if path else None
        if parent is None:
            return None
        last = path[-1]
        if isinstance(last, str) and last in parent.keys:
            return parent.keys[last]
        entry = parent.children.get(last)
        return None if entry is None else entry.start


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end is not read yet. `key` is the key that waits for its value."""

    node: Node
    is_mapping: bool
    anchor: str | None
    path: tuple[Step, ...]
    key: tuple[str, int] | None = None
    is_merge: bool = False
    wants_value: bool = False


class Builder:
    """Makes the documents of one text. `base` is where the text begins within its file."""

    def __init__(self, text: str, base: int = 0) -> None:
        self._text = text
        self._base = base
        self._anchors: dict[str, Node | None] = {}
        self._open: list[_Open] = []
        self._root: Node | None = None
        self.problems: list[Problem] = []

    def documents(self) -> Iterator[tuple[Node, list[Problem]]]:
        """Yields each document with its problems. Raises UnreadableError."""
        loader = None
        try:
            loader = _Loader(self._text)
            while loader.check_event():
                event = loader.get_event()
                match event:
                    case yaml.DocumentStartEvent():
                        self._anchors, self._root, self.problems = {}, None, []
                    case yaml.DocumentEndEvent() if self._root is not None:
                        yield self._root, self.problems
                    case _:
                        self._take(event)
        except yaml.reader.ReaderError as error:
            at = len(self._text.encode()[: error.position].decode(errors="ignore"))
            raise UnreadableError(
                self._base + at, f"it holds a character that YAML does not take: {error.reason}"
            ) from None
        except yaml.MarkedYAMLError as error:
            raise _unreadable(error, self._text, self._base) from None
        finally:
            if loader is not None:
                loader.dispose()

    def _take(self, event: Any) -> None:
        match event:
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._begin(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._end(event)

    def _range(self, event: Any) -> tuple[int, int]:
        return self._base + event.start_mark.index, self._base + event.end_mark.index

    def _scalar(self, event: Any) -> None:
        start, end = self._range(event)
        value = _value(event)
        parent = self._open[-1] if self._open else None
        if parent is not None and parent.is_mapping and not parent.wants_value:
            self._key(parent, event, value, start)
            return
        node = Node(self._begin_of_scalar(event, start), end, value, event.style)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        self._add(node)

    def _begin_of_scalar(self, event: Any, start: int) -> int:
        """Where the scalar itself begins, behind its anchor and its tag."""
        if event.anchor is None and (event.tag is None or event.implicit[0]):
            return start
        at = start - self._base
        while self._text[at : at + 1] in ("&", "!"):
            while self._text[at : at + 1].strip():
                at += 1
            while self._text[at : at + 1] and self._text[at] in " \t\r\n":
                at += 1
        return self._base + at

    def _key(self, parent: _Open, event: Any, value: Scalar, start: int) -> None:
        is_plain = not event.style
        parent.is_merge = is_plain and event.value == _MERGE and event.tag in (None, f"{_TAG}merge")
        text = object_key(value)
        if text is None:
            raise UnreadableError(start, "a key is null: write a name, in quotes if it is to be the text null")
        if not parent.is_merge and text in parent.node.keys:
            read_as = "" if event.value == text else f" ({event.value} without quotes is {text} in YAML)"
            self.problems.append(
                Problem(
                    Rule.DUPLICATE_KEY,
                    start,
                    f"{dotted((*parent.path, text))}: the key is there twice{read_as}, and kubectl takes the last one: remove one of them",
                    parent.path,
                )
            )
        parent.key = (text, start)
        parent.wants_value = True

    def _alias(self, event: Any) -> None:
        start, end = self._range(event)
        if event.anchor not in self._anchors:
            raise UnreadableError(start, f"*{event.anchor} names no anchor: write &{event.anchor} before a value above")
        target = self._anchors[event.anchor]
        if target is None:
            raise UnreadableError(start, f"*{event.anchor} is within its own anchor: write the value itself")
        if self._open and self._open[-1].is_mapping and not self._open[-1].wants_value:
            if isinstance(target.value, dict | list):
                raise UnreadableError(start, "a key must be a scalar")
            self._open[-1].key = (str(object_key(target.value)), start)
            self._open[-1].wants_value = True
            return
        self._add(target if target.children else Node(start, end, target.value, None))

    def _begin(self, event: Any) -> None:
        start, end = self._range(event)
        if len(self._open) >= MAX_DEPTH:
            raise UnreadableError(start, f"it is nested more than {MAX_DEPTH} levels deep")
        parent = self._open[-1] if self._open else None
        if parent is not None and parent.is_mapping and not parent.wants_value:
            raise UnreadableError(start, "a key must be a scalar: a mapping or a list cannot be one")
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        node = Node(start, end, {} if is_mapping else [])
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_Open(node, is_mapping, event.anchor, self._path_of_next()))

    def _path_of_next(self) -> tuple[Step, ...]:
        if not self._open:
            return ()
        parent = self._open[-1]
        if not parent.is_mapping:
            return (*parent.path, len(parent.node.value))
        return (*parent.path, parent.key[0] if parent.key else "")

    def _end(self, event: Any) -> None:
        done = self._open.pop()
        done.node.end = self._base + event.end_mark.index
        if done.anchor is not None:
            self._anchors[done.anchor] = done.node
        self._add(done.node)

    def _add(self, node: Node) -> None:
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        parent.node.size += node.size
        if parent.node.size > len(self._text) + MAX_ALIASED:
            raise UnreadableError(node.start, "its aliases stand for too many values: write them out, or use fewer")
        if not parent.is_mapping:
            parent.node.children[len(parent.node.value)] = node
            parent.node.value.append(node.value)
            return
        assert parent.key is not None
        key, at = parent.key
        parent.wants_value = False
        if parent.is_merge:
            _merge(parent, node, at)
            return
        parent.node.keys[key] = at
        parent.node.children[key] = node
        parent.node.value[key] = node.value


def _unreadable(error: yaml.MarkedYAMLError, text: str, base: int) -> UnreadableError:
    mark = error.problem_mark or error.context_mark
    at = mark.index if mark else 0
    words = " ".join(part for part in (error.problem, error.context) if part)
    begin = error.context_mark
    if begin is not None and error.context and begin.index < at:
        words += f" that begins with {text[begin.index : at].split(chr(10))[0].strip()[:_SHOWN_CHARS]}"
    if text[at : at + 1] == "\t":
        words += "; blanks indent in YAML, tabs cannot"
    return UnreadableError(base + at, words)


def _merge(parent: _Open, node: Node, at: int) -> None:
    sources = list(node.children.values()) if isinstance(node.value, list) else [node]
    if not all(isinstance(source.value, dict) for source in sources):
        raise UnreadableError(at, "<< takes a mapping, or a list of mappings")
    for source in reversed(sources):
        parent.node.children.update(source.children)
        parent.node.value.update(source.value)


def _value(event: Any) -> Scalar:
    is_quoted = bool(event.style) and event.tag is None
    if is_quoted or event.tag in (f"{_TAG}str", "!", f"{_TAG}binary"):
        return str(event.value)
    return resolved(event.value)


def dotted(path: tuple[Step, ...]) -> str:
    """Returns a path as messages show it, such as spec.init[0].sql."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
