"""Runs commands in one of the project's images with whatever is here: docker, podman or buildah."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

TIMEOUT_SECONDS = 600
REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Container:
    """Runs commands as the image's own user with the image's environment; `run` raises with all output if one fails."""

    prefix: tuple[str, ...]
    image: str

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*self.prefix, *command], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
        if check and done.returncode != 0:
            pytest.fail(f"{self.image}: {command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def output(self, *command: str) -> str:
        return self.run(*command).stdout.strip()


def has_image(command: Sequence[str]) -> bool:
    """Whether the program is here and its `inspect` knows the image."""
    return bool(shutil.which(command[0])) and subprocess.run(command, capture_output=True, check=False).returncode == 0
