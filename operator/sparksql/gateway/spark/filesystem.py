"""Files of any Hadoop file system, read and removed through the JVM: file, s3a, abfs, gs and hdfs in one way.

The driver's own credentials and settings apply because Spark's Hadoop configuration is used. Reads are by range, so that a
page of a result costs the memory of that page.
"""

from __future__ import annotations

import io
import os
from typing import Any, Protocol

from sparksql.gateway.spark.shapes import Jvm

_CONDITIONAL_CREATE = (
    "fs.option.create.conditional.overwrite"  # of Hadoop 3.4.2, org.apache.hadoop.fs.Options.CreateFileOptionKeys
)
CHUNK_BYTES = 1 << 20  # py4j holds a transfer several times, as text


class HadoopFiles:
    """Does what results and writers need of a file system. Safe to use from several threads."""

    def __init__(self, jvm: Jvm, hadoop_conf: Any) -> None:
        self._jvm = jvm
        self._conf = hadoop_conf

    def parts(self, folder: str) -> list[str]:
        """Returns the URIs of the part files of a written Dataset, in the order of its partitions."""
        path = self._path(f"{folder}/part-*")
        found = path.getFileSystem(self._conf).globStatus(path)
        return sorted(str(status.getPath().toString()) for status in found or ())

    def delete(self, uri: str) -> bool:
        """Removes a file or folder; False when there was none."""
        path = self._path(uri)
        return bool(path.getFileSystem(self._conf).delete(path, True))

    def children(self, folder: str) -> list[str]:
        """Returns the URIs in a folder; none when it does not exist."""
        path = self._path(folder)
        system = path.getFileSystem(self._conf)
        if not system.exists(path):
            return []
        return [str(status.getPath().toString()) for status in system.listStatus(path)]

    def modified(self, folder: str) -> dict[str, int]:
        """Returns the names of the files in a folder with their times of modification in milliseconds since 1970.

        Empty when the folder does not exist.
        """
        found = str(self._jvm.dev.sparksql.files.FileTimes.of(self._path(folder), self._conf)).split("\0")
        return {name: int(time) for name, time in zip(found[:-1:2], found[1::2], strict=True)}

    def exists(self, uri: str) -> bool:
        """Returns whether anything is at a URI. Raises what the file system raises."""
        path = self._path(uri)
        return bool(path.getFileSystem(self._conf).exists(path))

    def is_folder(self, uri: str) -> bool | None:
        """Returns whether there is a folder, None when there is nothing."""
        path = self._path(uri)
        system = path.getFileSystem(self._conf)
        return bool(system.getFileStatus(path).isDirectory()) if system.exists(path) else None

    def creates_conditionally(self, uri: str) -> bool:
        """Returns whether the file system can make a file only if there is none, in one request. Of Hadoop's own s3a can."""
        path = self._path(uri)
        return bool(path.getFileSystem(self._conf).hasPathCapability(path, _CONDITIONAL_CREATE))

    def qualified(self, uri: str) -> str:
        """Returns the full form of a URI, in which equal places are equal strings: with scheme, without a slash at its end."""
        path = self._path(uri)
        return str(path.getFileSystem(self._conf).makeQualified(path).toString())

    def open(self, uri: str) -> FileInput:
        """Opens a file for reading. Raises what the file system raises."""
        path = self._path(uri)
        system = path.getFileSystem(self._conf)
        local = path.toUri().getPath() if system.getScheme() == "file" else None
        if local is not None:
            return FileInput(_LocalStream(local), os.path.getsize(local))
        return FileInput(_HadoopStream(system.open(path)), int(system.getFileStatus(path).getLen()))

    def read_text(self, uri: str) -> str | None:
        """Reads a small file of UTF-8, None when it does not exist."""
        path = self._path(uri)
        system = path.getFileSystem(self._conf)
        if not system.exists(path):
            return None
        stream = system.open(path)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write_text(self, uri: str, text: str) -> None:
        """Writes a small file of UTF-8, in place of one that is there; folders are made.

        Does so without a rename, which is a copy on object stores. Those show a file when it is whole; others may keep
        a part of it when the process dies meanwhile.
        """
        path = self._path(uri)
        stream = path.getFileSystem(self._conf).create(path, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def _path(self, uri: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(uri)


class _Stream(Protocol):
    def fetch(self, start: int, wanted: int) -> bytes:
        """The bytes from an offset on; fewer than wanted at the end of the file."""

    def close(self) -> None: ...


class _LocalStream:
    """A file of this machine, read without the way through the JVM."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by its owner

    def fetch(self, start: int, wanted: int) -> bytes:
        self._file.seek(start)
        return self._file.read(wanted)

    def close(self) -> None:
        self._file.close()


class _HadoopStream:
    """An FSDataInputStream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def fetch(self, start: int, wanted: int) -> bytes:
        self._stream.seek(start)
        pieces: list[bytes] = []
        while wanted > 0:
            piece = bytes(self._stream.readNBytes(min(wanted, CHUNK_BYTES)))
            if not piece:
                break
            pieces.append(piece)
            wanted -= len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        self._stream.close()


class FileInput(io.RawIOBase):
    """A seekable Python file over a stream of `size` bytes."""

    def __init__(self, stream: _Stream, size: int) -> None:
        super().__init__()
        self._stream = stream
        self._size = size
        self._position = 0
        self._ahead = b""
        self._ahead_at = 0

    def readable(self) -> bool:
        """Returns True: the file is there to be read."""
        return True

    def seekable(self) -> bool:
        """Returns True: a read begins at any offset."""
        return True

    def tell(self) -> int:
        """Returns the offset of the next byte."""
        return self._position

    def size(self) -> int:
        """Returns the number of bytes."""
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to an offset, and returns it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def prefetch(self, start: int, end: int) -> None:
        """Reads a range at once; reads within it need no further look at the file."""
        self._ahead, self._ahead_at = self._stream.fetch(start, min(end, self._size) - start), start

    def read(self, size: int = -1) -> bytes:
        """Reads at most `size` bytes, all that is left for -1. Raises what the file system raises."""
        wanted = self._size - self._position if size < 0 else min(size, self._size - self._position)
        if wanted <= 0:
            return b""
        offset = self._position - self._ahead_at
        if offset >= 0 and offset + wanted <= len(self._ahead):
            found = self._ahead[offset : offset + wanted]
        else:
            found = self._stream.fetch(self._position, wanted)
        self._position += len(found)
        return found

    def close(self) -> None:
        """Closes the file."""
        if not self.closed:
            self._stream.close()
        super().close()
