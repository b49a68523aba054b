"""Writes what importlib.metadata reads of an installed package: `metadata.py PYPROJECT FOLDER`.

The gateway's code is copied into the image, not installed; its entry points name its frontends.
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text())["project"]
folder = Path(sys.argv[2], f"sparksql-{project['version']}.dist-info")
folder.mkdir()
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sparksql\nVersion: {project['version']}\n")
lines = []
for group, entries in project["entry-points"].items():
    lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items()), ""]
(folder / "entry_points.txt").write_text("\n".join(lines))
