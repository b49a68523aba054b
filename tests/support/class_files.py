"""The hierarchy of Java classes in jars, read from the class files themselves (JVM specification, chapter 4), without a JVM."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path

_UTF8, _CLASS = 1, 7
_SIZES = {3: 5, 4: 5, 5: 9, 6: 9, 7: 3, 8: 3, 9: 5, 10: 5, 11: 5, 12: 5, 15: 4, 16: 3, 17: 5, 18: 5, 19: 3, 20: 3}
_WIDE = frozenset({5, 6})  # long and double take two entries of the constant pool
_ABSTRACT = 0x0400
# Java's exceptions have such names by convention; all of what rules are about do. It saves the reading of other classes.
_SUFFIXES = ("Exception.class", "Error.class")


def supertypes(jars: Iterable[Path]) -> dict[str, tuple[str, ...]]:
    """Each exception of the jars that can be made, with its own name and those of its supertypes, from the nearest on."""
    found: dict[str, tuple[str, bool]] = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                # A release's own variants of a class are the same type.
                if entry.endswith(_SUFFIXES) and not entry.startswith("META-INF/"):
                    name, parent, is_abstract = _header(archive.read(entry))
                    found.setdefault(name, (parent, is_abstract))
    chains = {name: _chain(name, found) for name, (_, is_abstract) in found.items() if not is_abstract}
    return {name: chain for name, chain in chains.items() if _is_throwable(chain)}


def _chain(name: str, found: dict[str, tuple[str, bool]]) -> tuple[str, ...]:
    chain = [name]
    while chain[-1] in found:
        chain.append(found[chain[-1]][0])
    return (*chain[:-1], *_of_the_jdk(chain[-1]))


def _of_the_jdk(name: str) -> tuple[str, ...]:
    """Supertypes of the JDK, which are not in a jar: as far as a rule is about one of them."""
    parents = {
        "java.net.SocketTimeoutException": "java.io.InterruptedIOException",
        "java.net.ConnectException": "java.net.SocketException",
        "java.io.InterruptedIOException": "java.io.IOException",
        "java.net.SocketException": "java.io.IOException",
        "java.net.UnknownHostException": "java.io.IOException",
        "java.io.FileNotFoundException": "java.io.IOException",
        "java.io.EOFException": "java.io.IOException",
        "java.nio.file.AccessDeniedException": "java.nio.file.FileSystemException",
        "java.nio.file.FileAlreadyExistsException": "java.nio.file.FileSystemException",
        "java.nio.file.FileSystemException": "java.io.IOException",
        "java.io.IOException": "java.lang.Exception",
        "java.io.UncheckedIOException": "java.lang.RuntimeException",
        "java.util.concurrent.TimeoutException": "java.lang.Exception",
        "java.sql.SQLException": "java.lang.Exception",
        "java.sql.SQLFeatureNotSupportedException": "java.sql.SQLNonTransientException",
        "java.lang.OutOfMemoryError": "java.lang.VirtualMachineError",
        "java.lang.RuntimeException": "java.lang.Exception",
    }
    chain = [name]
    while chain[-1] in parents:
        chain.append(parents[chain[-1]])
    return tuple(chain)


def _is_throwable(chain: tuple[str, ...]) -> bool:
    last = chain[-1]
    return last.startswith(("java.", "javax.")) and last.endswith(("Exception", "Error", "Throwable"))


def _header(content: bytes) -> tuple[str, str, bool]:
    """Name and supertype of a class, and whether it is abstract."""
    (count,) = struct.unpack_from(">H", content, 8)
    at, index, texts, classes = 10, 1, {}, {}
    while index < count:
        tag = content[at]
        if tag == _UTF8:
            (length,) = struct.unpack_from(">H", content, at + 1)
            texts[index] = content[at + 3 : at + 3 + length]
            at += 3 + length
        else:
            if tag == _CLASS:
                (classes[index],) = struct.unpack_from(">H", content, at + 1)
            at += _SIZES[tag]
        index += 2 if tag in _WIDE else 1
    flags, own, parent = struct.unpack_from(">HHH", content, at)
    names = [texts[classes[each]].decode().replace("/", ".") if each else "" for each in (own, parent)]
    return names[0], names[1], bool(flags & _ABSTRACT)
