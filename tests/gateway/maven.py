"""Jars that tests run with, resolved once by Maven from the project's own poms into the user's cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spark-sql-operator" / "jars"
_TIMEOUT_SECONDS = 900


def jars(pom: str, *properties: str) -> list[str]:
    """Jars of a pom of the repository, in a fixed order. Resolved anew only when the pom or the properties change."""
    file = REPOSITORY / pom
    digest = hashlib.sha256(b"\0".join([file.read_bytes(), *(each.encode() for each in properties)])).hexdigest()
    folder = CACHE / f"{file.parent.name}-{digest[:16]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes that run side by side
        if not folder.is_dir():
            _resolve(file, properties, folder)
    return sorted(str(jar) for jar in folder.glob("*.jar"))


def _resolve(pom: Path, properties: tuple[str, ...], folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
        made = Path(temporary, "jars")
        command = [_maven(), "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *properties]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={made}"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-2000:]}"
        made.rename(folder)


def _maven() -> str:
    """Maven's program, installed by apt where it is missing and may be."""
    if found := shutil.which("mvn"):
        return found
    assert os.geteuid() == 0 and shutil.which("apt-get"), "Maven is missing: install it (Debian's package is maven)"
    for command in (["update"], ["install", "-y", "--no-install-recommends", "maven"]):
        subprocess.run(
            ["apt-get", "-qq", *command], env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, check=True
        )
    return "mvn"
