"""Processes are found by their environment, and ended with their children; others are not touched."""

import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from localkube import processes
from localkube.shell import ClusterError

SHELL_WITH_CHILD = "trap '' TERM; echo begun; sleep 600 & wait; wait"


@pytest.fixture
def component() -> Iterator[str]:
    """A name that no cluster on this machine uses; what was started under it is ended."""
    name = f"test-{uuid.uuid4()}"
    yield name
    processes.end(lambda: members(name), grace=0)


def members(component: str) -> list[int]:
    return [pid for pid, name in processes.belonging().items() if name == component]


def eventually(condition: Callable[[], bool], seen: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, seen()
        time.sleep(0.02)


def test_running_component_is_known_by_the_pid_of_its_session_leader(component: str, tmp_path: Path) -> None:
    processes.start(component, ["sh", "-c", SHELL_WITH_CHILD], tmp_path / "c.log", {"PATH": os.environ["PATH"]})
    eventually(lambda: len(members(component)) == 2, lambda: members(component))
    main = processes.running()[component]
    assert Path(f"/proc/{main}/comm").read_text().strip() == "sh"
    assert (tmp_path / "c.log").read_text() == "begun\n"


def test_a_component_is_seen_as_soon_as_it_is_started(component: str, tmp_path: Path) -> None:
    """A process has no environment to see for a moment after exec began: 4 of 100 starts were looked at in it."""
    for number in range(100):
        processes.start(component, ["sleep", "600"], tmp_path / "c.log", {"PATH": os.environ["PATH"]})
        assert len(members(component)) == number + 1


def test_ending_a_component_kills_processes_that_ignore_sigterm_and_no_others(component: str, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as bystander:
        processes.start(component, ["sh", "-c", SHELL_WITH_CHILD], tmp_path / "c.log", {"PATH": os.environ["PATH"]})
        eventually(lambda: len(members(component)) == 2, lambda: members(component))
        processes.end(lambda: members(component), grace=0.2)
        assert members(component) == []
        assert component not in processes.running()
        assert bystander.poll() is None
        bystander.kill()


def test_a_component_that_ended_is_reported_with_its_last_words(component: str, tmp_path: Path) -> None:
    processes.start(
        component, ["sh", "-c", "echo last words"], tmp_path / f"{component}.log", {"PATH": os.environ["PATH"]}
    )
    eventually(lambda: component not in processes.running(), processes.running)
    with pytest.raises(ClusterError, match="last words"):
        processes.check_alive([component], tmp_path)


def test_the_log_of_the_life_before_is_kept(component: str, tmp_path: Path) -> None:
    log = tmp_path / "c.log"
    for word in ("first", "second"):
        processes.start(component, ["echo", word], log, {"PATH": os.environ["PATH"]})
        eventually(lambda expected=word: log.read_text() == f"{expected}\n", log.read_text)
    assert (tmp_path / "c.previous.log").read_text() == "first\n"
