"""What a format is given: the findings, the files that were looked at, and notes that are no findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparksql.lint.findings import Finding


@dataclass(frozen=True)
class Report:
    """The outcome of a check. `files` are the paths of all files, `notes` name what was not checked."""

    findings: Sequence[Finding]
    files: Sequence[str]
    notes: Sequence[str] = ()
