"""Describes texts that the tests of states have, in a Spark of its own, and writes down what it found.

Usage: python -m tests.gateway.upgrades.repertoire FOLDER FILE forwards|backwards. The order changes what Spark numbers in passing.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from ..local_spark import local_spark, run
from . import cases
from .structures import DIFFERENT, LEGACY, RETYPED, SAME, described, keyed, make_tables, with_table

_ONE_IN = 3  # they are many, and of each kind there are several
_INSERT = re.compile(r"INSERT INTO \S+ (\([^)]*\)\s+)?")
_OWN = (
    "CREATE FUNCTION more(x INT) RETURNS INT RETURN x + 1",
    "CREATE VIEW big AS SELECT * FROM dim WHERE region > 'a'",
    "CREATE DATABASE upgrades",
    *(f"CREATE TABLE upgrades.{name} ({cases.COLUMNS}) USING parquet" for name in ("src", "other")),
    *(f"CREATE TABLE upgrades.{name} (code STRING, region STRING) USING parquet" for name in ("dim", "dim2")),
)


def texts() -> Iterator[tuple[str, dict[str, str]]]:
    """Texts with the settings of their sessions."""
    for before, after, *more in DIFFERENT.values():
        conf = LEGACY if "try" in after.lower() else {}
        yield before, conf
        yield after, {**conf, **(more[0] if more else {})}
    for pair in SAME.values():
        yield from ((text, {}) for text in pair)
    yield from ((text, {}) for _, _, text in RETYPED.values())
    yield from ((text, {}) for text in (keyed("more(amount)"), with_table("SELECT * FROM big")))
    for text in (*cases.BASES.values(), *(case.text for case in cases.CASES)):
        yield _INSERT.sub("", text).replace("$", "upgrades"), {}


def main(folder: Path, file: Path, order: str) -> None:
    # the same places each time
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found: dict[str, str] = {}
    with local_spark(folder) as driver:
        make_tables(driver)
        run(driver, driver.base, *_OWN)
        chosen = sorted(texts(), key=str)[::_ONE_IN]
        for text, conf in reversed(chosen) if order == "backwards" else chosen:
            found[f"{text} {sorted(conf.items())}"] = described(driver, text, text, conf).to_json()
    file.write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
