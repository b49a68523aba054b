"""The front's certificate, read anew when its files change: who renews it need not restart anything."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import grpc


class Certificates:
    """TLS of all ports from one directory with `tls.crt` and `tls.key`."""

    def __init__(self, directory: Path) -> None:
        """Reads the files. Raises OSError, and ssl.SSLError for what is no pair."""
        self._certificate, self._key = directory / "tls.crt", directory / "tls.key"
        self._read = self._pair()
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.load_cert_chain(self._certificate, self._key)

    def credentials(self) -> Any:
        """Returns gRPC's TLS with the pair that is used now, for a server that is made anew when there is another one.

        gRPC's own way to change a pair ends the process when handshakes are broken off: it gives something back twice.
        """
        certificate, key = self._read
        return grpc.ssl_server_credentials(((key, certificate),))

    def refresh(self) -> bool:
        """Takes a new pair for new connections, and tells whether there was one; a half-written one is left for next time."""
        try:
            found = self._pair()
            if found == self._read:
                return False
            self.context.load_cert_chain(self._certificate, self._key)
        except (OSError, ssl.SSLError):
            return False
        self._read = found
        return True

    def _pair(self) -> tuple[bytes, bytes]:
        return self._certificate.read_bytes(), self._key.read_bytes()
