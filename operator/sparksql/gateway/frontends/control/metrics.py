"""Numbers for Prometheus, read from the gateway when they are asked for. Labels are states and statement types only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sparksql.gateway.frontends.control.service import ControlService
from sparksql.wire.control import ClientProtocol, GatewayState

_PROTOCOL_LABELS = ("protocol", "door")  # two names of one value: `door` is deprecated


class _GatewayCollector(Collector):
    def __init__(self, service: ControlService) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        info = self._service.info()
        state = GaugeMetricFamily("sparksql_gateway_state", "1 for the state that the gateway is in.", labels=["state"])
        for value in GatewayState:
            state.add_metric([str(value)], float(info.state is value))
        yield state
        live = GaugeMetricFamily("sparksql_gateway_statements", "Statements that have not ended.", labels=["state"])
        live.add_metric(["Pending"], info.pending)
        live.add_metric(["Running"], info.running)
        yield live
        total = CounterMetricFamily(
            "sparksql_gateway_statements_ended",
            "Statements that have ended; protocol is empty for those of manifests.",
            labels=["state", "statement_type", *_PROTOCOL_LABELS],
        )
        for (ended, statement_type, protocol), count in sorted(self._service.lifecycle.register.ended.items()):
            total.add_metric([str(ended), statement_type, protocol, protocol], count)
        yield total
        yield from self._clients()

    def _clients(self) -> Iterator[Metric]:
        """Sessions of clients, the pool that runs statements, and what is kept of results."""
        clients, spark = self._service.clients, self._service.lifecycle.spark
        open_sessions = Counter(session.protocol for session in clients.sessions)
        sessions = GaugeMetricFamily(
            "sparksql_gateway_client_sessions", "Open sessions of clients.", labels=_PROTOCOL_LABELS
        )
        opened = CounterMetricFamily(
            "sparksql_gateway_client_sessions_opened", "Sessions that clients have opened.", labels=_PROTOCOL_LABELS
        )
        for protocol in (*ClientProtocol, *sorted(clients.usage.opened.keys() - {*ClientProtocol})):
            sessions.add_metric([protocol, protocol], open_sessions[protocol])
            opened.add_metric([protocol, protocol], clients.usage.opened[protocol])
        yield sessions
        yield opened
        usage, limits = clients.usage, clients.settings
        for name, help_, number in (
            ("client_sessions_expired", "Sessions of clients closed for being idle.", usage.expired),
            ("client_sessions_refused", "Sessions refused because there were too many.", usage.refused),
        ):
            yield CounterMetricFamily(f"sparksql_gateway_{name}", help_, value=number)
        for name, help_, number in (
            ("client_sessions_limit", "Sessions of clients that may be open at a time.", limits.session_max_num),
            ("client_result_bytes", "Bytes of results stored for clients.", clients.result_bytes),
            ("client_result_bytes_limit", "Limit of the bytes of results stored for clients.", limits.result_max_size),
            (
                "worker_threads",
                "Threads that run statements.",
                0 if spark is None else spark.operations.workers.threads,
            ),
            ("worker_threads_busy", "Of these, busy ones.", 0 if spark is None else spark.operations.workers.busy),
            ("worker_threads_limit", "Threads that may run statements.", limits.worker_threads_max),
        ):
            yield GaugeMetricFamily(f"sparksql_gateway_{name}", help_, value=number)


def registry_for(service: ControlService) -> CollectorRegistry:
    """Makes a registry that reads a gateway's numbers whenever it is asked."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_GatewayCollector(service))
    return registry


def exposition(registry: CollectorRegistry) -> bytes:
    """Returns all metrics in the text format, version 0.0.4."""
    return generate_latest(registry)
