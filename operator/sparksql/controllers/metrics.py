"""Prometheus metrics of the operator. Labels are kinds, phases, reasons and namespaces, never names of objects or SQL."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from sparksql.engine.loop import Result

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
        self.statements = Gauge(
            "sparksql_statements", "Statements by phase", ["namespace", "phase"], registry=self.registry
        )
        self.sessions = Gauge("sparksql_sessions", "Sessions by phase", ["namespace", "phase"], registry=self.registry)
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
        self.events_dropped = Gauge("sparksql_events_dropped", "Events dropped by rate limits", registry=self.registry)

    def reconciled(self, kind: str, result: Result, seconds: float) -> None:
        self._reconciles.labels(kind, result.value).inc()
        self._reconcile_seconds.labels(kind).observe(seconds)

    def requested(self, verb: str, resource: str, status: int, seconds: float) -> None:
        self._requests.labels(verb, resource, str(status)).inc()
        self._request_seconds.labels(verb).observe(seconds)

    def render(self) -> bytes:
        return generate_latest(self.registry)
