"""Following through broken watches, with a small program in the place of kubectl that plays one script a call."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from sparksql.cli import follow as module
from sparksql.cli.console import Console
from sparksql.cli.follow import follow
from sparksql.cli.kubectl import Kubectl, KubectlError
from sparksql.cli.objects import Statement

REFUSED = "echo 'The connection to the server 127.0.0.1 was refused' >&2; exit 1"
FORBIDDEN = "echo 'Error from server (Forbidden): no' >&2; exit 1"
NOT_FOUND = "echo 'Error from server (NotFound): no' >&2; exit 1"
SILENT = "exec sleep 60"
OVER = ":"


def document(phase: str, uid: str = "u") -> dict[str, Any]:
    conditions = [{"type": "Finished", "status": "True" if phase == "Finished" else "False"}]
    return {
        "metadata": {"name": "s", "namespace": "n", "uid": uid, "generation": 1},
        "spec": {"sql": "SELECT 1"},
        "status": {"observedGeneration": 1, "phase": phase, "conditions": conditions},
    }


def says(kind: str, phase: str, uid: str = "u") -> str:
    return f"echo '{json.dumps({'type': kind, 'object': document(phase, uid)})}'"


def answers(phase: str, uid: str = "u") -> str:
    return f"echo '{json.dumps(document(phase, uid))}'"


ERROR_EVENT = """echo '{"type": "ERROR", "object": {"kind": "Status", "code": 410}}'"""


def playing(folder: Path, calls: list[str]) -> Kubectl:
    """A program whose n-th call plays the n-th script, the last one for ever."""
    for number, script in enumerate(calls):
        (folder / str(number)).write_text(script + "\n")
    program = folder / "kubectl"
    program.write_text(
        f"#!/bin/sh\ncd {folder}\nn=$(cat calls 2>/dev/null || echo 0)\necho $((n + 1)) > calls\n"
        f"[ -f $n ] || n={len(calls) - 1}\n. ./$n\n"
    )
    program.chmod(0o755)
    return Kubectl(program=str(program))


@pytest.mark.parametrize(
    ("calls", "phase", "deleted"),
    [
        ([says("ADDED", "Finished")], "Finished", False),
        ([says("ADDED", "Running"), says("ADDED", "Finished")], "Finished", False),
        ([REFUSED, REFUSED, says("ADDED", "Finished")], "Finished", False),
        ([says("ADDED", "Running") + "\n" + ERROR_EVENT, says("ADDED", "Finished")], "Finished", False),
        ([says("ADDED", "Running") + "\n" + says("DELETED", "Running")], "Running", True),
        ([OVER, says("ADDED", "Finished")], "Finished", False),
        ([SILENT, NOT_FOUND], "Pending", True),
        ([SILENT, answers("Finished")], "Finished", False),
        ([SILENT, answers("Finished", uid="other")], "Pending", True),
        ([says("ADDED", "Finished", uid="other")], "Pending", True),
    ],
)
async def test_follow_misses_no_end_of_a_statement(
    calls: list[str], phase: str, deleted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if SILENT in calls:  # for all others the deadline stays as long as a slow machine may need
        monkeypatch.setattr(module, "FIRST_EVENT_SECONDS", 0.5)
    known = Statement.of(document("Pending"))
    (ended,) = await follow(playing(tmp_path, calls), [known], lambda s: s.has_ended, Console())
    assert (ended.status.phase, ended.deleted) == (phase, deleted)


async def test_follow_that_is_forbidden_to_read_fails_at_once_without_a_retry(tmp_path: Path) -> None:
    kubectl = playing(tmp_path, [FORBIDDEN])
    with pytest.raises(KubectlError, match="Forbidden"):
        await follow(kubectl, [Statement.of(document("Pending"))], lambda s: s.has_ended, Console())
    assert (tmp_path / "calls").read_text() == "1\n"


async def test_an_api_server_that_stays_away_ends_the_following(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WATCH_RETRIES", 1)
    with pytest.raises(KubectlError, match="refused"):
        await follow(playing(tmp_path, [REFUSED]), [Statement.of(document("Pending"))], lambda _: False, Console())
    assert (tmp_path / "calls").read_text() == "2\n"


async def test_follow_of_an_ended_statement_starts_no_watch(tmp_path: Path) -> None:
    kubectl = playing(tmp_path, [REFUSED])
    (ended,) = await follow(kubectl, [Statement.of(document("Finished"))], lambda s: s.has_ended, Console())
    assert ended.has_ended
    assert not (tmp_path / "calls").exists()


WAITING = json.dumps(
    {
        **document("Initialized"),
        "spec": {"sql": "SELECT 1", "sessionRef": {"name": "analytics"}},
    }
)
SESSION = json.dumps(
    {
        "metadata": {"name": "analytics", "namespace": "n"},
        "status": {
            "phase": "Starting",
            "conditions": [{"type": "Ready", "status": "False", "reason": "Unschedulable", "message": "no node"}],
        },
    }
)


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_follow_without_a_terminal_notes_once_what_the_session_waits_for(
    is_allowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("LOOK_SECONDS", 0.05), ("NOTE_SECONDS", 0.3), ("REDRAW_SECONDS", 0.05)):
        monkeypatch.setattr(module, name, seconds)
    program = tmp_path / "kubectl"
    answer = f"echo '{SESSION}'" if is_allowed else FORBIDDEN
    event = f'{{"type": "ADDED", "object": {WAITING}}}'
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *sqlsessions*) {answer};;\n'
        f"*) echo '{event}'; sleep 3; {says('MODIFIED', 'Finished')};; esac\n"
    )
    program.chmod(0o755)
    err = io.StringIO()
    known = Statement.of(json.loads(WAITING))
    await follow(Kubectl(program=str(program)), [known], lambda s: s.has_ended, Console(io.StringIO(), err))
    noted = "s: Initialized: session analytics: Unschedulable: no node\n"
    assert err.getvalue() == (noted if is_allowed else "")
