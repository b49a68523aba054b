"""Puts all checks together: files in, findings in order out. Pure: what is read from elsewhere is given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from sparksql.api.crd import object_schema
from sparksql.lint import metadata, references, settings
from sparksql.lint.baseline import Baseline
from sparksql.lint.files import File
from sparksql.lint.findings import Finding, Rule
from sparksql.lint.reading.documents import Document, documents
from sparksql.lint.references import Index
from sparksql.lint.resources import CONFIG_MAP, OUR_KINDS, SECRET, Resource, check_kind, resources
from sparksql.lint.schema import rules, structure
from sparksql.lint.schema.expressions import ABSENT


@dataclass(frozen=True)
class Manifests:
    """The resources of files, and what is wrong with the files as YAML."""

    resources: tuple[Resource, ...]
    unreadable: tuple[Finding, ...] = ()


def manifests(files: Sequence[File]) -> Manifests:
    """Returns what files hold. A patch of a kustomization holds no resource."""
    found: list[Resource] = []
    unreadable: list[Finding] = []
    for file in files:
        if file.problem is not None:
            line, column = file.source.place(len(file.source.text))
            unreadable.append(Finding(file.source.path, line, column, Rule.YAML_SYNTAX, file.problem))
        elif not file.is_patch:
            for document in documents(file.source):
                within = list(resources(document))
                found += within
                unreadable += _of_document(document, within, is_named=file.is_named)
    return Manifests(tuple(found), tuple(unreadable))


def check(within: Manifests, index: Index, baseline: Baseline) -> list[Finding]:
    """Returns the findings of all checks but those of SQL texts, without those that annotations suppress."""
    findings = list(within.unreadable)
    ours = [resource for resource in within.resources if resource.is_ours]
    for resource in within.resources:
        findings += kept(_of_resource(resource, index, baseline), resource)
    for resource, finding in (*references.cycles(ours), *references.duplicates(ours)):
        findings += kept((finding,), resource)
    return findings


def kept(findings: Iterable[Finding], *about: Resource) -> list[Finding]:
    """Returns the findings that no annotation of the resources that they are about suppresses."""
    ignored = {name for resource in about for name in resource.ignored}
    return [finding for finding in findings if finding.rule not in ignored]


def _of_document(document: Document, within: Sequence[Resource], *, is_named: bool) -> Iterator[Finding]:
    """What is wrong with a document as YAML. A file that is no manifest gives nothing: a folder may hold other files as well."""
    for problem in document.problems:
        owner = next((each for each in within if problem.path[: len(each.prefix)] == each.prefix), None)
        if problem.rule is Rule.YAML_SYNTAX and (is_named or "apiVersion" in document.text):
            line, column = document.source.place(problem.at)
            yield Finding(document.source.path, line, column, problem.rule, problem.message)
        elif owner is not None and owner.kind in OUR_KINDS:
            path = problem.path[len(owner.prefix) :]
            yield from kept((owner.finding(problem.rule, problem.at, problem.message, path),), owner)


def _of_resource(resource: Resource, index: Index, baseline: Baseline) -> Iterator[Finding]:
    if resource.kind in (CONFIG_MAP, SECRET):
        return
    yield from check_kind(resource)
    if not resource.is_ours:
        return
    yield from metadata.check(resource)
    yield from _of_schema(resource, baseline)
    yield from settings.denied_keys(resource)
    yield from settings.schedules(resource)
    yield from settings.beyond_class(resource, index)
    yield from references.unresolved(resource, index)
    yield from references.missing_keys(resource, index)


def _of_schema(resource: Resource, baseline: Baseline) -> Iterator[Finding]:
    schema, node = _schema(resource.kind), resource.node
    former = baseline.former(resource)
    old = ABSENT if former is None else rules.defaulted(former, schema)
    mistakes = list(structure.check(node, schema, (), resource.document.source.text))
    for mistake in (*mistakes, *rules.check(node, old, schema, (), mistakes, node.start)):
        yield resource.finding(mistake.rule, mistake.at, mistake.message, mistake.path)


@cache
def _schema(kind: str) -> structure.Schema:
    """The schema of a kind, with that of Kubernetes' metadata. A status in a manifest is of no effect."""
    schema = object_schema(OUR_KINDS[kind])
    status = {"x-kubernetes-preserve-unknown-fields": True, "nullable": True}
    return {**schema, "properties": {**schema["properties"], "metadata": metadata.SCHEMA, "status": status}}
