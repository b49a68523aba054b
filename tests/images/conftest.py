"""Opens the project's images for a test.

Building is `make images`' work: a missing image fails the test with that hint, it is never skipped.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.images.container import Container, has_image


@pytest.fixture(scope="session")
def open_image() -> Iterator[Callable[[str], Container]]:
    """Opens an image of this machine by its tag; what had to be made for it is removed at the end."""
    made: list[str] = []

    def open_one(tag: str) -> Container:
        program = next((name for name in ("docker", "podman") if has_image([name, "image", "inspect", tag])), None)
        if program:
            return Container((program, "run", "--rm", "--entrypoint", "", tag), tag)
        os.environ.setdefault("STORAGE_DRIVER", "overlay")
        if not has_image(["buildah", "inspect", "--type", "image", tag]):
            pytest.fail(f"no image {tag} here: make images")
        made.append(subprocess.run(["buildah", "from", tag], capture_output=True, text=True, check=True).stdout.strip())
        return Container(("buildah", "run", "--isolation=chroot", made[-1], "--"), tag)

    yield open_one
    for name in made:
        subprocess.run(["buildah", "rm", name], capture_output=True, check=True)
