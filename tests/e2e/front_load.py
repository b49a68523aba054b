"""Many clients of the front at a time, who check each answer; replicas may go meanwhile. Also the soak in `tests/bench/soak/front.py`."""

from __future__ import annotations

import json
import random
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sparksql.protocols.hiveserver2 import messages
from sparksql.wire.driver import GATEWAY_PORT, THRIFT_PORT
from sparksql.wire.front import SESSION_PROPERTY
from tests.support.thrift_client import Refused, ThriftClient, ThriftError, rows_of

HIVE_PROTOCOL = 9
AWAY_SECONDS = 120.0  # for which a client asks again where nobody answers, before it gives up
ROWS = 1_000
_AWAY = (OSError, EOFError, TimeoutError, ssl.SSLError, urllib.error.URLError)


@dataclass
class Load:
    """Where the clients go, and what they have seen: answers by client, reconnects, and what must not be."""

    host: str
    certificate: str
    token: str
    session: str
    answers: Counter[int] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self, hive: int, rest: int) -> Iterator[None]:
        """Runs so many clients of HiveServer2 and of REST while the block runs; each then ends what it is at."""
        work = [self._hive] * hive + [self._rest] * rest
        self.answers.update(dict.fromkeys(range(len(work)), 0))
        threads = [threading.Thread(target=self._told, args=(each, number)) for number, each in enumerate(work)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def until_each_has(self, answers: int, seconds: float) -> None:
        """Waits until each client has so many further answers. Raises AssertionError at what is wrong, and at the deadline."""
        wanted = {number: before + answers for number, before in self.answers.items()}
        deadline = time.monotonic() + seconds
        while any(self.answers[number] < count for number, count in wanted.items()):
            assert not self.wrong, (self.wrong, self.seen)
            assert time.monotonic() < deadline, (wanted, self.answers, self.seen)
            time.sleep(0.1)

    def _told(self, client: Callable[[int, random.Random], None], number: int) -> None:
        try:
            client(number, random.Random(number))
        except BaseException as failed:
            self.wrong.append(f"{client.__name__} {number}: {type(failed).__name__} {failed}"[:500])

    def _check(self, number: int, found: list[int], first: int) -> None:
        if found != list(range(first, first + ROWS)):
            self.wrong.append(f"{len(found)} rows from {first}: {found[:3]}")
        self.answers[number] += 1

    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.certificate)

    def _hive(self, number: int, chance: random.Random) -> None:
        """A connection that is made again when it breaks, as a pool does."""
        away_since: float | None = None

        def served() -> None:
            nonlocal away_since
            away_since = None

        while not self._over.is_set():
            try:
                self._hive_connection(number, chance, served)
            except (*_AWAY, Refused, ThriftError):
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > AWAY_SECONDS:
                    raise
                self.seen["reconnects"] += 1
                time.sleep(0.5)

    def _hive_connection(self, number: int, chance: random.Random, served: Callable[[], None]) -> None:
        client = ThriftClient(THRIFT_PORT, self._tls(), self.token, host=self.host)
        with client:
            configuration = {"use:database": self.session}
            opened = client.call("OpenSession", messages.TOpenSessionReq(HIVE_PROTOCOL, "load", configuration))
            if opened[1][1] != 0:
                raise EOFError(str(opened[1]))
            session = messages.TSessionHandle(messages.THandleIdentifier(opened[3][1][1], opened[3][1][2]))
            while not self._over.is_set():
                first = chance.randrange(1_000_000)
                sql = f"SELECT id FROM range({first}, {first + ROWS})"
                ran = client.call("ExecuteStatement", messages.TExecuteStatementReq(session, sql))
                if ran[1][1] != 0:
                    self.wrong.append(f"a statement failed: {ran[1]}")
                    return
                operation = messages.TOperationHandle(messages.THandleIdentifier(ran[2][1][1], ran[2][1][2]), ran[2][2])
                fetched = client.call("FetchResults", messages.TFetchResultsReq(operation, max_rows=ROWS))
                self._check(number, [row[0] for row in rows_of(fetched)], first)
                served()
                client.call("CloseOperation", messages.OperationRequest(operation))
                self._over.wait(chance.uniform(0.5, 2))

    def _rest(self, number: int, chance: random.Random) -> None:
        """One session by its handle, whichever replica answers: no request fails for good."""
        handle = self._ask("POST", "/v4/sessions", {"properties": {SESSION_PROPERTY: self.session}})["sessionHandle"]
        while not self._over.is_set():
            first = chance.randrange(1_000_000)
            statement = {"statement": f"SELECT id FROM range({first}, {first + ROWS})"}
            operation = self._ask("POST", f"/v4/sessions/{handle}/statements", statement)["operationHandle"]
            path = f"/v4/sessions/{handle}/operations/{operation}"
            found: list[int] = []
            following: str | None = f"{path}/result/0?rowFormat=JSON"
            while following:
                page = self._ask("GET", following)
                if page["resultType"] == "NOT_READY":
                    time.sleep(0.1)
                    continue
                found += [row["fields"][0] for row in page["results"]["data"]]
                following = page.get("nextResultUri")
            self._check(number, found, first)
            self._ask("DELETE", f"{path}/close")
            self._over.wait(chance.uniform(0.5, 2))
        self._ask("DELETE", f"/v4/sessions/{handle}")

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer, asked for again while nobody answers; a statement that was submitted twice does no harm here."""
        away_since = time.monotonic()
        while True:
            request = urllib.request.Request(
                f"https://{self.host}:{GATEWAY_PORT}{path}",
                None if body is None else json.dumps(body).encode(),
                {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
                method=method,
            )
            context = self._tls()
            context.check_hostname = False  # the address is no name of the certificate, which is the only one trusted
            try:
                with urllib.request.urlopen(request, context=context, timeout=60) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as refused:
                if refused.code != 503:
                    raise AssertionError(f"{method} {path}: {refused.code} {refused.read()[:300]!r}") from None
            except _AWAY:
                self.seen["asked again"] += 1
            if time.monotonic() - away_since > AWAY_SECONDS:
                raise AssertionError(f"{method} {path}: nobody answers for {AWAY_SECONDS:g} s")
            time.sleep(0.5)
