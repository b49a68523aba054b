"""YAML is read as kubectl reads it, and every value has its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparksql.lint.findings import Rule
from sparksql.lint.reading.documents import documents
from sparksql.lint.reading.scalar_places import position
from sparksql.lint.reading.source import Source
from tests.lint.running import SESSION, STATEMENT, findings, found

# What sigs.k8s.io/yaml 1.6 with go-yaml 2.4, which kubectl is built with, makes of these texts (measured).
AS_KUBECTL = {
    "y": True, "Yes": True, "on": True, "TRUE": True, "tRue": "tRue", "n": False, "off": False, "~": None, "nULL": "nULL",
    "012": 10, "08": 8, "0o14": 12, "0x1F": 31, "+0x1F": 31, "0b11": 3, "-0b11": -3, "0b2": "0b2", "1_000": 1000,
    "1_0.5": 10.5, "1e3": 1000, "1.0": 1, "2.50": 2.5, "-.5": -0.5, "1.": 1, "._5": "._5", "1e400": "1e400", "-0": 0,
    "12:30": "12:30", "1:30:00": "1:30:00", "2026-01-31": "2026-01-31", "2026-01-31T10:00:00Z": "2026-01-31T10:00:00Z",
    "!!str 12": "12", '!!int "12"': 12, "! 12": "12", '"12"': "12", "'yes'": "yes", "=": "=", "18446744073709551615": 2**64 - 1,
}  # fmt: skip


def values(text: str) -> list[Any]:
    return [document.root.value for document in documents(Source("f", text)) if document.root is not None]


@pytest.mark.parametrize(("text", "value"), AS_KUBECTL.items())
def test_a_plain_scalar_is_read_as_by_kubectl(text: str, value: object) -> None:
    assert values(f"a: {text}\n") == [{"a": value}]
    assert type(values(f"a: {text}\n")[0]["a"]) is type(value)


@pytest.mark.parametrize(
    ("key", "text"), [("on", "true"), ("no", "false"), ("012", "10"), ("1.5", "1.5"), ('"on"', "on")]
)
def test_a_key_is_a_string_as_in_json(key: str, text: str) -> None:
    assert values(f"{key}: 1\n") == [{text: 1}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ("---\n# nothing\n---\na: 1\n--- # more\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ("%YAML 1.1\n---\na: 1\n", [{"a": 1}]),
        ("a: |\n  ---\n  x\n", [{"a": "---\nx\n"}]),
        ('{"a": 1}\n{"a": 2}', [{"a": 1}, {"a": 2}]),
        ('\n{"a": "\\ud83d\\ude00", "b": "\\/"}', [{"a": "\N{GRINNING FACE}", "b": "/"}]),
        ("{a: 1, b: [c]}", [{"a": 1, "b": ["c"]}]),
        ("x: &a {p: 1}\nz: {<<: *a, q: 2}\nw: *a\n", [{"x": {"p": 1}, "z": {"p": 1, "q": 2}, "w": {"p": 1}}]),
        ("a: [\n---\nb: 2\n", [{"b": 2}]),
    ],
    ids=[
        "two",
        "empty ones",
        "directive",
        "in a block",
        "JSON stream",
        "surrogates",
        "flow",
        "aliases",
        "broken first",
    ],
)
def test_documents_are_divided_as_by_kubectl(text: str, expected: list[Any]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "sql: |\n  SELECT 1\n\n    FROM t\n  WHERE é\n",
        "sql: |2\n    SELECT 1\n  FROM t\n",
        "sql: |- # keep\n\n\n   SELECT 1\n    FROM t\n   WHERE x",
        "sql: |+\n  SELECT 1\n\n\n",
        "sql: >-\n  SELECT a,\n  b\n\n  FROM t\n    WHERE x\n  AND y\n",
        "sql: 'SELECT ''a''\n  , ''b'' FROM t'\n",
        'sql: "SELECT \\"a\\"\\n , \\x41 \\u0041 \\\n   b FROM\n   t"\n',
        "sql: SELECT 1\n   FROM t\n\n   WHERE x\n",
        "sql: &text !!str |\r\n  SELECT 1\r\n  FROM t\r\n",
        '{"sql": "SELECT 1\\nFROM \\"t\\" \\/ x"}',
    ],
    ids=["literal", "indent", "stripped", "kept", "folded", "single", "double", "plain", "tagged, CRLF", "JSON"],
)
def test_each_character_of_a_scalar_has_a_place_in_the_file(text: str) -> None:
    root = next(iter(documents(Source("f", text)))).root
    assert root is not None
    node = root.children["sql"]
    for offset, char in enumerate(node.value):
        if not char.isspace():
            at = position(text, node.start, node.end, node.style, node.value, offset)
            assert text[at] in (char, "\\"), (offset, char, at)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (STATEMENT + "  session: {}\n  sql: SELECT 1\n  mode: execute\n", (7, 9, Rule.VALUE)),
        ("\ufeff" + SESSION + "  clasName: a\n", (5, 3, Rule.UNKNOWN_FIELD)),
        (SESSION.replace("\n", "\r\n") + "  clasName: a\r\n", (5, 3, Rule.UNKNOWN_FIELD)),
        (SESSION.replace("\n", "\r") + "  clasName: a\r", (5, 3, Rule.UNKNOWN_FIELD)),
        (
            SESSION + "  # éé\N{GRINNING FACE}\n  init: [{sql: é\N{GRINNING FACE}}, {sqlFom: x, sql: a}]\n",
            (6, 22, Rule.UNKNOWN_FIELD),
        ),
    ],
    ids=["plain", "byte order mark", "CRLF", "CR", "wide characters"],
)
def test_places_count_from_1_in_characters(tmp_path: Path, text: str, place: tuple[int, int, Rule]) -> None:
    assert found(tmp_path, text) == [place]


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 100_000,
        "- " * 100_000 + "a",
        "a0: &a0 [1,2,3,4,5,6,7,8,9]\n" + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)),
        "a: &a [*a]",
        "? [1]\n: 2",
        "~: 1",
        "a: *b",
        "<<: 1",
        "a: \x01",
        "a: \x00",
    ],
    ids=["deep", "deep block", "many aliases", "alias of itself", "list as key", "null key", "unknown alias", "merged scalar",
         "control character", "null character"],
)  # fmt: skip
def test_an_unreadable_document_is_a_single_finding(tmp_path: Path, text: str) -> None:
    rules = [rule for _, _, rule in found(tmp_path, f"{SESSION}  className: a\n---\n{text}")]
    assert rules == [Rule.YAML_SYNTAX]


def test_a_file_of_another_encoding_is_a_finding_at_the_first_wrong_byte(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(SESSION.encode() + b"  className: \xe9\n")
    assert [(each.line, each.column, each.rule) for each in findings(tmp_path)] == [(5, 14, Rule.YAML_SYNTAX)]


def test_an_annotation_suppresses_a_duplicate_key_of_the_same_resource_alone(tmp_path: Path) -> None:
    ignoring = "metadata: {name: daily, annotations: {sparksql.dev/lint-ignore: duplicate-key}}"
    twice = "  session: {}\n  sql: SELECT 1\n  sql: SELECT 2\n"
    other = STATEMENT.replace("name: daily", "name: hourly")
    text = STATEMENT.replace("metadata: {name: daily}", ignoring) + twice + "---\n" + other + twice
    assert found(tmp_path, text) == [(15, 3, Rule.DUPLICATE_KEY)]
