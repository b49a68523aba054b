"""The table of mistakes: a test proves each row, with its place and its remedy."""

from __future__ import annotations

import ast

import pytest

from tests.support.mistakes import TESTS, Row, assert_answered, rows

MISTAKES, REMEDIES = 69, 66


def proofs(file: str) -> tuple[set[str], bool]:
    """The texts in a file that asserts answers, and whether the table gives the file its cases."""
    tree = ast.parse((TESTS / file).read_text())
    called = {
        node.func.id: node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    if "assert_answered" not in called:
        return set(), False
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    cases = called.get("rows_of")
    return texts, cases is not None and ast.literal_eval(cases.args[0]) == file


def test_table_of_mistakes_has_each_mistake_once() -> None:
    names = [row.mistake for row in rows()]
    assert len(names) == len(set(names)) == MISTAKES


def test_each_mistake_is_proven_by_the_test_of_its_file() -> None:
    known = {file: proofs(file) for file in {row.file for row in rows()}}
    lacking = [row for row in rows() if row.mistake not in known[row.file][0] and not known[row.file][1]]
    assert lacking == []


def test_case_of_each_mistake_is_in_the_file_that_proves_it() -> None:
    assert [row for row in rows() if row.case not in (TESTS / row.file).read_text()] == []


def test_each_mistake_has_a_place_and_a_remedy_or_a_reason_for_none() -> None:
    assert [row for row in rows() if not row.place or bool(row.remedy) == bool(row.unremedied)] == []
    assert sum(bool(row.remedy) for row in rows()) >= REMEDIES


def test_answer_without_the_place_or_the_remedy_is_no_proof() -> None:
    row = next(row for row in rows() if row.remedy and row.position is None)
    assert isinstance(row, Row)
    assert_answered(row.mistake, row.place, row.remedy)
    for answer in (row.place, row.remedy):
        with pytest.raises(AssertionError):
            assert_answered(row.mistake, answer)
