"""A driver that was started ahead of need: it serves nobody, is bound once, and then is its session's and nobody's else."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sparksql.wire.binding import BIND_PATH, BindRequest
from sparksql.wire.driver import TLS_CERT_FILE, TLS_KEY_FILE, DriverConfig
from sparksql.wire.front import USER_HEADER, handle_prefix, prefix_of
from tests.support.process import TOKEN, GatewayProcess, running, write_tls_pair

SECONDS = 600.0
UID = str(uuid.uuid4())


class Asker:
    """Requests to the driver's port with a token and the certificate that is trusted."""

    def __init__(self, port: int, token: str, certificate: Path) -> None:
        self._base = f"https://localhost:{port}"
        self._token = token
        self._tls = ssl.create_default_context(cafile=str(certificate))

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and answer; the status is 0 where the certificate is not trusted or nobody listens."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {"Authorization": f"Bearer {self._token}", **headers}
        request = urllib.request.Request(self._base + path, data, given, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=60) as answer:
                text, status = answer.read().decode(), answer.status
        except urllib.error.HTTPError as refused:
            text, status = refused.read().decode(), refused.code
        except urllib.error.URLError:
            return 0, None
        return status, json.loads(text) if text.startswith("{") else text

    def until(self, path: str, holds: Callable[[int, Any], bool]) -> Any:
        deadline = time.monotonic() + SECONDS
        while not holds(*(found := self.ask("GET", path))):
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        return found[1]

    def value(self, sql: str) -> Any:
        session = self.ask("POST", "/v4/sessions", {})[1]["sessionHandle"]
        asked = self.ask("POST", f"/v4/sessions/{session}/statements", {"statement": sql})[1]["operationHandle"]
        path = f"/v4/sessions/{session}/operations/{asked}/result/0?rowFormat=JSON"
        page = self.until(path, lambda _, answer: answer.get("resultType") != "NOT_READY")
        return page["results"]["data"][0]["fields"][0]


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[GatewayProcess]:
    conf = {"spark.app.name": "warm-standard"}
    with running(
        tmp_path, warm=True, session="warm-standard", session_uid="", incarnation=1, spark_conf=conf
    ) as started:
        yield started


def wish(warm: GatewayProcess, folder: Path, **changes: Any) -> tuple[BindRequest, DriverConfig]:
    """What a session gives to the driver: its own names, token and certificate, a database, init, settings."""
    before = DriverConfig.model_validate_json((warm.folder / "config" / "config.json").read_text())
    conf = {**before.spark_conf, "spark.sql.shuffle.partitions": "7", **changes.pop("spark_conf", {})}
    values = {
        "warm": False, "namespace": "team-a", "session": "mine", "session_uid": UID, "spark_conf": conf, "database": "team_a",
        "init": [{"sql": "CREATE TEMPORARY VIEW greeting AS SELECT 'hello' AS word", "origin": "spec.init[0].sql"}], **changes,
    }  # fmt: skip
    config = DriverConfig.model_validate({**before.model_dump(), **values})
    folder.mkdir(exist_ok=True)
    write_tls_pair(folder)
    certificate, key = ((folder / name).read_text() for name in (TLS_CERT_FILE, TLS_KEY_FILE))
    request = BindRequest(
        config=config.to_file(), token="the-sessions-token", certificate=certificate, key=key, front_token="the-fronts"
    )
    return request, config


def body(request: BindRequest) -> bytes:
    return request.to_json().encode()


def test_a_driver_serves_nobody_until_it_is_bound_and_then_its_session_alone(
    warm: GatewayProcess, tmp_path: Path
) -> None:
    pool = Asker(warm.port, TOKEN, warm.folder / "config" / TLS_CERT_FILE)
    pool.until("/readyz", lambda status, _: status == 200)
    for path in ("/control/v1/info", "/v4/sessions", "/metrics"):
        assert pool.ask("GET", path)[0] == 404
    request, _ = wish(warm, tmp_path / "session")
    stranger = Asker(warm.port, "another-token", warm.folder / "config" / TLS_CERT_FILE)
    assert stranger.ask("POST", BIND_PATH, body(request))[0] == 401
    assert pool.ask("POST", BIND_PATH, b"{}")[0] == 400
    assert pool.ask("POST", BIND_PATH, body(request.model_copy(update={"certificate": "none"})))[0] == 400
    assert pool.ask("POST", BIND_PATH, body(request))[0] == 204
    own = Asker(warm.port, request.token, tmp_path / "session" / TLS_CERT_FILE)
    info = own.until("/control/v1/info", lambda status, told: status == 200 and told["state"] == "Ready")
    assert info["certificate"] == request.certificate
    assert own.value("SELECT current_database()") == "team_a"
    assert own.value("SET spark.sql.shuffle.partitions") in ("7", "spark.sql.shuffle.partitions")
    handle = own.ask("POST", "/v4/sessions", {})[1]["sessionHandle"]
    assert prefix_of(handle) == handle_prefix(UID)
    assert pool.ask("GET", "/readyz")[0] == 0, "the certificate of the pool is still in use"
    with_old_token = Asker(warm.port, TOKEN, tmp_path / "session" / TLS_CERT_FILE)
    assert with_old_token.ask("GET", "/control/v1/info")[0] == 401
    assert with_old_token.ask("POST", BIND_PATH, body(request))[0] == 401
    assert own.ask("POST", BIND_PATH, body(request))[0] == 404
    of_front = Asker(warm.port, "the-fronts", tmp_path / "session" / TLS_CERT_FILE)
    assert of_front.ask("POST", "/v4/sessions", {}, **{USER_HEADER: "ada"})[0] == 200
    left = sorted(path.name for path in (warm.folder / "given").iterdir())
    assert not {"token", "tls.key", "tls.crt", "config.json", "front-token"} & {*left}, left
    assert not [name for name in left if name.endswith(".pem")]


def test_settings_that_spark_has_fixed_are_refused_and_the_driver_stays_warm(
    warm: GatewayProcess, tmp_path: Path
) -> None:
    pool = Asker(warm.port, TOKEN, warm.folder / "config" / TLS_CERT_FILE)
    pool.until("/readyz", lambda status, _: status == 200)
    fixed = {"spark.sql.warehouse.dir": "file:///elsewhere", "spark.executor.cores": "4", "spark.sql.extensions": "x.Y"}
    request, _ = wish(warm, tmp_path / "first", spark_conf=fixed)
    status, refusal = pool.ask("POST", BIND_PATH, body(request))
    assert status == 409 and {*fixed} <= {*refusal["fixed"]}, refusal
    assert "spark.sql.shuffle.partitions" not in refusal["fixed"]
    assert pool.ask("GET", "/readyz")[0] == 200
    request, _ = wish(warm, tmp_path / "second")
    assert pool.ask("POST", BIND_PATH, body(request))[0] == 204


def test_a_driver_that_nobody_has_ends_when_it_is_told(warm: GatewayProcess) -> None:
    warm.terminate()
    assert warm.wait(60) == 0
