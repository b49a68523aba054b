"""Prometheus metrics of the operator. Labels are kinds, phases, reasons and namespaces, never names of objects or SQL."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from sparksql.api.savepoint import SavepointPhase
from sparksql.api.statement import StatementPhase
from sparksql.cache.views import ObjectView, SavepointView, StatementView
from sparksql.engine.loop import Result

Object = dict[str, Any]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)


class Metrics:
    """All series of one operator process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._reconciles = Counter(
            "sparksql_reconcile_total", "Reconciles by kind and result", ["kind", "result"], registry=self.registry
        )
        self._reconcile_seconds = Histogram(
            "sparksql_reconcile_seconds", "Duration of a reconcile", ["kind"], buckets=_SECONDS, registry=self.registry
        )
        self._requests = Counter(
            "sparksql_api_requests_total",
            "Requests to the API server",
            ["verb", "resource", "code"],
            registry=self.registry,
        )
        self._request_seconds = Histogram(
            "sparksql_api_request_seconds", "Duration of a request", ["verb"], buckets=_SECONDS, registry=self.registry
        )
        self.ended = Counter(
            "sparksql_statements_ended_total",
            "Statements that ended, by phase and reason",
            ["namespace", "phase", "reason"],
            registry=self.registry,
        )
        self.waited = Histogram(
            "sparksql_statement_queue_seconds",
            "Time from being accepted to running",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.ran = Histogram(
            "sparksql_statement_run_seconds", "Time from running to the end", buckets=_SECONDS, registry=self.registry
        )
        self.started = Histogram(
            "sparksql_session_start_seconds",
            "Time from making a driver pod to its session being ready",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.orphans = Counter(
            "sparksql_finalizer_deadlines_total",
            "Objects let go without a confirmed clean-up",
            ["kind"],
            registry=self.registry,
        )
        self._statements = Gauge(
            "sparksql_statements", "Statements by phase", ["namespace", "phase"], registry=self.registry
        )
        self._sessions = Gauge("sparksql_sessions", "Sessions by phase", ["namespace", "phase"], registry=self.registry)
        self._savepoints = Gauge(
            "sparksql_savepoints", "Savepoints by phase", ["namespace", "phase"], registry=self.registry
        )
        self._savepoint_bytes = Gauge(
            "sparksql_savepoint_bytes", "Data of complete savepoints", ["namespace"], registry=self.registry
        )
        self._savepoint_oldest = Gauge(
            "sparksql_savepoint_oldest_timestamp_seconds",
            "Time of the last complete savepoint, of the scheduled statement whose last one is the oldest",
            ["namespace"],
            registry=self.registry,
        )
        self.queue_depth = Gauge("sparksql_queue_depth", "Keys that are due", registry=self.registry)
        self.queue_age = Gauge("sparksql_queue_oldest_seconds", "Age of the oldest due key", registry=self.registry)
        self.watch_age = Gauge(
            "sparksql_watch_age_seconds", "Time since the watches were last proven alive", registry=self.registry
        )
        self.resync_drift = Counter(
            "sparksql_resync_drift_total",
            "Objects whose change only a listing showed",
            ["kind"],
            registry=self.registry,
        )
        self.events_dropped = Gauge(
            "sparksql_events_dropped",
            "Events not recorded: over the rate, with the queue full, or refused",
            registry=self.registry,
        )

    def reconciled(self, kind: str, result: Result, seconds: float) -> None:
        """Counts a reconcile of an object of `kind` that took `seconds`."""
        self._reconciles.labels(kind, result.value).inc()
        self._reconcile_seconds.labels(kind).observe(seconds)

    def requested(self, verb: str, resource: str, status: int, seconds: float) -> None:
        """Counts a request to the API server and its seconds; `status` is 0 when there was no answer."""
        self._requests.labels(verb, resource, str(status)).inc()
        self._request_seconds.labels(verb).observe(seconds)

    def count(self, statements: Sequence[Object], sessions: Sequence[Object], savepoints: Sequence[Object]) -> None:
        """Set the gauges of objects to all that there are now; what is gone has no series."""
        kinds = ((self._statements, statements), (self._sessions, sessions), (self._savepoints, savepoints))
        for gauge, objects in kinds:
            views = map(ObjectView, objects)
            _set(gauge, collections.Counter((view.namespace, view.phase or "New") for view in views))
        sizes: collections.Counter[tuple[str, ...]] = collections.Counter()
        for savepoint in map(SavepointView, savepoints):
            if savepoint.owns_data and savepoint.phase == SavepointPhase.COMPLETED:
                sizes[(savepoint.namespace,)] += savepoint.size_bytes
        _set(self._savepoint_bytes, sizes)
        oldest: dict[tuple[str, ...], float] = {}
        for statement in map(StatementView, statements):
            if statement.is_saved_by_schedule and statement.phase == StatementPhase.RUNNING:
                labels, saved = (statement.namespace,), _saved_at(statement)
                oldest[labels] = min(oldest.get(labels, saved), saved)
        _set(self._savepoint_oldest, oldest)

    def render(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


def _set(gauge: Gauge, values: Mapping[tuple[str, ...], float]) -> None:
    """One series for each tuple of labels, and no others."""
    gauge.clear()
    for labels, value in values.items():
        gauge.labels(*labels).set(value)


def _saved_at(statement: StatementView) -> float:
    """Unix time of its last complete savepoint; without one, of its creation."""
    last = statement.last_savepoint or {}
    return datetime.fromisoformat(last.get("time") or statement.created).timestamp()
