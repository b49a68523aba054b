"""Numbers for Prometheus, read from the gateway when they are asked for. Labels are states and statement types only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sparksql.gateway.gateway import Gateway
from sparksql.wire.control import GatewayState


class _GatewayCollector(Collector):
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def collect(self) -> Iterator[Metric]:
        info = self._gateway.info()
        state = GaugeMetricFamily("sparksql_gateway_state", "1 for the state that the gateway is in.", labels=["state"])
        for value in GatewayState:
            state.add_metric([str(value)], float(info.state is value))
        yield state
        live = GaugeMetricFamily("sparksql_gateway_statements", "Statements that have not ended.", labels=["state"])
        live.add_metric(["Pending"], info.pending)
        live.add_metric(["Running"], info.running)
        yield live
        ended = Counter(
            (str(view.state), view.statement_type or "")
            for view in self._gateway.register.changed_after(0)
            if view.state.is_terminal
        )
        total = CounterMetricFamily(
            "sparksql_gateway_statements_ended", "Statements that have ended.", labels=["state", "statement_type"]
        )
        for (name, statement_type), count in sorted(ended.items()):
            total.add_metric([name, statement_type], count)
        yield total


def registry_for(gateway: Gateway) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_GatewayCollector(gateway))
    return registry


def exposition(registry: CollectorRegistry) -> bytes:
    """The text format, version 0.0.4."""
    return generate_latest(registry)
