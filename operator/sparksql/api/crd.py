"""Writes the CRDs and the API reference from the models: `python3 -m sparksql.api.crd [--check]`.

The files are committed; `--check` writes nothing and fails if one of them is not what the models say.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from sparksql.api.base import ApiObject, cel
from sparksql.api.names import (
    ANNOTATION_FRONT_USER,
    CATEGORY,
    DEFAULT_CLASS_ANNOTATION,
    GROUP,
    MAX_NAME_LENGTH,
    VERSION,
)
from sparksql.api.reference import render_reference
from sparksql.api.savepoint import SqlSavepoint
from sparksql.api.schema import Schema, structural
from sparksql.api.session import SqlSession
from sparksql.api.session_class import SqlSessionClass
from sparksql.api.statement import SqlStatement

KINDS: tuple[type[ApiObject], ...] = (SqlSessionClass, SqlSession, SqlStatement, SqlSavepoint)
ROOT = Path(__file__).resolve().parents[3]


class Column(NamedTuple):
    """Column of `kubectl get`; the wide ones are shown with `-o wide` only."""

    name: str
    type: str
    path: str
    wide: bool = False


_READY = '.status.conditions[?(@.type=="Ready")]'
_REASON = Column("Reason", "string", f"{_READY}.reason")
_MESSAGE = Column("Message", "string", f"{_READY}.message")
_AGE = Column("Age", "date", ".metadata.creationTimestamp")


def _annotation(name: str) -> str:
    """Returns the JSONPath of an annotation, in which the dots of the name are escaped."""
    return ".metadata.annotations." + name.replace(".", r"\.")


COLUMNS: dict[type[ApiObject], tuple[Column, ...]] = {
    SqlSessionClass: (
        Column("Default", "string", _annotation(DEFAULT_CLASS_ANNOTATION)),
        Column("Ready", "string", f"{_READY}.status"),
        Column("Image", "string", ".spec.image", wide=True),
        _REASON,
        _MESSAGE,
        _AGE,
    ),
    SqlSession: (
        Column("Phase", "string", ".status.phase"),
        Column("Class", "string", ".status.className"),
        Column("Executors", "string", ".status.executors.summary"),
        Column("Running", "integer", ".status.statements.running"),
        Column("Queued", "integer", ".status.statements.queued"),
        Column("User", "string", _annotation(ANNOTATION_FRONT_USER), wide=True),
        Column("Driver", "string", ".status.driver.podName", wide=True),
        Column("Spark", "string", ".status.driver.sparkVersion", wide=True),
        Column("Restarts", "integer", ".status.restarts", wide=True),
        _REASON,
        _MESSAGE,
        _AGE,
    ),
    SqlStatement: (
        Column("Phase", "string", ".status.phase"),
        Column("Session", "string", ".status.sessionName"),
        Column("Type", "string", ".status.statementType"),
        Column("Rows", "integer", ".status.result.rowCount"),
        Column("Written", "integer", ".status.result.rowsWritten"),
        Column("Duration-ms", "integer", ".status.durationMillis"),
        Column("Lag", "integer", ".status.streaming.lag"),
        Column("Rate", "string", ".status.streaming.processedRowsPerSecond", wide=True),
        Column("Batch", "integer", ".status.streaming.batchId", wide=True),
        Column("Run", "integer", ".status.run", wide=True),
        Column("Attempt", "integer", ".status.attempt", wide=True),
        _REASON,
        _MESSAGE,
        _AGE,
    ),
    SqlSavepoint: (
        Column("Phase", "string", ".status.phase"),
        Column("Statement", "string", ".spec.statementRef.name"),
        Column("Trigger", "string", ".status.trigger"),
        Column("Bytes", "integer", ".status.sizeBytes"),
        Column("Batch", "integer", ".status.batchId", wide=True),
        Column("Location", "string", ".status.location", wide=True),
        _REASON,
        _MESSAGE,
        _AGE,
    ),
}

SELECTABLE: dict[type[ApiObject], tuple[str, ...]] = {
    SqlSessionClass: (),
    SqlSession: (".spec.className", ".status.phase"),
    SqlStatement: (".spec.sessionRef.name", ".status.phase"),
    SqlSavepoint: (".spec.statementRef.name", ".status.phase"),
}


def object_schema(kind: type[ApiObject]) -> Schema:
    """Schema of whole objects. `status` has a default, so that kstatus does not take a brand-new object for done."""
    raw = kind.model_json_schema(by_alias=True)
    spec, status = (structural(raw["properties"][name], raw["$defs"]) for name in ("spec", "status"))
    return {
        "description": raw["description"],
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of the API."},
            "kind": {"type": "string", "description": "Kind of the object."},
            "metadata": {"type": "object"},
            "spec": spec | {"description": "What is wanted."},
            "status": without_defaults(status)
            | {
                "description": "What the operator found; only the operator writes it.",
                "default": {"observedGeneration": -1},
            },
        },
        "x-kubernetes-validations": [
            cel(
                f"self.metadata.name.size() <= {MAX_NAME_LENGTH} && !self.metadata.name.contains('.')",
                f"the name must be a DNS label of at most {MAX_NAME_LENGTH} characters: "
                "choose a shorter one without dots, it becomes part of other names",
            )
        ],
    }


def without_defaults(schema: Schema) -> Schema:
    """The API server must add nothing to a status: what the operator left out stays out."""
    result = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in result:
        result["properties"] = {name: without_defaults(inner) for name, inner in result["properties"].items()}
    if "items" in result:
        result["items"] = without_defaults(result["items"])
    return result


def custom_resource_definition(kind: type[ApiObject]) -> dict[str, Any]:
    """The CRD of one kind."""
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": column.name, "type": column.type, "jsonPath": column.path}
            | ({"priority": 1} if column.wide else {})
            for column in COLUMNS[kind]
        ],
        "schema": {"openAPIV3Schema": object_schema(kind)},
    }
    if SELECTABLE[kind]:
        version["selectableFields"] = [{"jsonPath": path} for path in SELECTABLE[kind]]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if kind.NAMESPACED else "Cluster",
            "names": {
                "kind": kind.KIND,
                "listKind": f"{kind.KIND}List",
                "plural": kind.PLURAL,
                "singular": kind.KIND.lower(),
                "shortNames": [kind.SHORT_NAME],
                "categories": [CATEGORY],
            },
            "versions": [version],
        },
    }


class _Dumper(yaml.SafeDumper):
    """Without anchors: some readers of CRDs do not know them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def generated_files() -> dict[Path, str]:
    """Content of each generated file, by its path below the repository's root."""
    files = {
        Path("crds", f"{GROUP}_{kind.PLURAL}.yaml"): yaml.dump(
            custom_resource_definition(kind), Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True
        )
        for kind in KINDS
    }
    return files | {Path("docs", "api-reference.md"): render_reference(KINDS)}


def main(arguments: list[str] | None = None) -> int:
    """Writes the generated files that are out of date, or lists them with `--check`. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Write the CRDs and the API reference from the models.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is not up to date")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder that holds crds/ and docs/")
    options = parser.parse_args(arguments)
    stale = False
    for path, content in generated_files().items():
        target = options.root / path
        if target.is_file() and target.read_text(encoding="utf-8") == content:
            continue
        stale = True
        if not options.check:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8")
        sys.stdout.write(f"{'out of date' if options.check else 'written'}: {path}\n")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
