"""The child handling, with small programs in the place of kubectl; the real one is in the integration tests."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from sparksql.cli.errors import CliError
from sparksql.cli.gateway import UnavailableError, port_forward
from sparksql.cli.kubectl import Kubectl, KubectlError, documents


def program(folder: Path, body: str) -> Kubectl:
    path = folder / "kubectl"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return Kubectl(("--context=c",), "team-a", program=str(path))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ('{"a": 1}', [{"a": 1}]),
        ('{"a": 1}\n{"b": {"c": "}\\n{"}}\n', [{"a": 1}, {"b": {"c": "}\n{"}}]),
        ('{"kind": "List", "items": [{"a": 1}, {"b": 2}]}', [{"a": 1}, {"b": 2}]),
    ],
)
def test_json_output_of_kubectl_is_split_into_documents(text: str, found: list[object]) -> None:
    assert documents(text) == found


async def test_kubectl_receives_arguments_and_input_unchanged(tmp_path: Path) -> None:
    kubectl = program(tmp_path, 'for a in "$@"; do echo "<$a>"; done; cat')
    output = await kubectl.run("get", "$(touch x); 'q'", namespace="team-b", data="in\nput")
    assert output.splitlines() == ["<--context=c>", "<--namespace=team-b>", "<get>", "<$(touch x); 'q'>", "in", "put"]


async def test_warnings_are_shown_and_errors_are_raised(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = (
        'Warning: \\033[2Jold', 'E1121 02:50:25.444285 1 memcache.go:265] "Unhandled Error"',
        'Error from server (NotFound): x', 'more',
    )  # fmt: skip
    kubectl = program(tmp_path, "".join(f"printf '%b\\n' '{line}' >&2\n" for line in lines) + "exit 1")
    with pytest.raises(KubectlError) as caught:
        await kubectl.run("get")
    assert str(caught.value) == "Error from server (NotFound): x\nmore"
    assert caught.value.is_not_found
    assert capfd.readouterr().err == "Warning: \\x1b[2Jold\n"


async def test_an_end_without_words_names_the_code(tmp_path: Path) -> None:
    with pytest.raises(KubectlError, match="kubectl get ended with code 7"):
        await program(tmp_path, "exit 7").run("get", data="never read" * 100_000)


async def test_a_typed_interrupt_does_not_end_what_makes_objects(tmp_path: Path) -> None:
    kubectl = program(tmp_path, "cat; kill -INT $$; echo survived")
    assert await kubectl.run("create", data="made\n") == "made\nsurvived\n"
    with pytest.raises(KubectlError, match="ended with code -2"):
        await kubectl.run("get")


async def test_missing_kubectl_is_told_in_the_message(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="not on the PATH"):
        await Kubectl(program=str(tmp_path / "none")).run("get")


async def test_port_forward_gives_the_address_and_leaves_no_child(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    kubectl = program(
        tmp_path, f"echo $$ > {pid_file}; echo \"$@\" >> {pid_file}; echo 'Forwarding from 127.0.0.1:40123 -> 8443'; "
        "exec sleep 60",
    )  # fmt: skip
    async with port_forward(kubectl, "team-b", "driver-1") as address:
        assert address == "127.0.0.1:40123"
        pid, arguments = pid_file.read_text().splitlines()
    assert arguments == "--context=c --namespace=team-b port-forward pod/driver-1 :8443 --address=127.0.0.1"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


async def test_a_refused_port_forward_says_why(tmp_path: Path) -> None:
    kubectl = program(tmp_path, "echo 'Error from server (Forbidden): pods is forbidden' >&2; exit 1")
    with pytest.raises(UnavailableError, match=r"cannot connect to pod driver-1: .*Forbidden"):
        async with port_forward(kubectl, "team-b", "driver-1"):
            pass


async def test_cancelled_wait_for_kubectl_ends_the_kubectl_process_at_once(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    task = asyncio.create_task(program(tmp_path, f"echo $$ > {pid_file}; exec sleep 60").run("get"))
    deadline = time.monotonic() + 60
    while not (pid_file.exists() and pid_file.read_text().strip()):
        assert time.monotonic() < deadline, "the program did not start"
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


@pytest.mark.parametrize(
    ("text", "is_not_found", "is_forbidden"),
    [
        ('Error from server (NotFound): sqlsessions.sparksql.dev "a" not found', True, False),
        ('Error from server (Forbidden): error when creating "STDIN": pods is forbidden', False, True),
        ("error: You must be logged in to the server (Unauthorized)", False, True),
        ("Error from server (BadRequest): the webhook answered 404 (NotFound)", False, False),
        ("Unable to connect to the server: the proxy answered (Forbidden)", False, False),
    ],
)
def test_answer_of_the_api_server_is_known_by_its_reason_alone(
    text: str, is_not_found: bool, is_forbidden: bool
) -> None:
    error = KubectlError(text)
    assert (error.is_not_found, error.is_forbidden) == (is_not_found, is_forbidden)
