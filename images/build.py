"""Builds the project's images when their inputs changed, with docker or with buildah.

    images/build.py [--base IMAGE] [--spark-version V] [--tag TAG] [--push REGISTRY] [--force] session operator objectstore kafka

docker is taken where a daemon answers, and builds on Debian's image; else, and for a base that is on this machine only, buildah,
which needs no daemon and no registry: its default is `localhost/debian:bookworm`, made by `tests/cluster/cluster.py base`. Each step is shown;
all that the builder says is in a log in the cache folder, whose end is shown when it fails.
Invariant: an image is up to date exactly when it exists and the hash of its inputs (Dockerfile, files it copies, base image, arguments) is the one it was built from, which is
kept in the cache folder.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spark-sql-operator"
VERSITYGW = CACHE / "bin" / "versitygw"  # built from its Go module by tests/cluster/cluster.py
# A line of buildah's, or of BuildKit's, that says which step begins.
STEP = re.compile(r"(\[\d+/\d+\] )?STEP \d+/\d+: |#\d+ \[.*\d+/\d+\] ")
STEP_WIDTH = 110
LAST_LINES = 40
IGNORED = ("__pycache__", ".mypy_cache", ".ruff_cache", "README.md")


@dataclass(frozen=True)
class Image:
    """One image: its name and what goes into it, relative to the repository. `binaries` are files from elsewhere."""

    name: str
    dockerfile: str
    inputs: tuple[str, ...]
    binaries: tuple[Path, ...] = ()
    takes_spark_version: bool = False
    tag: str = "dev"

    @property
    def reference(self) -> str:
        return f"localhost/spark-sql-{self.name}:{self.tag}"


IMAGES = {
    image.name: image
    for image in (
        Image(
            "session",
            "images/session/Dockerfile",
            (
                "images/session",
                "pyproject.toml",
                *(f"operator/sparksql/{part}" for part in ("__init__.py", "logs.py", "api", "wire", "gateway")),
            ),
            takes_spark_version=True,
        ),
        Image("operator", "images/operator/Dockerfile", ("images/operator", "operator/sparksql")),
        Image("objectstore", "images/objectstore/Dockerfile", ("images/objectstore",), (VERSITYGW,)),
        Image("kafka", "images/kafka/Dockerfile", ("images/kafka",)),
    )
}


class Builder:
    """What docker and buildah have in common."""

    def __init__(self, program: str, base: str, build: Sequence[str]) -> None:
        self.program = program
        self.base = base
        self._build = build

    def image_id(self, image: str) -> str | None:
        """The id of `image` on this machine, None if it is not here."""
        form = "{{.Id}}" if self.program == "docker" else "{{.FromImageID}}"
        command = [self.program, "inspect", "--type", "image", "--format", form, image]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    def build(self, image: Image, context: Path, arguments: dict[str, str], log: Path) -> None:
        """Builds `image` from `context`: shows each step, and writes all output into `log`. Raises CalledProcessError."""
        options = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
        dockerfile = REPOSITORY / image.dockerfile
        command = [self.program, *self._build, *options, "-t", image.reference, "-f", str(dockerfile), str(context)]
        with (
            log.open("w", encoding="utf-8") as everything,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                everything.write(line)
                if STEP.match(line):
                    print(f"  {line.strip()[:STEP_WIDTH]}", flush=True)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)

    def push(self, image: Image, registry: str) -> str:
        """Pushes `image` below `registry` and returns its name there. Raises CalledProcessError, as without a login."""
        target = f"{registry.rstrip('/')}/spark-sql-{image.name}:{image.tag}"
        subprocess.run([self.program, "tag", image.reference, target], check=True)
        subprocess.run([self.program, "push", target], check=True)
        return target


def find_builder(base: str | None) -> Builder:
    """docker if its daemon answers and the base is not one of buildah's, else buildah. Exits with what to install."""
    is_local = (base or "").startswith("localhost/")
    if (
        not is_local
        and shutil.which("docker")
        and subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0
    ):
        return Builder("docker", base or "debian:bookworm-slim", ["build"])
    if not shutil.which("buildah"):
        sys.exit("neither a docker daemon nor buildah is here: apt-get install buildah")
    os.environ.setdefault("STORAGE_DRIVER", "overlay")
    builder = Builder("buildah", base or "localhost/debian:bookworm", ["bud", "--isolation=chroot", "--layers"])
    if builder.base.startswith("localhost/") and builder.image_id(builder.base) is None:
        sys.exit(f"there is no base image {builder.base}: run tests/cluster/cluster.py base")
    return builder


def input_files(image: Image) -> Iterator[Path]:
    """All files that `image` is made of, in a fixed order. Exits if a binary has not been built."""
    for name in image.inputs:
        path = REPOSITORY / name
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in files if file.is_file() and not set(file.parts) & set(IGNORED))
    for binary in image.binaries:
        if not binary.is_file():
            sys.exit(f"{image.reference} needs {binary}: run tests/cluster/cluster.py tools")
        yield binary


def input_hash(image: Image, arguments: dict[str, str], base_id: str | None) -> str:
    """Hash over everything that decides what `image` holds."""
    digest = hashlib.sha256(repr((sorted(arguments.items()), base_id)).encode())
    for file in input_files(image):
        name = file.relative_to(REPOSITORY) if file.is_relative_to(REPOSITORY) else file.name
        digest.update(f"{name} {file.stat().st_mode:o}\0".encode())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


def log_of(image: Image) -> Path:
    """Where all is written that a builder says while it builds `image`."""
    return CACHE / "images" / f"{image.name}-{image.tag}.log"


def make(image: Image, builder: Builder, spark_version: str, *, force: bool) -> None:
    """Builds `image` unless it is up to date, and says which."""
    arguments = {"BASE": builder.base}
    if image.takes_spark_version:
        arguments["SPARK_VERSION"] = spark_version
    stamp = CACHE / "images" / f"{image.name}-{image.tag}.{builder.program}"
    wanted = input_hash(image, arguments, builder.image_id(builder.base))
    known = stamp.read_text(encoding="utf-8") if stamp.is_file() else ""
    if not force and known == f"{wanted} {builder.image_id(image.reference)}":
        print(f"{image.reference}: up to date")
        return
    stamp.parent.mkdir(parents=True, exist_ok=True)
    log = log_of(image)
    print(f"{image.reference}: {builder.program} builds it, and writes into {log}", flush=True)
    started = time.monotonic()
    if image.binaries:
        with tempfile.TemporaryDirectory() as folder:
            context = Path(folder)
            for file in input_files(image):
                shutil.copy2(file, context)
            builder.build(image, context, arguments, log)
    else:
        builder.build(image, REPOSITORY, arguments, log)
    stamp.write_text(f"{wanted} {builder.image_id(image.reference)}", encoding="utf-8")
    print(f"{image.reference}: built by {builder.program} in {time.monotonic() - started:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description="Builds the project's images when their inputs changed.")
    parser.add_argument("images", nargs="+", choices=sorted(IMAGES), metavar="image", help=", ".join(sorted(IMAGES)))
    parser.add_argument(
        "--base", help="base image (default: debian:bookworm-slim, localhost/debian:bookworm with buildah)"
    )
    parser.add_argument("--spark-version", default="4.1.4", help="PySpark version of the session image")
    parser.add_argument("--tag", default="dev", help="tag of the images; those of other tags stay as they are")
    parser.add_argument(
        "--push", metavar="REGISTRY", help="push them below this registry, to which docker or buildah is logged in"
    )
    parser.add_argument("--force", action="store_true", help="build even if nothing changed")
    arguments = parser.parse_args()
    builder = find_builder(arguments.base)
    for name in arguments.images:
        image = replace(IMAGES[name], tag=arguments.tag)
        try:
            make(image, builder, arguments.spark_version, force=arguments.force)
        except subprocess.CalledProcessError as error:
            log = log_of(image)
            print("".join(log.read_text(encoding="utf-8").splitlines(keepends=True)[-LAST_LINES:]), file=sys.stderr)
            sys.exit(f"{image.reference}: {builder.program} failed with exit code {error.returncode}, see {log}")
        if arguments.push:
            try:
                print(f"{builder.push(image, arguments.push)}: pushed")
            except subprocess.CalledProcessError:
                sys.exit(
                    f"{image.reference}: {builder.program} could not push it; log in: {builder.program} login {arguments.push}"
                )


if __name__ == "__main__":
    main()
