"""Schemathesis against the OpenAPI document that the gateway serves: what the document says is what the gateway does.

Every operation gets data at the bounds of its schema, data that fits it and data that does not; then come chains along the
document's links (session, statement, status, result, close). A session's handle that no answer has given is replaced by
one that exists, if it has the form of one, and most SQL by statements that end at once. Every run sends the same; with a
number of examples for each operation, which is the seed too, a run sends more and prints how much:

    REST_FUZZ_EXAMPLES=300 python -m pytest -s tests/gateway/test_rest_schema_fuzz.py
"""

from __future__ import annotations

import json
import os
import re
import time
import urllib.request
import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
import schemathesis
from schemathesis.engine import Status, events, from_schema
from schemathesis.hooks import unregister

from tests.support.process import TOKEN, GatewayProcess, running

EXAMPLES = 3
CHAINS_PER_EXAMPLE = 6
EXAMPLES_VARIABLE = "REST_FUZZ_EXAMPLES"
REQUEST_SECONDS = 60.0
SETTLE_SECONDS = 90.0
MOST_SESSIONS = 100  # of those that the fuzz has opened; the oldest are closed first
USES_OF_A_SESSION = 200
HANDLE = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
PROBE = "00000000-0000-0000-0000-000000000000"
SETTINGS = {"spark.sql.gateway.worker.threads.min": "2", "spark.sql.gateway.worker.threads.keepalive-time": "1s"}
SPARE_THREADS = 8  # late ones of fixed pools; a leak grows with the sessions and statements, which are many more
WARM_CLIENTS = 16

LONG = "SELECT count(*) FROM range(0, 1000000000000, 1, 1)"
MANY_TYPES = """
    SELECT id, CAST(id AS DECIMAL(20, 2)) AS d, CAST(id AS STRING) AS s, DATE '2026-01-31' AS day, current_timestamp() AS t,
    TIMESTAMP_NTZ '2026-01-31 00:00:00' AS n, X'00FF' AS b, array(id) AS a, map('k', id) AS m, named_struct('f', id) AS r
    FROM range(5001)
"""
SQL = {
    "configure-session": "statement",
    "statements": "statement",
    "complete-statement": "statement",
    "scripts": "script",
}
CONFIGURING = (
    "SET 'a.b' = 'c'",
    "RESET 'a.b'",
    "USE default",
    "CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1 AS a",
    "SELEC",
)
STATEMENTS = (
    *CONFIGURING, "SELECT 1", "SHOW TABLES", "VALUES (1, 'a'), (2, NULL)", "SET", "SELECT * FROM nowhere", "SELECT 1; SELECT 2", "",
)  # fmt: skip
# What an answer says whose request named a session or an operation that is not there (any more), or could not be read.
ASTRAY = re.compile(r"does not exist|Can not find|Bad request|did not match")
# Answered by refusals alone: there is nothing in Spark that they could mean.
REFUSED = re.compile(r"materialized-tables|/workflow/")


@schemathesis.check
def errors_have_a_released_form(ctx: schemathesis.CheckContext, response: schemathesis.Response, case: Any) -> None:
    """An error has the key `errors` alone; a failure names its causes, which one that nobody foresaw does not."""
    if response.status_code == 200:
        return
    body = response.json()
    assert list(body) == ["errors"] and all(isinstance(text, str) for text in body["errors"]), body
    assert response.status_code != 500 or "\n\tat sparksql.gateway" in body["errors"][-1], body


@dataclass
class Frontend:
    """Requests that the test itself sends."""

    gateway: GatewayProcess

    def call(self, method: str, path: str, body: object = None, token: str | None = TOKEN) -> tuple[int, Any]:
        request = urllib.request.Request(self.gateway.url + path, method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS, context=self.gateway.client_tls()) as got:
                return got.status, json.loads(got.read())
        except HTTPError as error:
            return error.code, json.loads(error.read())

    def ok(self, method: str, path: str, body: object = None) -> Any:
        status, answer = self.call(method, path, body)
        assert status == 200, f"{method} {path}: {status} {answer}"
        return answer

    def open(self) -> str:
        return str(self.ok("POST", "/v4/sessions")["sessionHandle"])

    def close(self, session: str) -> None:
        self.ok("DELETE", f"/v4/sessions/{session}")

    def submit(self, session: str, sql: str, milliseconds: int = 0) -> str:
        body = {"statement": sql, "executionTimeout": milliseconds}
        return str(self.ok("POST", f"/v4/sessions/{session}/statements", body)["operationHandle"])

    def sessions(self) -> list[str]:
        return [session["handle"] for session in self.ok("GET", "/control/v1/clients")["sessions"]]

    def operations(self) -> list[Any]:
        return list(self.ok("GET", "/control/v1/clients")["operations"])

    def until(self, seen: Callable[[], Any], good: Callable[[Any], bool], seconds: float = SETTLE_SECONDS) -> Any:
        deadline = time.monotonic() + seconds
        while not good(last := seen()):
            assert time.monotonic() < deadline, f"last seen {last}\n{self.gateway.log_tail(3000)}"
            time.sleep(0.1)
        return last


@dataclass
class Targets:
    """Handles that exist, so that a request reaches what lies behind the look-up of its handle."""

    frontend: Frontend
    _uses: int = 0
    _session: str = ""
    _result: str = ""
    _opened: deque[str] = field(default_factory=deque)

    def __call__(self, context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, Any]) -> None:
        """The hook before a request is sent."""
        if isinstance(case.body, dict):
            case.body = _with_sql(case.operation.path, case.body)
        session = str(case.path_parameters.get("session_handle"))
        if HANDLE.fullmatch(session) and session not in (*self._opened, self._session):
            case.path_parameters = {**case.path_parameters, **self._named(case)}

    def _named(self, case: schemathesis.Case) -> dict[str, Any]:
        given, (method, path) = case.path_parameters, (case.method, case.operation.path)
        if path.endswith("{session_handle}") and method == "DELETE":
            return {"session_handle": self.frontend.open()}
        self._renew()
        named: dict[str, Any] = {"session_handle": self._session}
        if not HANDLE.fullmatch(str(given.get("operation_handle"))):
            return named
        named["operation_handle"] = self._result
        if path.endswith("/cancel"):
            named["operation_handle"] = self.frontend.submit(self._session, LONG, 1000)
        elif path.endswith("/close"):
            named["operation_handle"] = self.frontend.submit(self._session, "SELECT 1")
        if str(given.get("token", "")).isdecimal():
            named["token"] = int(given["token"]) % 4
        return named

    def _renew(self) -> None:
        """A session keeps so many operations and no more."""
        if self._uses % USES_OF_A_SESSION == 0:
            if self._session:
                self.frontend.close(self._session)
            self._session = self.frontend.open()
            self._result = self.frontend.submit(self._session, MANY_TYPES)
        self._uses += 1

    def after(self, case: schemathesis.Case, response: schemathesis.Response) -> None:
        """Keeps the number of open sessions in bounds."""
        if (case.method, case.operation.path, response.status_code) != ("POST", "/sessions", 200):
            return
        self._opened.append(response.json()["sessionHandle"])
        if len(self._opened) > MOST_SESSIONS:
            self.frontend.call("DELETE", f"/v4/sessions/{self._opened.popleft()}")


def _with_sql(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """SQL is chosen by what it takes the place of, and a part of it left as it is."""
    route = path.rpartition("/")[2]
    key = SQL.get(route)
    if key is None or not isinstance(body.get(key), str | None):
        return body
    choice = CONFIGURING if route == "configure-session" else STATEMENTS
    chosen = zlib.crc32(json.dumps(body).encode()) % (len(choice) + 1)
    return body if chosen == len(choice) else {**body, key: choice[chosen]}


def _is_taken_for_valid(check: Any, case: schemathesis.Case) -> bool:
    """Whether a case with a wrong name was taken for a valid one: once `Targets` has named its session, encoded names are judged."""
    return check.name == "positive_data_acceptance" and bool(getattr(case.meta.phase.data, "mutations", ()))


@dataclass
class Tally:
    """What a run did and saw."""

    statuses: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    wrong: dict[str, int] = field(default_factory=Counter)
    phases: Counter[str] = field(default_factory=Counter)
    linked: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # where links have led

    def add(self, event: object) -> None:
        match event:
            case events.ScenarioFinished(recorder=recorder):
                self._add_scenario(recorder)
                self.phases[event.phase.value] += len(recorder.interactions)
            case events.NonFatalError(label=label, value=value):
                self.wrong[f"{label}: {type(value).__name__}: {value}"] += 1
            case events.FatalError(exception=exception):
                raise exception

    def _add_scenario(self, recorder: Any) -> None:
        for case_id, interaction in recorder.interactions.items():
            sent, answer = recorder.cases[case_id], interaction.response
            label, status = sent.value.operation.label, 0 if answer is None else answer.status_code
            self.statuses[label][status] += 1
            if sent.is_transition_applied:
                text = "" if answer is None else answer.content.decode(errors="replace")
                self.linked[label]["astray" if status != 200 and ASTRAY.search(text) else "there"] += 1
        for key, checks in recorder.checks.items():
            for check in checks:
                if check.status is Status.FAILURE and not _is_taken_for_valid(check, recorder.cases[key].value):
                    told = check.failure_info
                    self.wrong[f"{check.name}: {told.failure.operation}: {told.failure}\n{told.code_sample}"] += 1

    @property
    def requests(self) -> int:
        return sum(map(Counter.total, self.statuses.values()))

    def report(self) -> str:
        lines = [f"{label}: {dict(sorted(seen.items()))}" for label, seen in sorted(self.statuses.items())]
        links = [f"link to {label}: {dict(sorted(seen.items()))}" for label, seen in sorted(self.linked.items())]
        return "\n".join((f"{self.requests} requests: {dict(self.phases)}", *lines, *links))


@pytest.fixture(scope="module")
def frontend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Frontend]:
    """A gateway of its own, whose threads end soon and whose sessions are those of this module alone."""
    with running(tmp_path_factory.mktemp("fuzz"), spark_conf=SETTINGS) as gateway:
        opened = Frontend(gateway)
        opened.until(lambda: opened.ok("GET", "/control/v1/info")["state"], lambda state: state == "Ready", 600)
        yield opened


@pytest.fixture(scope="module")
def document(frontend: Frontend) -> Any:
    """The served document, as schemathesis reads it."""
    return schemathesis.openapi.from_dict(frontend.ok("GET", "/openapi.json"), config=_config(frontend.gateway))


def _config(gateway: GatewayProcess) -> schemathesis.Config:
    examples = os.environ.get(EXAMPLES_VARIABLE)
    number = int(examples or EXAMPLES)
    # What is sent must not depend on what was answered, or else no run would be like another.
    steady = {"extra-data-sources": {"responses": False}}
    fuzzing = {**steady, "error-feedback": {"enabled": False}, "operation-ordering": "none"}
    return schemathesis.Config.from_dict(
        {
            "base-url": f"{gateway.url}/v4",
            "tls-verify": str(gateway.folder / "config" / "tls.crt"),
            "auth": {"openapi": {"token": {"bearer": TOKEN}}},
            "request-timeout": REQUEST_SECONDS,
            "continue-on-failure": True,
            "workers": 1,
            "seed": int(examples or 0),
            "cache": {"enabled": False},
            "generation": {
                "mode": "all",
                "max-examples": number,
                "deterministic": examples is None,
                "database": "none",
                "with-security-parameters": False,
            },
            "phases": {
                "examples": steady,
                "coverage": {**steady, "unexpected-methods": []},
                "fuzzing": fuzzing,
                "stateful": {"link-calibration": False, "generation": {"max-examples": CHAINS_PER_EXAMPLE * number}},
            },
            "checks": {
                "not_a_server_error": {"expected-statuses": ["2xx", "4xx", "500"]},
                "max_response_time": REQUEST_SECONDS,
                # As released: numbers are taken as text, unknown keys left alone, a wrong method is not found.
                "negative_data_rejection": {"enabled": False},
                "unsupported_method": {"enabled": False},
            },
        }
    )


@contextmanager
def _hooked(targets: Targets) -> Iterator[None]:
    def before_call(context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, Any]) -> None:
        targets(context, case, kwargs)

    def after_call(context: schemathesis.HookContext, case: schemathesis.Case, response: schemathesis.Response) -> None:
        targets.after(case, response)

    hooks = [schemathesis.hook(before_call), schemathesis.hook(after_call)]
    try:
        yield
    finally:
        for hook in hooks:
            unregister(hook)


def _warm_up(frontend: Frontend) -> None:
    """Fills the pools of a fixed size, so that what comes afterwards is not their growth; makes the document's example table."""
    session = frontend.open()
    made = frontend.submit(session, "CREATE TABLE IF NOT EXISTS orders (id INT) USING parquet")
    status = f"/v4/sessions/{session}/operations/{made}/status"
    frontend.until(lambda: frontend.ok("GET", status)["status"], lambda seen: seen == "FINISHED")
    frontend.close(session)

    def use(number: int) -> None:
        session = frontend.open()
        operation = f"/v4/sessions/{session}/operations/{frontend.submit(session, 'SELECT 1')}"
        frontend.ok("GET", f"{operation}/result/0")
        frontend.ok("POST", f"/v4/sessions/{session}/complete-statement", {"statement": "SELECT", "position": number})
        frontend.close(session)

    with ThreadPoolExecutor(WARM_CLIENTS) as clients:
        list(clients.map(use, range(4 * WARM_CLIENTS)))


def _threads(gateway: GatewayProcess) -> Counter[str]:
    """Threads of the gateway and of its JVM by name, numbers left out."""
    pid = gateway.process.pid
    jvm = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
    found: Counter[str] = Counter()
    for process in (str(pid), jvm):
        for thread in Path("/proc", process, "task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                found[re.sub(r"\d+", "*", (thread / "comm").read_text().strip())] += 1
    # Spark's own, whose threads live for another minute.
    return Counter({name: count for name, count in found.items() if not name.startswith("block-manager")})


def test_every_rest_operation_without_the_token_is_unauthorized(frontend: Frontend, document: Any) -> None:
    """Those too that never succeed, of which schemathesis' own check says nothing."""
    operations = [found.ok() for found in document.get_all_operations()]
    assert operations
    for operation in operations:
        path = "/v4" + re.sub("{token}", "0", operation.path)
        for token in (None, "wrong"):
            status, body = frontend.call(operation.method.upper(), re.sub(r"{\w+}", PROBE, path), token=token)
            assert (status, list(body)) == (401, ["errors"]), (operation.label, body)


def test_the_gateway_answers_fuzzed_requests_as_its_openapi_document_says(frontend: Frontend, document: Any) -> None:
    _warm_up(frontend)
    before, tally = _threads(frontend.gateway), Tally()
    with _hooked(Targets(frontend)):
        for event in from_schema(document).execute():
            tally.add(event)
    print(tally.report())
    assert not tally.wrong, "\n\n".join((*tally.wrong, tally.report()))
    labels = {found.ok().label for found in document.get_all_operations()}
    succeeded = {label for label, seen in tally.statuses.items() if seen[200]}
    assert labels - succeeded == {label for label in labels if REFUSED.search(label)}, tally.report()

    # Whether a statement of a chain succeeds is up to its text: the link to its result leads there all the same.
    led = {label for label, ends in tally.linked.items() if ends["there"]}
    assert led >= {label for label in labels if re.search("(status|result/{token}|close)$", label)}, tally.report()

    for session in frontend.sessions():
        frontend.close(session)
    frontend.until(frontend.sessions, lambda sessions: not sessions)
    frontend.until(frontend.operations, lambda operations: not operations)
    frontend.until(lambda: _threads(frontend.gateway) - before, lambda more: more.total() <= SPARE_THREADS)
