"""Drops from installed Python packages what a session never loads: their own tests, headers, and a few large parts.

Usage: unused_python.py SITE_PACKAGES.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

UNUSED = (
    "numpy/*/tests", "numpy/_core/include", "numpy/distutils", "numpy/f2py", "pandas/tests", "pyarrow/include", "pyarrow/src",
    "pyarrow/tests",
    # Arrow's RPC, which neither Spark nor the gateway speaks.
    "pyarrow/*_flight*",
    # For Python implementations other than CPython, which has an extension of its own beside it.
    "zstandard/_cffi*.so",
)  # fmt: skip


def main(site_packages: Path) -> None:
    for pattern in UNUSED:
        for path in site_packages.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
