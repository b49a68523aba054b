"""Processes of pods end with the one that started them, and one that was left is ended before anything starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sparksql.local.instance import Instance, InstanceError
from sparksql.local.pods import processes

SECONDS = 60.0
STARTER = """
import asyncio, os, sys
from pathlib import Path
from sparksql.local.pods import processes
async def main():
    folder = Path(sys.argv[1])
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    process = await processes.start(sleeper, {**os.environ, "POD_UID": "u"}, folder, folder / "log", folder)
    print(process.pid, flush=True)
    await process.wait()
asyncio.run(main())
"""


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _ends(pid: int) -> bool:
    deadline = time.monotonic() + SECONDS
    while _runs(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_process_of_a_pod_ends_when_the_starter_is_killed(tmp_path: Path) -> None:
    starter = subprocess.Popen([sys.executable, "-c", STARTER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    assert json.loads((tmp_path / "process.json").read_text())["pid"] == pid
    assert (tmp_path / "log").stat().st_mode & 0o077 == 0
    starter.send_signal(signal.SIGKILL)
    starter.communicate()
    assert _ends(pid)


def test_process_with_the_uid_of_a_pod_is_ended_before_anything_starts(tmp_path: Path) -> None:
    uid = f"left-over-{os.getpid()}"
    (tmp_path / uid).mkdir()
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env={**os.environ, "POD_UID": uid})
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        processes.end_left_over(tmp_path)
        assert left.wait(SECONDS) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for each in (left, other):
            each.kill()
            each.wait()


def test_unrelated_process_with_a_recorded_id_is_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        (tmp_path / "u").mkdir()
        (tmp_path / "u" / "process.json").write_text(json.dumps({"pid": other.pid, "started": "another boot:1"}))
        processes.end_left_over(tmp_path)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_held_instance_names_the_holder(tmp_path: Path) -> None:
    instance = Instance.of("one", {"XDG_DATA_HOME": str(tmp_path)})
    holder = f"instance one is in use by process {os.getpid()}"
    with instance.held(), pytest.raises(InstanceError, match=holder), instance.held():
        pass
    with instance.held():
        assert instance.folder == tmp_path / "sparksql" / "one"


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", "-a", "a" * 51])
def test_invalid_instance_name_is_refused_with_the_remedy(name: str) -> None:
    with pytest.raises(InstanceError, match="at most 50 lower case letters, digits"):
        Instance.of(name)


def test_relative_data_folder_is_ignored() -> None:
    assert Instance.of("one", {"XDG_DATA_HOME": "data"}).folder == Path.home() / ".local/share/sparksql/one"
