"""A failing line of a test run is understood alone: the name of each test tells its subject, what happens and what comes of it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ARTICLES = {"a", "an", "the"}
WITHOUT_SUBJECT = {"it", "its", "one", "that", "these", "they", "this", "those", "what", "which", "who"}
LEAST_WORDS = 3


def names(file: Path) -> list[str]:
    tree = ast.parse(file.read_text())
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [each.name for each in functions if each.name.startswith("test_")]


def is_understood(name: str) -> bool:
    words = [word for word in name.removeprefix("test_").split("_") if word not in ARTICLES]
    return len(words) >= LEAST_WORDS and words[0] not in WITHOUT_SUBJECT


@pytest.mark.parametrize(
    "folder", sorted({file.parent for file in TESTS.rglob("test_*.py")}), ids=lambda path: path.name
)
def test_names_of_tests_have_a_subject_and_three_words(folder: Path) -> None:
    found = {file.name: [name for name in names(file) if not is_understood(name)] for file in folder.glob("test_*.py")}
    assert {file: bad for file, bad in found.items() if bad} == {}


@pytest.mark.parametrize("name", ["test_types", "test_the_catalog", "test_one_is_let_go", "test_a_that_is_wrong"])
def test_name_without_a_subject_or_with_two_words_is_found(name: str) -> None:
    assert not is_understood(name)
