"""Pinned requirements of the images: the direct ones are those of pyproject.toml, and everything is pinned."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.images.container import REPOSITORY

PINNED = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")


def declared(extra: str) -> dict[str, str]:
    """Requirements of the package with `extra`: name -> version specifier, e.g. `==2.14.3`."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    parts = [
        re.fullmatch(r"([A-Za-z0-9._-]+)(.*)", line)
        for line in (*project["dependencies"], *project["optional-dependencies"][extra])
    ]
    return {part[1].lower(): part[2] for part in parts if part}


def pinned(image: str) -> dict[str, str]:
    """Requirements of `images/IMAGE`: name -> version. Fails on a line that pins nothing."""
    lines = (REPOSITORY / "images" / image / "requirements.txt").read_text(encoding="utf-8").splitlines()
    matches = {line: PINNED.fullmatch(line) for line in lines if line and not line.startswith("#")}
    assert all(matches.values()), [line for line, match in matches.items() if not match]
    return {match[1].lower(): match[2] for match in matches.values() if match}


@pytest.mark.parametrize(("image", "extra"), [("session", "gateway"), ("operator", "operator")])
def test_pinned_image_requirements_satisfy_the_package_extras(image: str, extra: str) -> None:
    have = pinned(image)
    for name, specifier in declared(extra).items():
        if name == "pyspark":  # SPARK_VERSION of the image
            dockerfile = (REPOSITORY / "images/session/Dockerfile").read_text(encoding="utf-8")
            assert f"ARG SPARK_VERSION{specifier.replace('==', '=')}" in dockerfile
        elif specifier.startswith("=="):
            assert f"=={have[name]}" == specifier, name
        else:
            assert name in have
