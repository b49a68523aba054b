"""Every pattern of the tree reads a text in time that is in proportion to its length, whatever the text."""

from __future__ import annotations

import ast
import itertools
import re

import pytest

from tests.support.patterns.attacks import attacks, growth, reader
from tests.support.patterns.found import Found, modules, patterns

# Patterns that are made of what a function is given, and where texts are tried with them.
MADE_AT_RUN_TIME = {
    "operator/sparksql/gateway/catalog/name_patterns.py: _regex": "tests/unit/gateway/test_name_patterns.py",
    # Those of the CRDs' schemas, for values within the length that the schema allows.
    "operator/sparksql/lint/schema/structure.py: _pattern": "tests/lint/test_wrong_manifests.py",
    "operator/sparksql/local/objects/schema.py: _bounds": "tests/unit/local/test_schema.py",
    # Those of the CRDs' rules, which are written as patterns of fields are.
    "operator/sparksql/local/objects/rules.py: _matches": "tests/unit/local/test_schema.py",
}
OTHER_WAYS = frozenset({"fnmatch", "glob", "regex", "re2", "sre_compile"})  # to patterns that this test does not find


def slow(found: Found) -> str | None:
    """How a pattern is slow by one of the methods that use it, None if it is not."""
    for method, attack in itertools.product(sorted(found.methods), attacks(found.pattern, found.flags)):
        if (told := growth(reader(found.compiled, method), attack)) is not None:
            return f"{found.place} {found.name}.{method}: {told}, as for {attack(24)!r}"
    return None


def test_patterns_of_the_tree_read_any_text_in_linear_time() -> None:
    found, _ = patterns()
    assert [told for each in found if (told := slow(each)) is not None] == []


def test_patterns_of_the_tree_are_found() -> None:
    found, at_run_time = patterns()
    names = {(each.place, each.name) for each in found}
    assert ("operator/sparksql/gateway/sql/text_bounds.py", "_TOKEN") in names
    assert ("operator/sparksql/gateway/sessions/flink_dialect.py", "_SET") in names  # of constants of its module
    assert ("operator/sparksql/front/naming.py", "own_name") in names  # given to re.sub as it is
    assert len(found) > 80
    assert set(at_run_time) == set(MADE_AT_RUN_TIME), "drive it with the texts of a client, and list it"


def test_methods_by_which_patterns_read_are_found() -> None:
    found, _ = patterns()
    methods = {(each.place.removeprefix("operator/sparksql/"), each.name): each.methods for each in found}
    assert methods["gateway/sql/text_bounds.py", "_TOKEN"] == {"match"}
    assert methods["gateway/sql/text_bounds.py", "_COMMENT_EDGE"] == {"search"}
    assert methods["front/naming.py", "own_name"] == {"sub"}


def test_patterns_come_from_re_alone() -> None:
    imports = {
        (module.place, name)
        for module in modules()
        if module.name is not None  # what the images are built with reads no client's text
        for node in ast.walk(module.tree)
        for name in _imported(node)
        if name.partition(".")[0] in OTHER_WAYS or name.startswith("re.") or name == "re as"
    }
    assert imports == set()


def _imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [f"{each.name} as" if each.asname else each.name for each in names]
        case ast.ImportFrom(module=str(module), names=names):
            return [f"{module}.{each.name}" for each in names]
        case _:
            return []


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"/*(?P<compat>compat/+)?(?:v[1-4]/+)?(?P<rest>.*?)/*", "fullmatch"),
        (r"[;,]?\s*\(?line \d+,? pos(?:ition)? \d+\)?\s*$|;\s*line \d+\s*$", "sub"),
        (r"(a+)+$", "match"),
        (r"(?:a|a)*b", "match"),
        (r"(\w+\s?)*!", "fullmatch"),
        (r"\s+$", "search"),
        (r"<[^>]*>", "sub"),
        (r"'(?:[^'\\]|\\.|'')*'x", "search"),
        (r"begin(?:x|y)*(?:x|z)*end", "match"),
    ],
    ids=range(9),
)
def test_pattern_that_backtracks_is_found_slow(pattern: str, method: str) -> None:
    assert slow(Found("here", "it", pattern, 0, frozenset({method}))) is not None


@pytest.mark.parametrize(
    ("pattern", "method"),
    [(r"\s++x", "match"), (r"(?:a|b)*+c", "fullmatch"), (r"[a-z0-9-]{1,63}", "fullmatch"), (r"/\*|\*/", "findall")],
)
def test_pattern_that_does_not_backtrack_is_not_found_slow(pattern: str, method: str) -> None:
    assert slow(Found("here", "it", pattern, re.IGNORECASE, frozenset({method}))) is None
