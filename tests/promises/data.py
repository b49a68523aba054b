"""The promises as the files in the folders beside this one have them.

Each file of a group of features, or of a page of the docs, has lists of promises by the feature or the heading that they are of.
"""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

HERE = Path(__file__).parent
GROUPS = ("Sessions", "Statements", "Streaming", "Platform")
PAGES = ("statements", "savepoints", "upgrades", "kafka", "windows", "lookups", "security")
"""Pages of the docs all of whose headings have promises."""


class Promise(BaseModel):
    """What the product is to do, and the tests that show it.

    `untested` says why there are none, `only_thorough` why the daily run leaves out all that there are. `not_yet`: it does not do it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    promise: str
    tests: tuple[str, ...] = ()
    untested: str = ""
    only_thorough: str = ""
    not_yet: bool = False


class LeftOut(BaseModel):
    """Why the daily run leaves a test out, and the daily ones that show the same in one draw or part by part."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    why: str
    daily: tuple[str, ...] = ()


Promises = dict[str, dict[str, tuple[Promise, ...]]]
"""Of groups, or of pages: promises by the feature or by the heading that they are of."""

_PROMISES = TypeAdapter(dict[str, tuple[Promise, ...]])
_LEFT_OUT = TypeAdapter(dict[str, LeftOut])


def features() -> Promises:
    """Returns the features, by their groups."""
    return {group: _promises(HERE / "features" / f"{group.lower()}.yaml") for group in GROUPS}


def pages() -> Promises:
    """Returns the promises of the docs, by the names of their pages."""
    return {page: _promises(HERE / "pages" / f"{page}.yaml") for page in PAGES}


def left_out() -> dict[str, LeftOut]:
    """Returns the tests that the daily run leaves out."""
    return _LEFT_OUT.validate_python(yaml.safe_load((HERE / "thorough.yaml").read_text()))


def _promises(file: Path) -> dict[str, tuple[Promise, ...]]:
    return _PROMISES.validate_python(yaml.safe_load(file.read_text()))
