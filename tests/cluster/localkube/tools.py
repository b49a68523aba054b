"""Binaries built from pinned Go modules.

Each component has a stamp: a digest of everything that decides what is built. A binary whose stamp is current is left alone.
Without one `go build` decides, which takes seconds when its own cache is warm.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .config import MODULES, Paths
from .shell import ClusterError, locked, run, say, tail

HEARTBEAT_SECONDS = 30.0


@dataclass(frozen=True)
class Tool:
    """A binary: the module folder that pins it, and the package in that module's graph."""

    name: str
    module: str
    package: str = "."


TOOLS = (
    *(
        Tool(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}")
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl")
    ),
    Tool("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    Tool("coredns", "coredns"),
    Tool("pause", "pause"),
    Tool("helm", "helm", "helm.sh/helm/v4/cmd/helm"),
    Tool("versitygw", "versitygw", "github.com/versity/versitygw/cmd/versitygw"),
    Tool("kstatus", "kstatus"),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
# What only tests run: no cluster waits for it.
TEST_TOOLS = ("kstatus",)
NODE_TOOLS = tuple(name for name in BY_NAME if name not in TEST_TOOLS)
# What tests without a cluster run: an API server, an object store, clients.
LOCAL_TOOLS = ("kube-apiserver", "etcd", "kubectl", "helm", "versitygw", *TEST_TOOLS)
# What is needed beside a cluster that somebody else brings.
CLIENT_TOOLS = ("kubectl", "helm", "versitygw", *TEST_TOOLS)


def linker_flags(tool: Tool, go_mod: str) -> str:
    """Strip the binary; give Kubernetes the version that its own build scripts would stamp (else it calls itself v0.0.0)."""
    flags = "-s -w"
    if tool.module == "kubernetes":
        version = pinned_version(go_mod, "k8s.io/kubernetes")
        major, minor = version.lstrip("v").split(".")[:2]
        package = "k8s.io/component-base/version"
        flags += f" -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    return flags


def pinned_version(go_mod: str, module: str) -> str:
    """Return the version that a go.mod requires of a module. Raises ClusterError if it does not."""
    found = re.search(rf"^\s*(?:require\s+)?{re.escape(module)}\s+(v\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise ClusterError(f"go.mod does not pin {module}")
    return found.group(1)


def stamp(tool: Tool, go_version: str, modules: Path = MODULES) -> str:
    """Digest what decides the binary: the module's files, the Go version and the build's flags."""
    folder = modules / tool.module
    digest = hashlib.sha256()
    for file in sorted([folder / "go.mod", *folder.glob("go.sum"), *folder.glob("*.go")]):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    for word in (go_version, tool.package, linker_flags(tool, (folder / "go.mod").read_text())):
        digest.update(word.encode() + b"\0")
    return digest.hexdigest()


def stamp_file(bin_dir: Path, tool: Tool) -> Path:
    return bin_dir / ".stamps" / tool.name


def is_current(bin_dir: Path, tool: Tool, wanted: str) -> bool:
    """Say whether the binary is there and was built from what `wanted` digests."""
    file = stamp_file(bin_dir, tool)
    return (bin_dir / tool.name).is_file() and file.is_file() and file.read_text() == wanted


def go_version() -> str:
    """Return the Go toolchain's version. Raises ClusterError, saying which is needed, if there is none."""
    if shutil.which("go") is None:
        raise ClusterError(
            "Go is needed to build the binaries, in the version that modules/*/go.mod name: https://go.dev/dl"
        )
    return run(["go", "env", "GOVERSION"]).strip()


def named(name: str) -> Tool:
    """Return a tool. Raises ClusterError that lists them if there is none of that name."""
    if name not in BY_NAME:
        raise ClusterError(f"no tool {name}; there are {', '.join(BY_NAME)}")
    return BY_NAME[name]


def build(paths: Paths, names: Iterable[str]) -> None:
    """Make the named binaries current in the cache, one after the other. Raises ClusterError with the compiler's last words."""
    tools = [named(name) for name in names]
    version = go_version()
    wanted = {tool.name: stamp(tool, version) for tool in tools}
    if all(is_current(paths.bin, tool, wanted[tool.name]) for tool in tools):
        return
    stamp_file(paths.bin, tools[0]).parent.mkdir(parents=True, exist_ok=True)
    with locked(paths.cache / "build.lock"):
        for number, tool in enumerate(tools, 1):
            if not is_current(paths.bin, tool, wanted[tool.name]):
                compile_tool(paths, tool, f"[{number}/{len(tools)}] {tool.name}")
                stamp_file(paths.bin, tool).write_text(wanted[tool.name])


def compile_tool(paths: Paths, tool: Tool, label: str) -> None:
    """Run `go build` for one binary and say how long it takes."""
    folder = MODULES / tool.module
    log = paths.cache / "build" / f"{tool.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    flags = linker_flags(tool, (folder / "go.mod").read_text())
    options = ["-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", str(paths.bin / tool.name)]
    argv = ["env", "CGO_ENABLED=0", "go", "build", *options, tool.package]
    began = time.monotonic()
    say(f"{label}: building")
    with (
        log.open("w") as output,
        subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as process,
    ):
        while True:
            try:
                code = process.wait(HEARTBEAT_SECONDS)
                break
            except subprocess.TimeoutExpired:
                say(f"{label}: still building after {time.monotonic() - began:.0f} s")
    if code:
        raise ClusterError(f"{tool.name}: go build failed ({log})\n{tail(log.read_text())}")
    say(f"{label}: built in {time.monotonic() - began:.0f} s")
