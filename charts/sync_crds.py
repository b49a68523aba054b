"""Keeps the chart's copies of the resource definitions equal to `crds/`, which is generated from the models.

Helm packs only what lies inside the chart's folder, so that the chart needs copies. `sync_crds.py` writes them;
`sync_crds.py --check` writes nothing, names each file that differs and ends with 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "crds"
COPY = ROOT / "charts" / "spark-sql-operator" / "files" / "crds"


def read_folder(folder: Path) -> dict[str, str]:
    """Text of each YAML file of a folder, by file name."""
    return {path.name: path.read_text() for path in sorted(folder.glob("*.yaml"))}


def differences(source: dict[str, str], copy: dict[str, str]) -> list[str]:
    """File names that are missing, superfluous or different in the copy."""
    return sorted(name for name in source.keys() | copy.keys() if source.get(name) != copy.get(name))


def main() -> int:
    parser = argparse.ArgumentParser(description="Copy crds/ into the chart.")
    parser.add_argument("--check", action="store_true", help="only tell whether the copies are current")
    check = parser.parse_args().check
    source, copy = read_folder(SOURCE), read_folder(COPY)
    if not source:
        print(f"no resource definitions in {SOURCE}", file=sys.stderr)
        return 1
    stale = differences(source, copy)
    if check:
        for name in stale:
            print(f"not current: {COPY.relative_to(ROOT) / name} (run charts/sync_crds.py)", file=sys.stderr)
        return 1 if stale else 0
    COPY.mkdir(parents=True, exist_ok=True)
    for name in stale:
        if name in source:
            (COPY / name).write_text(source[name])
        else:
            (COPY / name).unlink()
        print(f"{'wrote' if name in source else 'removed'} {COPY.relative_to(ROOT) / name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
