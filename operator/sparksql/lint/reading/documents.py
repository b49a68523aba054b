"""Divides a file into documents as kubectl does, and reads each: a mistake in one hides nothing of the others. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from sparksql.lint.findings import Rule
from sparksql.lint.reading.nodes import Builder, Node, Problem, UnreadableError
from sparksql.lint.reading.source import Source

# A line that ends a document, as YAMLReader of k8s.io/apimachinery finds it.
_SEPARATOR = re.compile(r"^---(?=[ \t]*(?:#.*)?\r?$)", re.MULTILINE)
_DIRECTIVE = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*%")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


@dataclass(frozen=True)
class Document:
    """One document of a file. `root` is None for one that cannot be read, whose text is `text`."""

    source: Source = field(repr=False)
    text: str = field(repr=False)
    root: Node | None = field(repr=False)
    problems: tuple[Problem, ...] = ()


def documents(source: Source) -> Iterator[Document]:
    """Yields the documents of a file that are not empty."""
    text = source.text
    if text.lstrip().startswith("{"):
        try:
            yield from list(_json_documents(source))
        except json.JSONDecodeError:
            pass  # kubectl, too, reads it as YAML then
        else:
            return
    for start, end in _parts(text):
        yield from _yaml_documents(source, text[start:end], start)


def _parts(text: str) -> Iterator[tuple[int, int]]:
    starts = [0, *(found.start() for found in _SEPARATOR.finditer(text) if found.start() > 0)]
    ends = [*starts[1:], len(text)]
    begin = 0
    for start, end in zip(starts, ends, strict=True):
        if _DIRECTIVE.match(text, start, end):  # belongs to the document behind the separator
            continue
        yield begin if _DIRECTIVE.match(text, begin, start) else start, end
        begin = end


def _yaml_documents(source: Source, text: str, base: int) -> Iterator[Document]:
    builder = Builder(text, base)
    try:
        for root, problems in builder.documents():
            if root.value is not None:
                yield Document(source, text, root, tuple(problems))
    except UnreadableError as error:
        message = f"the document cannot be read: {error.message}"
        yield Document(source, text, None, (Problem(Rule.YAML_SYNTAX, error.at, message),))


def _json_documents(source: Source) -> Iterator[Document]:
    """JSON values one after the other. Raises JSONDecodeError."""
    text, decoder, at = source.text, json.JSONDecoder(), 0
    while rest := text[at:].lstrip():
        start = len(text) - len(rest)
        _, at = decoder.raw_decode(text, start)
        part = text[start:at]
        # libyaml does not take the two halves of a character: they are read again, by the JSON decoder.
        for document in _yaml_documents(source, _SURROGATE.sub(r"\\uFFFD", part), start):
            if document.root is not None and _SURROGATE.search(part):
                _read_again(document.root, text)
            yield document


def _read_again(node: Node, text: str) -> None:
    for step, child in node.children.items():
        if child.style == '"':
            child.value = json.loads(text[child.start : child.end])
        node.value[step] = child.value
        _read_again(child, text)
