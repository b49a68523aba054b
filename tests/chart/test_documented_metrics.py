"""Metrics of operator and driver: what is documented, registered and set is the same."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from sparksql.front.metrics import FrontMetrics
from sparksql.gateway.frontends.control.metrics import registry_for
from sparksql.gateway.frontends.control.service import ControlService
from sparksql.gateway.lifecycle import Lifecycle
from sparksql.gateway.sessions.service import SessionService
from sparksql.gateway.settings import PodIdentity, Settings
from sparksql.process.metrics import Metrics
from sparksql.wire.driver import DriverConfig
from tests.chart.helmchart import ROOT
from tests.chart.sources import attributes_of

SERIES = re.compile(r"`(sparksql_[a-z_]+)(?:\{([a-z_,]*)\})?`")
BESIDE = re.compile(r"`\.\.\.(_[a-z_]+)`")  # the rest of a name that begins as the row's own


def rows(section: str) -> list[str]:
    """Rows of the tables of a section of operations.md."""
    text = (ROOT / "docs" / "operations.md").read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [line for line in text.splitlines() if line.startswith("| `")]


def registered(registry: CollectorRegistry) -> set[str]:
    """Names as they are scraped."""
    return {f"{each.name}_total" if each.type == "counter" else each.name for each in registry.collect()}


def attributes() -> dict[str, MetricWrapperBase]:
    found = vars(Metrics()).items()
    return {name: metric for name, metric in found if isinstance(metric, MetricWrapperBase)}


def test_the_operators_metrics_are_documented_with_their_labels() -> None:
    documented = {
        name: tuple(labels.split(",")) if labels else ()
        for row in rows("Metrics")
        for name, labels in SERIES.findall(row.split("|")[1])
    }
    assert documented.keys() == registered(Metrics().registry)
    labels = {name: each._labelnames for each in attributes().values() for name in registered_by(each)}
    assert documented == labels


def test_the_fronts_metrics_are_documented() -> None:
    documented = {name for row in rows("Metrics of the front") for name, _ in SERIES.findall(row.split("|")[1])}
    assert documented == registered(FrontMetrics().registry)


def registered_by(metric: MetricWrapperBase) -> set[str]:
    return {f"{each.name}_total" if each.type == "counter" else each.name for each in metric.describe()}


@pytest.mark.parametrize("name", attributes())
def test_a_metric_of_the_operator_is_set_by_something(name: str) -> None:
    used = attributes_of("self") if name.startswith("_") else attributes_of("metrics")
    assert name in used


def test_the_drivers_metrics_are_documented() -> None:
    documented: set[str] = set()
    for row in rows("Metrics of drivers"):
        first = row.split("|")[1]
        names = {name for name, _ in SERIES.findall(first)}
        documented |= names | {name + rest for name in names for rest in BESIDE.findall(row)}
    config = DriverConfig(namespace="n", session="s", session_uid="u", incarnation=1)
    lifecycle = Lifecycle(Settings(config, "", "", None, PodIdentity(), None), "boot", lambda: datetime.now(UTC))
    service = ControlService(lifecycle, SessionService(lifecycle))
    assert documented == registered(registry_for(service))
