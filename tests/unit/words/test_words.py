"""The word check counts words where they are written, and lets no count grow."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.words import __main__ as command
from tests.words import counting, places, prose, storage
from tests.words.counting import Entry, Occurrence, WordList
from tests.words.reading import Part, identifier_words, java_pieces, python_pieces

WORDS = WordList(
    (
        Entry("tell", "tells?", "report"),
        Entry("take back", "t(ake|aken) back", "retract"),
        Entry("stream's text", "stream s text", "query", ("comments", "docs")),
        Entry("test named by a pronoun", r"^test .*\bit\b.*$", "the subject", ("test-code",)),
    )
)


def words_of(file: str, content: str) -> list[tuple[str, str, int]]:
    return [(each.word, each.place, each.line) for each in counting.occurrences(WORDS, file, content, set())]


def test_python_source_is_split_into_names_comments_and_messages() -> None:
    source = '"""Module."""\n\ndef f(x: str) -> str:\n    """Doc."""\n    # why\n    return x + "a \\" b"  # end\n'
    pieces = [(piece.part, piece.text.strip()) for piece in python_pieces(source) if piece.part is not Part.CODE]
    assert pieces == [
        (Part.COMMENTS, '"""Module."""'),
        (Part.COMMENTS, '"""Doc."""'),
        (Part.COMMENTS, "# why"),
        (Part.MESSAGES, '"a \\" b"'),
        (Part.COMMENTS, "# end"),
    ]


def test_java_source_with_slashes_in_a_string_keeps_the_string_whole() -> None:
    pieces = [(piece.part, piece.text) for piece in java_pieces('int n = f("http://x"); // tell\n')]
    assert pieces[-2:] == [(Part.MESSAGES, '"http://x"'), (Part.COMMENTS, "// tell")]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("_is_told", "is told"),
        ("TakenBack", "taken back"),
        ("MOST_ROWS", "most rows"),
        ("readHTTPBody", "read http body"),
    ],
)
def test_identifier_in_any_case_style_is_read_as_words(name: str, words: str) -> None:
    assert identifier_words(name) == words


def test_listed_word_is_counted_in_the_place_where_it_is_written() -> None:
    source = '"""It tells."""\n\n\ndef taken_back() -> str:\n    # Tell of it: the stream\'s text.\n    return "tell"\n'
    assert sorted(words_of("operator/sparksql/x.py", source)) == [
        ("stream's text", "comments", 5),
        ("take back", "code", 4),
        ("tell", "comments", 1),
        ("tell", "comments", 5),
        ("tell", "messages", 6),
    ]


def test_part_of_a_longer_word_is_not_counted() -> None:
    assert words_of("docs/x.md", "An intelligent teller.\n") == []


def test_phrase_over_two_lines_is_counted() -> None:
    assert words_of("docs/x.md", "Rows that are taken\nback.\n") == [("take back", "docs", 1)]


def test_name_used_in_two_files_is_counted_once() -> None:
    seen = set[tuple[str, str]]()
    found = [
        each for file in ("tests/a.py", "tests/b.py") for each in counting.occurrences(WORDS, file, "tell()\n", seen)
    ]
    assert [(each.file, each.place) for each in found] == [("tests/a.py", "test-code")]


def test_test_name_with_a_pronoun_is_counted() -> None:
    assert words_of("tests/a.py", "def test_with_it(): ...\n") == [("test named by a pronoun", "test-code", 1)]


def test_sentence_over_the_limit_in_an_item_is_found_at_its_line() -> None:
    page = "# Title\n\n- Short.\n- " + "word " * 20 + "\n  " + "word " * 11 + "end.\n\n| " + "cell " * 31 + "|\n"
    assert list(prose.long_sentences(page)) == [4, 7]


def test_code_and_link_targets_are_not_counted_as_words_of_a_sentence() -> None:
    page = "See [x](" + "a b " * 20 + ") and `" + "c " * 40 + "`.\n\n```\n" + "word " * 40 + "\n```\n"
    assert list(prose.long_sentences(page)) == []


def test_long_line_outside_tables_and_code_blocks_is_found() -> None:
    long = "x" * 131
    assert list(prose.long_lines(f"{long}\n| {long} |\n```\n{long}\n```\n")) == [1]


def test_counts_that_grew_and_fell_are_named_with_both_numbers() -> None:
    stored, now = {("tell", "docs"): 2, ("tell", "code"): 2}, {("tell", "docs"): 3, ("ask", "docs"): 1}
    assert counting.grown(stored, now) == {("tell", "docs"): (2, 3), ("ask", "docs"): (0, 1)}
    assert counting.fallen(stored, now) == {("tell", "code"): (2, 0)}


def test_word_without_an_occurrence_is_counted_as_zero() -> None:
    counts = counting.counted(WORDS, [Occurrence("tell", "code", "x.py", 1, "tell")])
    assert counts[("tell", "code")] == 1
    assert counts[("take back", "docs")] == 0


def test_stored_counts_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "counts.csv"
    storage.store_counts({("tell", "docs"): 2, ("ask, say", "code"): 1, ("gone", "docs"): 0}, file)
    assert storage.stored_counts(file) == {("tell", "docs"): 2, ("ask, say", "code"): 1, ("gone", "docs"): 0}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one counted page, as the command sees its own."""
    for arguments in (("init", "-q"), ("config", "user.email", "t@example.com"), ("config", "user.name", "t")):
        subprocess.run(("git", *arguments), cwd=tmp_path, check=True)
    (tmp_path / "page.md").write_text("It tells.\n")
    counts = tmp_path / "counts.csv"
    monkeypatch.setattr(places, "ROOT", tmp_path)
    monkeypatch.setattr(storage, "COUNTS", counts)
    monkeypatch.setattr(storage.stored_counts, "__defaults__", (counts,))
    monkeypatch.setattr(storage.store_counts, "__defaults__", (counts,))
    assert command.main(["--write"]) == 0
    subprocess.run(("git", "add", "."), cwd=tmp_path, check=True)
    subprocess.run(("git", "commit", "-qm", "Add a page"), cwd=tmp_path, check=True)
    return tmp_path


def test_check_of_unchanged_counts_succeeds(repository: Path) -> None:
    assert command.main(["--check"]) == 0


def test_check_of_a_grown_count_names_the_added_line(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "page.md").write_text("It tells.\n\nNothing here.\n\nMore is told.\n")
    assert command.main(["--check"]) == 1
    errors = capsys.readouterr().err
    assert "'told' in docs: 0 -> 1" in errors
    assert "page.md:5: [told, docs] More is told." in errors
    assert "page.md:1" not in errors


def test_write_of_a_grown_count_is_refused(repository: Path) -> None:
    (repository / "page.md").write_text("It tells. It tells.\n")
    before = (repository / "counts.csv").read_text()
    assert command.main(["--write"]) == 1
    assert (repository / "counts.csv").read_text() == before


def test_check_of_a_fallen_count_prints_the_command_that_stores_it(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "page.md").write_text("It reports.\n")
    assert command.main(["--check"]) == 1
    assert "`python -m tests.words --write`" in capsys.readouterr().err
    assert command.main(["--write"]) == 0
    assert command.main(["--check"]) == 0


def test_list_of_an_unknown_word_names_the_listed_ones(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list", "anwe"]) == 2
    assert "anew" in capsys.readouterr().err


def test_occurrences_in_commit_subjects_are_counted() -> None:
    found = list(counting.in_commits(WORDS, ["Tell the front", "Report the lag"]))
    assert found == [Occurrence("tell", "commits", "git log", 0, "Tell the front")]
