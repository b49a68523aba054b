"""The documentation keeps up with the code: every reason and setting is explained, every link and every named path exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helmchart import ROOT

from sparksql.api.gateway_settings import KEYS, PREFIX, parse
from sparksql.api.reasons import Reason

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_explained(reason: Reason) -> None:
    rows = [line for line in (ROOT / "docs" / "conditions-and-reasons.md").read_text().splitlines() if line[:1] == "|"]
    explained = {name.strip() for row in rows for name in row.split("|")[1].split(",")}
    assert reason.value in explained


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    broken = [link for link in LINK.findall(document.read_text()) if not (document.parent / link).exists()]
    assert broken == []


def test_every_setting_of_the_gateway_is_explained_with_its_default() -> None:
    rows = [line.split("|") for line in (ROOT / "docs" / "clients.md").read_text().splitlines() if PREFIX in line[:30]]
    explained = {row[1].strip().strip("`"): row[2].strip() for row in rows}
    assert tuple(explained) == KEYS
    assert parse(explained) == parse({})
