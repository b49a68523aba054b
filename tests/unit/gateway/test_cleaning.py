"""Removal of a savepoint: what it refuses, and that no moment of it leaves a half for a whole or what nobody can go on with."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from sparksql.gateway import clean as program
from sparksql.gateway.streaming.checkpoints.deletion import CleaningError, DeletionRefusedError, check_place, clean

ROOT = "s3a://lake/savepoints"
TARGET = f"{ROOT}/team-a/orders/before-release-uid-1"
UID = "uid-1"


class Died(Exception):
    """The process ends here."""


class FakeFiles:
    """Files by URI; folders are there while files are below them, or as `name/`. May die before the n-th change."""

    def __init__(self, files: dict[str, str], dies_before: int | None = None, read_only: str = "") -> None:
        self.files = dict(files)
        self.dies_before = dies_before
        self.read_only = read_only

    def _below(self, uri: str) -> list[str]:
        return [each for each in self.files if each == uri or each.startswith(f"{uri.rstrip('/')}/")]

    def exists(self, uri: str) -> bool:
        return bool(self._below(uri))

    def children(self, folder: str) -> list[str]:
        names = {each.removeprefix(f"{folder}/").split("/")[0] for each in self._below(folder)}
        return [f"{folder}/{name}" for name in sorted(names) if name]

    def delete(self, uri: str) -> bool:
        if self.dies_before is not None:
            self.dies_before -= 1
            if self.dies_before < 0:
                raise Died
        if self.read_only and uri.endswith(self.read_only):
            return False
        found = self._below(uri)
        for each in found:
            del self.files[each]
        return bool(found)

    def open(self, uri: str) -> io.BytesIO:
        return io.BytesIO(self.files[uri].encode())


def savepoint(target: str = TARGET, uid: str = UID) -> dict[str, str]:
    """Beside it lies another object's, so that the root is there whatever happens."""
    return {
        f"{target}/owner.json": json.dumps({"uid": uid, "namespace": "team-a", "name": "before-release"}),
        f"{target}/checkpoint/metadata": "{}",
        f"{target}/checkpoint/offsets/0": "v1",
        f"{target}/manifest.json": "{}",
        f"{ROOT}/team-a/orders/other-uid-2/owner.json": json.dumps({"uid": "uid-2"}),
    }


OTHER = {f"{ROOT}/team-a/orders/other-uid-2/owner.json": json.dumps({"uid": "uid-2"})}


def test_all_of_a_savepoint_goes_and_nothing_else() -> None:
    files = FakeFiles(savepoint())
    assert clean(files, TARGET, ROOT, UID) is True
    assert files.files == OTHER
    assert clean(files, TARGET, ROOT, UID) is False


@pytest.mark.parametrize("changes", range(4))
def test_an_interrupted_savepoint_removal_looks_incomplete_and_can_be_resumed(changes: int) -> None:
    files = FakeFiles({**savepoint(), f"{TARGET}/": ""}, dies_before=changes)
    with pytest.raises(Died):
        clean(files, TARGET, ROOT, UID)
    whole = {name for name in files.files if name.startswith(f"{TARGET}/checkpoint/")}
    assert changes == 0 or f"{TARGET}/manifest.json" not in files.files
    assert f"{TARGET}/owner.json" in files.files or not whole
    files.dies_before = None
    assert clean(files, TARGET, ROOT, UID) is True
    assert files.files == OTHER


@pytest.mark.parametrize("kept", ["manifest.json", "checkpoint", "owner.json", "-uid-1"])
def test_savepoint_removal_fails_on_a_file_that_the_file_system_keeps(kept: str) -> None:
    files = FakeFiles({**savepoint(), f"{TARGET}/": ""}, read_only=kept)
    with pytest.raises(CleaningError, match="still there"):
        clean(files, TARGET, ROOT, UID)
    if kept == "manifest.json":
        assert files.files == {**savepoint(), f"{TARGET}/": ""}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({f"{TARGET}/owner.json": json.dumps({"uid": "uid-2"})}, "does not name UID uid-1"),
        ({f"{TARGET}/owner.json": json.dumps({"uid": None})}, "does not name UID"),
        ({f"{TARGET}/owner.json": json.dumps(["uid-1"])}, "does not name UID"),
        ({f"{TARGET}/owner.json": ""}, "does not name UID"),
        ({f"{TARGET}/owner.json": None}, "has no owner.json"),
        ({f"{TARGET}/live-checkpoint/metadata": "{}"}, "no part of a savepoint: live-checkpoint"),
    ],
)
def test_savepoint_removal_leaves_a_folder_of_doubtful_ownership_alone(
    change: dict[str, str | None], complaint: str
) -> None:
    before = {name: text for name, text in {**savepoint(), **change}.items() if text is not None}
    files = FakeFiles(before)
    with pytest.raises(DeletionRefusedError, match=complaint):
        clean(files, TARGET, ROOT, UID)
    assert files.files == before


def test_leftovers_of_file_systems_do_not_keep_a_savepoint() -> None:
    files = FakeFiles({**savepoint(), f"{TARGET}/.manifest.json.crc": "", f"{TARGET}/_temporary/0": ""})
    assert clean(files, TARGET, ROOT, UID) is True
    assert files.files == OTHER


def test_an_empty_uid_owns_nothing() -> None:
    with pytest.raises(DeletionRefusedError, match="does not name"):
        clean(FakeFiles(savepoint(uid="")), TARGET, ROOT, "")


def test_absence_is_believed_only_of_a_root_that_is_there() -> None:
    with pytest.raises(DeletionRefusedError, match="its keys"):
        clean(FakeFiles({}), TARGET, ROOT, UID)


class Clock:
    """Time that passes only while somebody sleeps."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_storage_that_is_away_for_a_moment_is_tried_again() -> None:
    clock, answers = Clock(), [CleaningError("no address"), CleaningError("refused"), True]

    def attempt() -> bool:
        answer = answers.pop(0)
        if isinstance(answer, CleaningError):
            raise answer
        return bool(answer)

    assert program.persistently(attempt, clock, clock.sleep) is True
    assert clock.now == 2 * program.PAUSE_SECONDS


def test_storage_that_stays_away_fails_the_attempt_with_its_last_word() -> None:
    clock = Clock()

    def attempt() -> bool:
        raise CleaningError(f"at {clock.now:g}")

    with pytest.raises(CleaningError, match=f"at {program.RETRY_SECONDS:g}"):
        program.persistently(attempt, clock, clock.sleep)


@pytest.mark.parametrize("error", [DeletionRefusedError("of another"), ValueError("a defect")])
def test_a_failure_that_another_attempt_would_meet_as_well_is_not_tried_again(error: Exception) -> None:
    clock = Clock()

    def attempt() -> bool:
        raise error

    with pytest.raises(type(error)):
        program.persistently(attempt, clock, clock.sleep)
    assert clock.now == 0


@pytest.mark.parametrize(
    ("target", "root"),
    [
        ("file:///data/savepoints/a", "file:///data/savepoints"),
        ("file:///data/savepoints/a/", "file:///data/savepoints/"),
        ("file:///data/savepoints//a/b", "file:/data/savepoints"),
        ("s3a://lake/a", "s3a://lake"),
        ("abfs://fs@account.dfs.core.windows.net/s/a b%2e", "abfs://fs@account.dfs.core.windows.net/s"),
        ("hdfs:///s/a?b#c", "hdfs:///s"),
    ],
)
def test_places_below_the_root_may_be_cleaned(target: str, root: str) -> None:
    check_place(target, root)


@pytest.mark.parametrize(
    ("target", "root"),
    [
        ("file:///data/savepoints", "file:///data/savepoints"),
        ("file:///data/savepoints/", "file:///data/savepoints"),
        ("file:///data", "file:///data/savepoints"),
        ("file:///data/savepoints-2/a", "file:///data/savepoints"),
        ("file:///data/checkpoints/a", "file:///data/savepoints"),
        ("file:///data/savepoints/../checkpoints/a", "file:///data/savepoints"),
        ("file:///data/savepoints/a/..", "file:///data/savepoints"),
        ("file:///data/savepoints/./a", "file:///data/savepoints"),
        ("file:///data/savepoints/a", "file:///data/../data/savepoints"),
        ("s3a://lake/savepoints/a", "s3a://other/savepoints"),
        ("s3a://lake/savepoints/a", "s3n://lake/savepoints"),
        ("s3a://lake", "s3a://lake"),
        ("/data/savepoints/a", "/data/savepoints"),
        ("savepoints/a", "savepoints"),
        ("file:data/savepoints/a", "file:data/savepoints"),
        ("", ""),
    ],
)
def test_places_not_below_the_root_are_refused(target: str, root: str) -> None:
    with pytest.raises(DeletionRefusedError, match=r"is not below|no plain location"):
        check_place(target, root)


def test_the_cleanup_program_writes_its_refusal_to_the_termination_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong place is refused before anything is started."""
    word = tmp_path / "termination-log"
    word.touch()
    monkeypatch.setattr(program, "TERMINATION_LOG", word)
    arguments = ["--target", f"{ROOT}/../x", "--root", ROOT, "--owner-uid", UID]
    monkeypatch.setattr("sys.argv", ["clean", *arguments])
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == program.REFUSED
    assert word.read_text().startswith(f"refused: {ROOT}/../x is no plain location")
