"""How each client is started: one process for the whole query set, its answers by name.

Every program gets the same things in its own way: address, token, certificate, queries. A process that takes too long is
ended, and what it had answered until then is kept, so that the tests show which step hung.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark

from sparksql.wire.front import SESSION_PROPERTY
from tests.conformance.clients import install
from tests.conformance.queries import FAILURES, QUERIES
from tests.conformance.relay import relay
from tests.conformance.target import HOST, STORE_PASSWORD, Target
from tests.conformance.terminal import Terminal

HERE = Path(__file__).parent
ENDLESS = "SELECT count(*) FROM range(0, 1000000000000, 1, 8) WHERE sha2(CAST(id AS STRING), 256) = 'none'"
SECONDS = 900  # of a client's whole run, on a loaded machine
JAVA = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")
# Flink's clients offer only cipher suites for RSA keys unless they are told others; the gateway's key is of an elliptic curve.
FLINK_CIPHERS = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"


@dataclass
class Run:
    """What a program answered, by name, and what it wrote besides."""

    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    noise: str = ""
    exit_code: int | None = None
    seconds: float = 0

    def __getitem__(self, name: str) -> dict[str, Any]:
        if name not in self.answers:
            raise AssertionError(
                f"no answer {name!r}; the program ended with {self.exit_code} after {self.seconds:.0f} s, "
                f"last answers {list(self.answers)[-3:]}, it wrote:\n{self.noise[-3000:]}"
            )
        return self.answers[name]


def steps(database: str) -> list[tuple[str, str, bool]]:
    """Name, SQL and whether rows are read, of all that every client runs."""
    made = [("make_database", f"CREATE DATABASE IF NOT EXISTS {database}", False)]
    made += [(query.name, query.text(database), query.reads) for query in QUERIES]
    made += [(failure.name, failure.text(database), True) for failure in FAILURES]
    return made


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "FLINK_", "DBT_", "PYTHON"))}
    return {**kept, "TZ": "UTC", "LC_ALL": "C.UTF-8", **more}


def execute(
    command: Sequence[str | Path],
    work: Path,
    given: str = "",
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] = lambda line: None,
    seconds: float = SECONDS,
) -> tuple[str, str, int | None, float]:
    """Output, error output, exit code (None: ended for lateness) and seconds."""
    errors = work / f"errors-{time.monotonic_ns()}"
    started = time.monotonic()
    with errors.open("wb") as error_file:
        process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=error_file,
            env=dict(env or environment()), cwd=work,
        )  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        late = threading.Timer(seconds, process.kill)
        late.start()
        lines = []
        try:
            process.stdin.write(given.encode())
            process.stdin.close()
            for raw in process.stdout:
                lines.append(raw.decode(errors="replace"))
                on_line(lines[-1])
            code = process.wait()
        finally:
            late.cancel()
            process.kill()
            process.stdout.close()
    (work / "output").write_text("".join(lines))
    is_late = time.monotonic() - started >= seconds
    return "".join(lines), errors.read_text(errors="replace"), None if is_late else code, time.monotonic() - started


def json_lines(output: str) -> dict[str, dict[str, Any]]:
    answers: dict[str, dict[str, Any]] = {}
    for line in output.splitlines():
        if line.startswith('{"name"'):
            answer = json.loads(line)
            answers.setdefault(answer["name"], answer)
    return answers


def _collected(done: tuple[str, str, int | None, float]) -> Run:
    output, errors, code, seconds = done
    answers = json_lines(output)
    other = "\n".join(line for line in output.splitlines() if not line.startswith('{"name"'))
    return Run(answers, f"{other}\n{errors}", code, seconds)


def _task(target: Target, database: str, **more: Any) -> str:
    return json.dumps(
        {
            "host": HOST, "thrift_port": target.thrift, "connect_port": target.connect, "token": target.token,
            "ca": str(target.certificate), "database": database, "queries": steps(database), "endless": ENDLESS, **more,
        }
    )  # fmt: skip


def _program(name: str) -> Path:
    return HERE / "clients" / "python" / f"{name}_client.py"


def pyhive(target: Target, work: Path, database: str) -> Run:
    python = install.PYHIVE.install() / "bin" / "python"
    return _collected(execute([python, _program("pyhive")], work, _task(target, database)))


def impyla(target: Target, work: Path, database: str) -> Run:
    python = install.IMPYLA.install() / "bin" / "python"
    return _collected(execute([python, _program("impyla")], work, _task(target, database)))


def hive_driver(target: Target, work: Path, database: str) -> Run:
    modules = install.HIVE_DRIVER.install() / "node_modules"
    command: list[str | Path] = ["node", HERE / "clients" / "node" / "client.cjs"]
    return _collected(execute(command, work, _task(target, database), environment(NODE_PATH=str(modules))))


def connect(client: install.Client) -> Callable[[Target, Path, str], Run]:
    def run(target: Target, work: Path, database: str) -> Run:
        python = client.install() / "bin" / "python"
        env = environment(GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=str(target.certificate))
        is_cut = work / "cut"

        with relay("127.0.0.1", target.connect) as own:  # one that can be cut without disturbing other clients

            def cut(line: str) -> None:
                if '"reattach:reading"' in line:
                    assert own.cut(), "no connection to cut"
                    is_cut.touch()

            task = _task(target, database, cut_port=own.port, cut_file=str(is_cut))
            return _collected(execute([python, _program("connect")], work, task, env, cut))

    return run


def dbt(target: Target, work: Path, database: str) -> Run:
    python = install.DBT.install() / "bin" / "python"
    env = environment(
        GATEWAY_HOST="127.0.0.1", GATEWAY_PORT=str(target.tunnel), GATEWAY_DATABASE=database,
        DBT_ENV_SECRET_TOKEN=target.token,
    )  # fmt: skip
    project = work / "project"
    subprocess.run(["cp", "-r", HERE / "clients" / "dbt", project], check=True)
    return _collected(execute([python, _program("dbt"), project, work], work, env=env))


def flink_properties(store: Path) -> dict[str, str]:
    """What Flink's clients need for TLS."""
    return {
        "security.ssl.rest.enabled": "true",
        "security.ssl.rest.truststore": str(store),
        "security.ssl.rest.truststore-password": STORE_PASSWORD,
        "security.ssl.algorithms": FLINK_CIPHERS,
    }


def flink_environment(token: str, **more: str) -> dict[str, str]:
    return environment(FLINK_REST_CLIENT_HEADERS=f"Authorization:Bearer {token}", **more)


def flink_jdbc(client: install.Client, old: bool) -> Callable[[Target, Path, str], Run]:
    """An old driver dies on version names that it does not know, so it talks to the session that hides them."""

    def run(target: Target, work: Path, database: str) -> Run:
        jars = client.install()
        queries = work / "queries"
        encoded = (
            (n, base64.b64encode(sql.encode()).decode(), str(reads).lower()) for n, sql, reads in steps(database)
        )
        queries.write_text("".join("\t".join(parts) + "\n" for parts in encoded))
        port, store, token = (
            (target.old_rest, target.old_store, target.old_token) if old else (target.rest, target.store, target.token)
        )
        properties = [f"{key}={value}" for key, value in flink_properties(store).items()]
        source = HERE / "clients" / "flink" / "Jdbc.java"
        command: list[str | Path] = [
            *JAVA,
            "-cp",
            f"{jars}/*",
            source,
            f"jdbc:flink://{HOST}:{port}",
            queries,
            database,
            *properties,
        ]
        return _collected(execute(command, work, env=flink_environment(token)))

    return run


CONFIGURATIONS = ("config.yaml", "flink-conf.yaml")  # 2.x, 1.x


class FlinkSqlClient:
    """The SQL Client without a terminal. `path` is the prefix of the server's URL."""

    def __init__(self, client: install.Client, path: str = "") -> None:
        self._client = client
        self._path = path

    def script(
        self, target: Target, work: Path, script: str, init: str = "", seconds: float = SECONDS, session: str = ""
    ) -> str:
        """All that it prints for a script. It exits with 0 whatever fails. `session` is what it asks the front for."""
        folder = self._folder(target, work)
        if session:
            for name in CONFIGURATIONS:
                with (folder / name).open("a") as file:
                    file.write(f"{SESSION_PROPERTY}: {session}\n")
        (folder / "script.sql").write_text(script)
        command = [*self._command(target, folder, init), "-f", folder / "script.sql"]
        output, errors, code, _ = execute(command, folder, env=self._environment(target, folder), seconds=seconds)
        return output if code == 0 else f"{output}\nended with {code}: {errors[-3000:]}"

    def terminal(self, target: Target, work: Path, init: str) -> Terminal:
        """The client at a prompt, once it has run `init`."""
        folder = self._folder(target, work)
        return Terminal(self._command(target, folder, init), folder, self._environment(target, folder))

    def _folder(self, target: Target, work: Path) -> Path:
        """A home of its own, with its configuration."""
        folder = work / f"flink-{time.monotonic_ns()}"
        folder.mkdir()
        config = "".join(f"{key}: {value}\n" for key, value in flink_properties(target.store).items())
        for name in CONFIGURATIONS:
            (folder / name).write_text(config)
        return folder

    def _command(self, target: Target, folder: Path, init: str) -> list[str | Path]:
        command: list[str | Path] = [
            *JAVA, "-cp", f"{self._client.install()}/*", "org.apache.flink.table.client.SqlClient", "gateway",
            "-e", f"https://{HOST}:{target.rest}{self._path}",
        ]  # fmt: skip
        if init:
            (folder / "init.sql").write_text(init)
            command += ["-i", folder / "init.sql"]
        return command

    def _environment(self, target: Target, folder: Path) -> dict[str, str]:
        return flink_environment(target.token, FLINK_CONF_DIR=str(folder), HOME=str(folder))

    def __call__(self, target: Target, work: Path, database: str) -> Run:
        wanted = [step for step in steps(database) if step[0] not in {failure.name for failure in FAILURES}]
        before = [
            "SET 'sql-client.execution.result-mode' = 'tableau'",
            "SET 'sql-client.display.max-column-width' = '50000'",
            "SET 'table.display.max-column-width' = '50000'",
        ]
        started = time.monotonic()
        output = self.script(target, work, "".join(f"{sql};\n" for sql in (*before, *(sql for _, sql, _ in wanted))))
        parts = output.split("Flink SQL> ")[1 + len(before) :]
        answers = {name: {"name": name, **table(part)} for (name, _, _), part in zip(wanted, parts, strict=False)}
        return Run(answers, output, 0, time.monotonic() - started)


def table(text: str) -> dict[str, Any]:
    """Columns and rows of a table drawn by the SQL Client; other text as it is."""
    border = re.search(r"\+-[-+]*\+$", text, re.MULTILINE)  # a part of the statement may stand before it
    if border is None:
        return {"error": text.strip()} if "[ERROR]" in text else {"text": text.strip()}
    lines = text[border.start() :].strip().splitlines()
    cells = [[cell.strip() for cell in line[1:-1].split(" | ")] for line in lines if line.startswith("| ")]
    return {"columns": cells[0], "rows": cells[1:], "text": lines[-1]}


BEELINE_MARK = re.compile(r"^marker\nbegin (\w+)\n", re.MULTILINE)


def beeline_command(target: Target, *more: str | Path, by_http: bool = False) -> list[str | Path]:
    port = f"{target.rest}/default;transportMode=http;httpPath=cliservice" if by_http else f"{target.thrift}/default"
    url = f"jdbc:hive2://{HOST}:{port};ssl=true;sslTrustStore={target.store};trustStorePassword={STORE_PASSWORD}"
    program = Path(pyspark.__file__).parent / "bin" / "beeline"
    return [
        program, "-u", url, "-n", "ann", "-p", target.token, "--silent=true", "--outputformat=csv2", "--force=true", *more,
    ]  # fmt: skip


def beeline(target: Target, work: Path, database: str) -> Run:
    script = work / "script.sql"
    wanted = [*steps(database), ("tables", "!tables", True), ("table_columns", "!columns t", True)]
    script.write_text(
        "".join(
            f"SELECT 'begin {name}' AS marker;\n{sql}{'' if sql.startswith('!') else ';'}\n" for name, sql, _ in wanted
        )
    )
    # Errors are written between the results only when both go to the same place.
    command = ["bash", "-c", 'exec "$@" 2>&1', "beeline", *beeline_command(target, "-f", script)]
    output, _, code, seconds = execute(command, work, env=environment(SPARK_HOME=""))
    return Run(beeline_answers(output), output, code, seconds)


def beeline_answers(output: str) -> dict[str, dict[str, Any]]:
    clean = re.sub(r"\r(null)? *\r(null)?", "", output)  # the prompt of a terminal that is none
    parts = BEELINE_MARK.split(clean)
    answers: dict[str, dict[str, Any]] = {}
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        text = text.strip("\n") + "\n"
        if text.startswith("Error:") or "\nError:" in text:
            answers[name] = {"name": name, "error": text.strip()}
            continue
        # csv2 quotes with NUL unless a system property asks for real quotes.
        rows = list(csv.reader(io.StringIO(text), quotechar="\0"))
        answers[name] = {"name": name, "columns": rows[0] if rows else [], "rows": [row for row in rows[1:] if row]}
    return answers
