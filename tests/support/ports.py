"""Ports for servers that tests start.

A port that the kernel chose and gave back may be another's before its server binds it: a driver binds its protocols' ports
seconds after they were written into its configuration. These are outside what the kernel gives to clients and to servers
without a port of their own (`net.ipv4.ip_local_port_range`, from 32768 up), and no two processes hand out the same.
"""

from __future__ import annotations

import fcntl
import functools
import itertools
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

FIRST, END, BLOCK = 20_000, 30_000, 100  # above the cluster's own, below its node ports


def free_port() -> int:
    """Returns a port of loopback that nothing listens on, of those that are this process's alone until it ends.

    Raises `OSError` when all of them are in use.
    """
    for port in itertools.islice(_own_ports(), BLOCK):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ended connections do not matter
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"all {BLOCK} ports of this process are in use")


def listens(port: int) -> bool:
    """Returns whether a server accepts connections at a port of loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@functools.cache
def _own_ports() -> Iterator[int]:
    """Takes a block of ports and gives them in turn, so that one comes again as late as can be."""
    folder = Path(tempfile.gettempdir(), f"spark-sql-operator-ports-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    for first in range(FIRST, END, BLOCK):
        lock = os.open(folder / str(first), os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        return itertools.cycle(range(first, first + BLOCK))  # the lock is held until the process ends
    raise OSError(f"other processes hold all ports from {FIRST} to {END}")
