"""Findings as lines of text, `file:line:column: rule: message`, and as JSON. Pure."""

from __future__ import annotations

import json
import unicodedata

from sparksql.lint.output.model import Report


def text(report: Report) -> str:
    """Returns a line for each finding. Control characters are escaped: names and values are those of files."""
    return "".join(f"{_printable(str(finding))}\n" for finding in report.findings)


def as_json(report: Report) -> str:
    """Returns an object with `findings`, `files` (their number) and `notes`."""
    findings = [
        {"file": each.path, "line": each.line, "column": each.column, "rule": str(each.rule), "message": each.message}
        for each in report.findings
    ]
    content = {"findings": findings, "files": len(report.files), "notes": list(report.notes)}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _printable(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(f"\\x{ord(char):02x}" if unicodedata.category(char) in ("Cc", "Cf") else char for char in line)
