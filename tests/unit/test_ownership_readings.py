"""Labels, annotations and owner references are written by tenants: where they are read, and what a forged one does there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.unit.test_source_tree import modules

WRITTEN_BY_ANYBODY = frozenset({"labels", "annotations", "ownerReferences", "owner_references"})
PARTS = tuple(f"sparksql.{part}." for part in ("cache", "controllers", "domain", "drivers", "engine", "front", "kube"))

# Modules that read one of them, and what whoever forges it there gains.
READINGS = {
    "sparksql.domain.ownership": "the one place that reads owner references; what it compares with is a UID from a status",
    "sparksql.cache.classes": "the default class: classes are the platform's",
    "sparksql.cache.executors": "which pods the store keeps apart: counts as an executor only by its owner's UID",
    "sparksql.cache.pod_ends": "which pods are executors: a failure counts only by its owner's UID",
    "sparksql.cache.namespaces": "labels of namespaces, which a class's allow.namespaces selects by",
    "sparksql.cache.views": "the readers themselves",
    "sparksql.controllers.enqueue": "labels of namespaces: a change wakes what is in one",
    "sparksql.controllers.reconciler": "none: metrics have labels",
    "sparksql.controllers.resync": "none: metrics have labels",
    "sparksql.controllers.statement.controller": "none: metrics have labels",
    "sparksql.controllers.savepoint.snapshot": "why a savepoint was made: the admission policy keeps it for the operator",
    "sparksql.controllers.savepoint.deletion_jobs": "whether a Job without a recorded UID is deleted and created again",
    "sparksql.controllers.session.kept_state": "which incarnation a Secret is of, after its owner is known",
    "sparksql.domain.session.desired": "the wish to wake a session, which its users may have",
    "sparksql.engine.store": "kubectl's own note, which is dropped",
    "sparksql.front.directory": "whose a session is: the admission policy keeps it for the front",
    "sparksql.front.metrics": "none: metrics have labels",
    "sparksql.front.quota": "the front's own Lease, in its own namespace",
    "sparksql.front.thrift": "none: metrics have labels",
    "sparksql.kube.builders.driver": "objects that the module makes itself",
    "sparksql.kube.builders.pods": "a class's pod template, which is the platform's",
    "sparksql.kube.builders.warm": "objects that the module makes itself",
}


def readings(tree: ast.Module) -> Iterator[str]:
    """What a module reads of them: attributes, and keys of raw objects."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Load()) if name in WRITTEN_BY_ANYBODY:
                yield name
            case ast.Subscript(slice=ast.Constant(value=str(name)), ctx=ast.Load()) if name in WRITTEN_BY_ANYBODY:
                yield name
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), *_]) if (
                name in WRITTEN_BY_ANYBODY
            ):
                yield name


def test_module_that_reads_what_anybody_may_write_is_listed_with_what_that_does() -> None:
    found = {name: set(readings(tree)) for name, tree in modules() if name.startswith(PARTS)}
    reading = {name for name, read in found.items() if read}
    assert reading == READINGS.keys()


def test_owner_references_are_read_in_one_module_alone() -> None:
    reading = {
        name
        for name, tree in modules()
        if name.startswith(PARTS) and {"ownerReferences", "owner_references"} & set(readings(tree))
    }
    assert reading == {"sparksql.domain.ownership"}


def test_readings_of_all_sorts_are_found() -> None:
    texts = ("view.labels", "obj['metadata']['annotations']", "obj.get('ownerReferences', ())", "meta.owner_references")
    assert [list(readings(ast.parse(text))) for text in texts] == [
        ["labels"],
        ["annotations"],
        ["ownerReferences"],
        ["owner_references"],
    ]
    assert list(readings(ast.parse("made['labels'] = {}"))) == []
