"""The documentation keeps up with the code: every reason and setting is explained, every link and every named path exists.

A reason is explained, a constant of the code and set somewhere, or it is none of these.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from sparksql.api.gateway_settings import KEYS, PREFIX, parse
from sparksql.api.reasons import Reason
from sparksql.wire.control import ErrorReason
from tests.chart.helmchart import ROOT
from tests.chart.sources import constants_in_use

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")


@cache
def explained_reasons() -> frozenset[str]:
    """First cells of the tables whose first column is headed `reason`; some say in which phase."""
    names: set[str] = set()
    is_about_reasons = False
    for line in (ROOT / "docs" / "conditions-and-reasons.md").read_text().splitlines():
        first = line.split("|")[1].strip() if line.startswith("|") else ""
        is_about_reasons = bool(first) and (is_about_reasons or first == "reason")
        if is_about_reasons and first != "reason" and not first.startswith("---"):
            names |= {name.strip().split(" in phase ")[0] for name in first.split(",")}
    return frozenset(names)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_explained_in_the_docs(reason: Reason) -> None:
    assert reason.value in explained_reasons()


def test_every_reason_that_is_explained_exists() -> None:
    assert explained_reasons() <= {reason.value for reason in Reason}


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_set_by_something(reason: Reason) -> None:
    """By the operator, or by the gateway as the reason of an error, which the operator takes over."""
    assert reason.name in constants_in_use("Reason") | constants_in_use("ErrorReason")


@pytest.mark.parametrize("reason", ErrorReason)
def test_every_reason_of_a_gateway_is_one_of_the_resources_and_set_by_something(reason: ErrorReason) -> None:
    assert Reason[reason.name].value == reason.value
    assert reason.name in constants_in_use("ErrorReason")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_in_documents_lead_to_files_that_exist(document: Path) -> None:
    broken = [link for link in LINK.findall(document.read_text()) if not (document.parent / link).exists()]
    assert broken == []


def test_every_setting_of_the_gateway_is_explained_with_its_default() -> None:
    rows = [
        line.split("|")
        for line in (ROOT / "docs" / "clients.md").read_text().splitlines()
        if line.startswith(f"| `{PREFIX}")
    ]
    explained = {row[1].strip().strip("`"): row[2].strip() for row in rows}
    assert tuple(explained) == KEYS
    assert parse(explained) == parse({})
