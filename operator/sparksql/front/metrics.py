"""The front's metrics. Labels are protocols and reasons, never users, sessions or tokens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sparksql.front.model import FrontError

_OPEN_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160)


class FrontMetrics:
    """Counts what the front does."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.connections = Gauge(
            "sparksql_front_connections", "Open connections of clients.", ["protocol"], registry=self.registry
        )
        self._refusals = Counter(
            "sparksql_front_refusals",
            "Clients that were not let through.",
            ["protocol", "reason"],
            registry=self.registry,
        )
        self._opened = Histogram(
            "sparksql_front_open_seconds",
            "Time from a client's request for a session to a driver that serves it.",
            ["protocol"],
            buckets=_OPEN_SECONDS,
            registry=self.registry,
        )

    def refused(self, protocol: str, refusal: FrontError) -> None:
        """Counts a client that was not let through."""
        self._refusals.labels(protocol, refusal.refusal.value).inc()

    @contextmanager
    def opening(self, protocol: str) -> Iterator[None]:
        """Measures the block, if it ends well."""
        began = time.monotonic()
        yield
        self._opened.labels(protocol).observe(time.monotonic() - began)
