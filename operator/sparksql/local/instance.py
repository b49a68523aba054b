"""The folder of an instance of local mode, and the lock by which one process at a time has it."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DEFAULT_INSTANCE = "default"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?")


class InstanceError(Exception):
    """The instance cannot be used; the message names the reason and the remedy."""


@dataclass(frozen=True)
class Instance:
    """One instance: everything that it keeps is below `folder`, readable to its user alone."""

    name: str
    folder: Path

    @classmethod
    def of(cls, name: str, environment: Mapping[str, str] = os.environ) -> Instance:
        """Returns the instance of this name below `$XDG_DATA_HOME` (default `~/.local/share`). Raises InstanceError."""
        if _NAME.fullmatch(name) is None:
            raise InstanceError(
                f"--instance {name}: the name of an instance has at most 50 lower case letters, digits and '-', "
                "and begins and ends with a letter or digit"
            )
        # The XDG Base Directory Specification: a relative path is ignored.
        configured = Path(environment.get("XDG_DATA_HOME", ""))
        root = configured if configured.is_absolute() else Path.home() / ".local" / "share"
        return cls(name, root / "sparksql" / name)

    @property
    def database(self) -> Path:
        """Returns the file with the objects."""
        return self.folder / "objects.db"

    @property
    def pods(self) -> Path:
        """Returns the folder with a folder for each pod, by UID."""
        return self.folder / "pods"

    @property
    def logs(self) -> Path:
        """Returns the folder with a log for each pod, by name."""
        return self.folder / "logs"

    @property
    def data(self) -> Path:
        """Returns the folder with tables, checkpoints, savepoints and results."""
        return self.folder / "data"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Makes the folders and holds the instance until the block ends. Raises InstanceError if another process does."""
        for folder in (self.folder, self.pods, self.logs, self.data):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(file, 32, 0).decode(errors="replace").strip() or "of unknown id"
                raise InstanceError(
                    f"instance {self.name} is in use by process {holder}: wait for it to end, or choose another --instance"
                ) from None
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(file)
