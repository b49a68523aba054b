"""Findings as SARIF 2.1.0, which code hosts show beside the changed lines.

URIs are relative to the root of the repository. A fingerprint is of the rule, the file and the field, not of the line: a finding
that moves stays the same one. Pure: the root is given.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sparksql.lint.findings import Finding, Rule
from sparksql.lint.output.model import Report

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"
_FINGERPRINT = "primaryLocationLineHash"  # the one that GitHub reads


def sarif(report: Report, version: str, root: str) -> str:
    """Returns the report as a log of one run. `root` is the folder that URIs are relative to."""
    rules = list(Rule)
    seen: Counter[str] = Counter()
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "sparksql lint",
                "version": version,
                "rules": [
                    {
                        "id": str(rule),
                        "shortDescription": {"text": rule.summary},
                        "defaultConfiguration": {"level": "error"},
                    }
                    for rule in rules
                ],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [{"level": "note", "message": {"text": note}} for note in report.notes],
            }
        ],
        "results": [_result(finding, rules.index(finding.rule), root, seen) for finding in report.findings],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _result(finding: Finding, index: int, root: str, seen: Counter[str]) -> dict[str, Any]:
    uri = _uri(finding.path, root)
    content = "\0".join((uri, finding.rule, finding.subject or finding.message))
    fingerprint = hashlib.sha256(content.encode(errors="replace")).hexdigest()[:16]
    seen[fingerprint] += 1
    region = {"startLine": finding.line, "startColumn": finding.column}
    return {
        "ruleId": str(finding.rule),
        "ruleIndex": index,
        "level": "error",
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri, "uriBaseId": _ROOT}, "region": region}}],
        "partialFingerprints": {_FINGERPRINT: f"{fingerprint}:{seen[fingerprint]}"},
    }


def _uri(path: str, root: str) -> str:
    return quote(Path(os.path.relpath(os.path.abspath(path), root)).as_posix())
