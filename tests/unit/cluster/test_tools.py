"""Stamps: a binary is rebuilt when, and only when, something that decides it has changed."""

from pathlib import Path

import pytest
from localkube import tools
from localkube.config import MODULES
from localkube.shell import ClusterError

TOOL = tools.Tool("demo", "demo", "example.org/demo")
GO = "go1.26.0"


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    folder = tmp_path / "modules" / "demo"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text("module demo\n\nrequire example.org/demo v1.2.3\n")
    (folder / "go.sum").write_text("example.org/demo v1.2.3 h1:a\n")
    (folder / "main.go").write_text("package main\n")
    return folder.parent


def test_stamp_of_a_tool_ignores_files_that_are_no_input(modules: Path) -> None:
    first = tools.stamp(TOOL, GO, modules)
    (modules / "demo" / "notes.txt").write_text("not an input")
    assert tools.stamp(TOOL, GO, modules) == first


@pytest.mark.parametrize("file", ["go.mod", "go.sum", "main.go", "new.go"])
def test_stamp_changes_with_each_file(modules: Path, file: str) -> None:
    first = tools.stamp(TOOL, GO, modules)
    with (modules / "demo" / file).open("a") as opened:
        opened.write("// changed\n")
    assert tools.stamp(TOOL, GO, modules) != first


def test_stamp_changes_with_toolchain_and_package(modules: Path) -> None:
    stamps = {
        tools.stamp(TOOL, GO, modules),
        tools.stamp(TOOL, "go1.26.1", modules),
        tools.stamp(tools.Tool("demo", "demo", "example.org/other"), GO, modules),
    }
    assert len(stamps) == 3


def test_tool_is_current_only_with_its_binary_and_a_matching_stamp(tmp_path: Path) -> None:
    assert not tools.is_current(tmp_path, TOOL, "s")
    (tmp_path / "demo").write_bytes(b"binary")
    assert not tools.is_current(tmp_path, TOOL, "s")
    file = tools.stamp_file(tmp_path, TOOL)
    file.parent.mkdir()
    file.write_text("s")
    assert tools.is_current(tmp_path, TOOL, "s")
    assert not tools.is_current(tmp_path, TOOL, "t")
    (tmp_path / "demo").unlink()
    assert not tools.is_current(tmp_path, TOOL, "s")


def test_kubernetes_binaries_tell_their_version() -> None:
    flags = tools.linker_flags(tools.BY_NAME["kubelet"], "require (\n\tk8s.io/kubernetes v1.35.4 // indirect\n)\n")
    assert "gitVersion=v1.35.4" in flags
    assert "gitMajor=1 " in flags
    assert flags.endswith("gitMinor=35")


def test_pinned_version_is_of_that_module_alone() -> None:
    go_mod = "require example.org/a v1.0.0\nrequire (\n\texample.org/a/b v2.0.0\n)\n"
    assert tools.pinned_version(go_mod, "example.org/a") == "v1.0.0"
    assert tools.pinned_version(go_mod, "example.org/a/b") == "v2.0.0"
    with pytest.raises(ClusterError, match=r"example\.org/c"):
        tools.pinned_version(go_mod, "example.org/c")


@pytest.mark.parametrize("tool", tools.TOOLS, ids=lambda tool: tool.name)
def test_every_tool_is_pinned(tool: tools.Tool) -> None:
    go_mod = (MODULES / tool.module / "go.mod").read_text()
    if tool.package != ".":
        assert tool.package in go_mod, "the module folder does not name the tool's package"
        assert (MODULES / tool.module / "go.sum").is_file()


def test_unknown_tool_lists_the_known() -> None:
    with pytest.raises(ClusterError, match="kubectl"):
        tools.named("kubectll")
