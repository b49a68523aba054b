"""Finds and reads the files of a check: those that are given, and the manifests below folders.

Templates of a Helm chart are no manifests, and are left out. A file that a kustomization names as a patch is a part of another
resource; its documents give no findings.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from sparksql.lint.reading.documents import documents
from sparksql.lint.reading.source import Source

ENDINGS = (".yaml", ".yml", ".json")
BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")


class UnusableFileError(Exception):
    """A file that was given cannot be read; the message names it and the remedy."""


@dataclass(frozen=True)
class File:
    """A file of the check. `is_named`: the user has named it, and not a folder above it.

    `problem` is why its text cannot be read; `is_patch` that a kustomization names it as a patch.
    """

    source: Source = field(repr=False)
    is_named: bool
    problem: str | None = None
    is_patch: bool = False


def read(paths: Sequence[str]) -> list[File]:
    """Returns the files that paths name or have below them, each once. Raises UnusableFileError."""
    found: dict[str, tuple[str, bool]] = {}
    for path in paths:
        if os.path.isdir(path):
            for file in below(path):
                found.setdefault(os.path.realpath(file), (file, False))
        elif os.path.exists(path):
            found[os.path.realpath(path)] = (os.path.normpath(path), True)
        else:
            raise UnusableFileError(f"{path}: there is no such file or folder: give one that exists")
    return [_file(path, real, is_named=is_named) for real, (path, is_named) in found.items()]


def below(folder: str) -> Iterator[str]:
    """Yields the manifests below a folder in the order of their names, without those of `.git` and of Helm's templates."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if each != ".git")
        if "Chart.yaml" in files and "templates" in folders:
            folders.remove("templates")
        for file in sorted(files):
            if file.endswith(ENDINGS):
                yield Path(os.path.normpath(os.path.join(parent, file))).as_posix()


def source_of(path: str, raw: bytes) -> tuple[Source, str | None]:
    """Returns the text of a file, and why it is none."""
    try:
        return Source(path, raw.decode("utf-8").removeprefix(BYTE_ORDER_MARK)), None
    except UnicodeDecodeError as error:
        text = raw[: error.start].decode("utf-8").removeprefix(BYTE_ORDER_MARK)
        return Source(path, text), f"the file is not UTF-8 ({error.reason}): save it as UTF-8"


def _file(path: str, real: str, *, is_named: bool) -> File:
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise UnusableFileError(f"{path}: {error.strerror}: give a file that you can read") from None
    source, problem = source_of(Path(path).as_posix(), raw)
    return File(source, is_named, problem, real in patches_around(os.path.dirname(real)))


@cache
def patches_around(folder: str) -> frozenset[str]:
    """Returns the patches that the kustomizations of a folder and of those above it name, up to that of the repository."""
    patches = frozenset(patch for name in _KUSTOMIZATIONS for patch in _patches(Path(folder, name)))
    parent = os.path.dirname(folder)
    if parent == folder or os.path.exists(os.path.join(folder, ".git")):
        return patches
    return patches | patches_around(parent)


def _patches(kustomization: Path) -> Iterator[str]:
    if not kustomization.is_file():
        return
    source, _ = source_of(str(kustomization), kustomization.read_bytes())
    for document in documents(source):
        value = None if document.root is None else document.root.value
        for name in patch_names(value if isinstance(value, dict) else {}):
            yield os.path.realpath(kustomization.parent / name)


def patch_names(kustomization: dict[str, Any]) -> Iterator[str]:
    """Yields the files that a kustomization names as patches (Kustomize's documentation, "patches" and its older forms)."""
    for name in _entries(kustomization.get("patchesStrategicMerge")):
        if isinstance(name, str) and "\n" not in name:
            yield name
    for field_name in ("patches", "patchesJson6902"):
        for patch in _entries(kustomization.get(field_name)):
            if isinstance(patch, dict) and isinstance(patch.get("path"), str):
                yield patch["path"]


def _entries(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()
