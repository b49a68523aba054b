"""A plugin of pytest: reports tests as they end, and what files and fixtures cost."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.runner import order
from tests.runner.events import Collected, Cost, Ended, write
from tests.runner.starts import Meter


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Order())
    config.pluginmanager.register(Costs())
    if not hasattr(config, "workerinput"):  # xdist's controller has the reports of all workers
        config.pluginmanager.register(Reports())


class Order:
    """Sorts the files of a run with several processes; within a file tests stay as they are."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if file := os.environ.get(order.ORDER_ENV):
            seconds = order.read(Path(file))
            if seconds:
                items.sort(key=lambda item: order.position(item.nodeid.partition("::")[0], seconds))


class Reports:
    """Reports each test that has ended, and how many there are."""

    def __init__(self) -> None:
        self._ended: set[str] = set()
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:  # with xdist the workers collect
            write(Collected(len(session.items)))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        write(Collected(len(ids)))  # each worker has collected all of them

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            write(Ended(report.nodeid, "failed", text=report.longreprtext))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        if report.nodeid in self._ended:  # it failed or was skipped; a test may also fail in its teardown
            return
        if report.failed:
            self._end(Ended(report.nodeid, "failed", self._seconds[report.nodeid], _text(report), _cause(report)))
        elif report.skipped:
            self._end(Ended(report.nodeid, "skipped", text=report.longreprtext))
        elif report.when == "teardown":
            self._end(Ended(report.nodeid, "passed", self._seconds.pop(report.nodeid)))

    def _end(self, event: Ended) -> None:
        self._ended.add(event.test)
        write(event)


def _text(report: pytest.TestReport) -> str:
    sections = "".join(f"\n--- {title}\n{content[-20_000:]}" for title, content in report.sections)
    return report.longreprtext + sections


def _cause(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return "" if crash is None else f"{crash.path}:{crash.lineno}: {crash.message}"


class Costs:
    """Reports what each file cost when its last test has ended, and each fixture that tests share when it is set up."""

    def __init__(self) -> None:
        self._file = ""
        self._meter: Meter | None = None
        self._of_fixtures = (0.0, 0.0)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        file = item.nodeid.partition("::")[0]
        if file != self._file:
            self._end_file()
            self._file, self._meter, self._of_fixtures = file, Meter(), (0.0, 0.0)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        if fixturedef.scope == "function":
            return (yield)
        meter, of_others = Meter(), self._of_fixtures
        try:
            return (yield)
        finally:
            # What it needs of other fixtures is set up before it is, unless it asks for them by name.
            seconds, cpu = meter.read()
            inner = tuple(map(float.__sub__, self._of_fixtures, of_others))
            own = seconds - inner[0], cpu - inner[1]
            if fixturedef.scope == "session":
                self._of_fixtures = self._of_fixtures[0] + own[0], self._of_fixtures[1] + own[1]
            write(Cost("fixture", f"{fixturedef.argname} ({fixturedef.baseid or 'all'})", *own))

    def pytest_sessionfinish(self) -> None:
        self._end_file()

    def _end_file(self) -> None:
        if self._meter is not None:
            seconds, cpu = self._meter.read()
            write(Cost("file", self._file, seconds - self._of_fixtures[0], cpu - self._of_fixtures[1]))
            self._meter = None
