"""Every kind of statement against the session's catalog, as `SqlStatement` objects run it: over the control API."""

from __future__ import annotations

import json
import ssl
import time
import urllib.request
import uuid
from typing import Any

import pytest

from tests.conformance.target import HOST, Target
from tests.support.walk import WALK, Step

SECONDS = 300


class Session:
    """The driver's base session; one statement at a time."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._tls = ssl.create_default_context(cafile=str(target.control_certificate))
        self._boot_id = target.get("/control/v1/info")["bootId"]

    def run(self, sql: str) -> dict[str, Any]:
        """The ended operation."""
        path = f"/control/v1/statements/{uuid.uuid4()}"
        body = {"bootId": self._boot_id, "namespace": "conformance", "name": "walk", "sql": sql}
        view = self._put(path, {**body, "result": {"maxRows": 1000}})
        deadline = time.monotonic() + SECONDS
        while view["state"] in ("Pending", "Running"):
            assert time.monotonic() < deadline, f"{sql}: {view}"
            time.sleep(0.05)
            view = self._target.get(path)
        return {**view, "path": path}

    def rows(self, view: dict[str, Any]) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._target.get(f"{view['path']}/results")["rows"]]

    def _put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"https://{HOST}:{self._target.control}{path}", json.dumps(body).encode(), method="PUT",
            headers={"Authorization": f"Bearer {self._target.control_token}", "Content-Type": "application/json"},
        )  # fmt: skip
        with urllib.request.urlopen(request, context=self._tls, timeout=60) as response:
            view: dict[str, Any] = json.load(response)
        return view


@pytest.fixture(scope="module")
def answers(target: Target) -> dict[int, str]:
    """What is wrong with each step, by its number; nothing for those that went as they must."""
    session = Session(target)
    [(home, place)] = session.rows(session.run("SELECT current_database(), ''"))
    names = {"home": home, "db": f"walk_{uuid.uuid4().hex[:8]}", "place": place}
    session.run(f"CREATE DATABASE {names['db']}")
    described = session.rows(session.run(f"DESCRIBE DATABASE {names['db']}"))
    names["place"] = next(value for name, value in described if name == "Location")
    try:
        return {number: wrong(session, step, names) for number, step in enumerate(WALK)}
    finally:
        session.run(f"USE {home}")
        session.run(f"DROP DATABASE IF EXISTS {names['db']} CASCADE")
        session.run(f"DROP DATABASE IF EXISTS {names['db']}_2 CASCADE")


def wrong(session: Session, step: Step, names: dict[str, str]) -> str:
    """How a step's outcome differs from what must come of it; empty when it does not."""
    sql = step.text(**names)
    view = session.run(sql)
    error = view.get("error") or {}
    told = f"{error.get('condition')}: {error.get('message')}" if error else view["state"]
    if step.fails:
        return "" if error.get("condition") == step.fails else f"{sql}: {told}, not {step.fails}"
    if step.refuses:
        return "" if step.refuses in (error.get("message") or "") else f"{sql}: {told}, not {step.refuses}"
    if view["state"] != "Finished":
        return f"{sql}: {told}"
    if step.rows is not None and (rows := session.rows(view)) != list(step.rows):
        return f"{sql}: {rows}, not {step.rows}"
    if step.shows:
        text = step.shows.replace("{db}", names["db"])
        rows = session.rows(view)
        return "" if any(text in str(cell) for row in rows for cell in row) else f"{sql}: no {text!r} in {rows}"
    return ""


@pytest.mark.parametrize("number", range(len(WALK)), ids=[step.sql[:60] for step in WALK])
def test_a_statement_of_every_kind_ends_with_the_expected_outcome(number: int, answers: dict[int, str]) -> None:
    assert not answers[number], answers[number]
