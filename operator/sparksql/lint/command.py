"""`sparksql lint`: reads files, checks them, and writes the report."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version

from sparksql.lint import check
from sparksql.lint.baseline import Baseline
from sparksql.lint.files import read
from sparksql.lint.output.junit import junit
from sparksql.lint.output.model import Report
from sparksql.lint.output.plain import as_json, text
from sparksql.lint.output.sarif import sarif
from sparksql.lint.references import Context, Index
from sparksql.lint.resources import OUR_KINDS
from sparksql.lint.schema.words import remedy
from sparksql.lint.sql.checking import check_sql
from sparksql.lint.sql.sources import sql_of


class Format(StrEnum):
    """Lists the formats of the report."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    SARIF = "sarif"


@dataclass(frozen=True)
class Loaded:
    """The files of a check, by their paths, and what they hold."""

    files: tuple[str, ...]
    manifests: check.Manifests

    @property
    def namespaces(self) -> list[str | None]:
        """Returns the namespaces of the resources of ours, None where a file leaves it open."""
        ours = (resource for resource in self.manifests.resources if resource.is_ours and resource.is_namespaced)
        return list(dict.fromkeys(resource.namespace for resource in ours))

    @property
    def has_classes(self) -> bool:
        """Returns whether there are resources of a kind that has no namespace."""
        return any(resource.is_ours and not resource.is_namespaced for resource in self.manifests.resources)


class WrongNameError(ValueError):
    """What was given for --external is no kind and name."""


def external(text: str) -> tuple[str, str]:
    """Returns the kind and the name of KIND/NAME, where the kind may be written as for kubectl. Raises WrongNameError."""
    kind, slash, name = text.partition("/")
    if not slash or not name:
        raise WrongNameError(f"{text!r}: write KIND/NAME, for instance SqlSession/analytics")
    for model in OUR_KINDS.values():
        if kind.lower() in (model.KIND.lower(), model.PLURAL, model.SHORT_NAME, model.KIND.lower().removeprefix("sql")):
            return model.KIND, name
    raise WrongNameError(f"{text!r}: there is no kind {kind}: {remedy(kind, OUR_KINDS)}")


def load(paths: Sequence[str]) -> Loaded:
    """Returns what files and folders hold. Raises UnusableFileError for a path that cannot be read."""
    files = read(paths)
    return Loaded(tuple(file.source.path for file in files), check.manifests(files))


def run(
    loaded: Loaded, baseline: Baseline, external_names: Collection[tuple[str, str]], *, with_sql: bool = True
) -> Report:
    """Returns the report on manifests, compared with a former state. SQL is checked where there is Java and Spark."""
    manifests = loaded.manifests
    index = Index(manifests.resources, Context(baseline.identities, external_names))
    texts = list(sql_of(manifests.resources, index)) if with_sql else []
    findings, notes = check_sql(texts, lambda: check.check(manifests, index, baseline))
    return Report(sorted(set(findings)), loaded.files, notes)


def rendered(report: Report, form: Format) -> str:
    """Returns the report in a format."""
    match form:
        case Format.TEXT:
            return text(report)
        case Format.JSON:
            return as_json(report)
        case Format.JUNIT:
            return junit(report)
        case Format.SARIF:
            return sarif(report, version("spark-sql-operator"), _root())


def _root() -> str:
    """The repository that the working folder is in, or that folder itself."""
    here = folder = os.path.abspath(os.curdir)
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return here
        folder = parent
    return folder
