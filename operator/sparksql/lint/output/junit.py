"""Findings as JUnit XML: a test case for each file, failed where it has findings. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from xml.etree import ElementTree

from sparksql.lint.findings import Finding
from sparksql.lint.output.model import Report

_SUITE = "sparksql lint"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """Returns the report as a document of one test suite."""
    by_file: dict[str, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        by_file[finding.path].append(finding)
    files = sorted({*report.files, *by_file})
    counts = {"tests": str(len(files)), "failures": str(len(by_file)), "errors": "0"}
    root = ElementTree.Element("testsuites", {"name": _SUITE, **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": _SUITE, **counts})
    for file in files:
        case = ElementTree.SubElement(suite, "testcase", {"classname": _SUITE, "name": _xml(file), "file": _xml(file)})
        found = by_file.get(file, [])
        if found:
            rules = ", ".join(dict.fromkeys(str(finding.rule) for finding in found))
            failure = ElementTree.SubElement(
                case,
                "failure",
                {"type": rules, "message": _xml(f"{found[0].line}:{found[0].column}: {found[0].message}")},
            )
            failure.text = _xml("\n".join(str(finding) for finding in found))
    if report.notes:
        ElementTree.SubElement(suite, "system-out").text = _xml("\n".join(report.notes))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
