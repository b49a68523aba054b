"""Reads the manifests of a git revision: what the same files and folders had then."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence

from sparksql.lint import resources
from sparksql.lint.baseline import Baseline, of_files
from sparksql.lint.files import ENDINGS, source_of
from sparksql.lint.reading.documents import documents


class UnknownRevisionError(Exception):
    """There is no such revision, or no repository; the message names the remedy."""


def baseline(revision: str, paths: Sequence[str]) -> Baseline:
    """Returns the resources that paths had in a revision. Raises UnknownRevisionError."""
    return of_files(
        resource
        for path in paths
        for name, raw in _files(revision, path)
        for document in documents(source_of(name, raw)[0])
        for resource in resources.resources(document)
    )


def _files(revision: str, path: str) -> Iterator[tuple[str, bytes]]:
    """The path, as findings show it, and the content of each manifest that a path had."""
    is_folder = os.path.isdir(path)
    folder = path if is_folder else os.path.dirname(path) or "."
    commit = (
        _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").decode().strip()
    )
    if not commit:
        raise UnknownRevisionError(
            f"--against {revision}: git does not know this revision: name a commit, a tag or a branch, or fetch it first"
        )
    pathspec = "." if is_folder else os.path.basename(path)
    listed = _git(folder, "ls-tree", "-r", "-z", "--name-only", commit, "--", pathspec)
    for raw_name in listed.decode(errors="surrogateescape").split("\0"):
        if raw_name and (raw_name.endswith(ENDINGS) or not is_folder):
            shown = os.path.normpath(os.path.join(folder, raw_name))
            yield shown, _git(folder, "show", f"{commit}:./{raw_name}")


def _git(folder: str, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, check=False)  # noqa: S603, S607
    except FileNotFoundError:
        raise UnknownRevisionError("--against: git is not on the PATH: install it, or name --against cluster") from None
    if done.returncode != 0 and done.stderr:
        words = done.stderr.decode(errors="replace").strip().removeprefix("fatal: ")
        raise UnknownRevisionError(f"--against: git: {words}")
    return done.stdout
