"""Two users come through the front with tokens of their own: Ann by beeline to a session that she names, Ben by pyspark to his own.

Part of the quickstart, in which the session `analytics` is; finds kubectl on the PATH and takes the cluster of $KUBECONFIG. beeline and
pyspark are those of the Python package `pyspark`, the certificate's store for beeline is made by the JDK's keytool.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

HERE = Path(__file__).resolve().parent
SYSTEM_NAMESPACE = "spark-sql-system"
FRONT = "spark-sql-front"
SESSION = "demo/analytics"
PASSWORD = "changeit"  # protects nothing: the store has a certificate only
SECONDS = 300
FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) -> (\d+)")
PYSPARK = """
import sys, time
from pyspark.sql import SparkSession
began = time.monotonic()
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
row = spark.sql("SELECT current_database() AS home, sum(id) AS total FROM range(1000)").collect()[0]
print(f"    {row.home}: {row.total}, {time.monotonic() - began:.1f} s from nothing to the row")
spark.stop()
"""


class DemoError(Exception):
    """A step did not end as it should; the message says which and what was seen."""


def say(text: str) -> None:
    print(f"\n==> {text}", flush=True)


def run(command: Sequence[str], env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS, env=env)
    if done.returncode != 0:
        raise DemoError(
            f"{' '.join(command[:3])} ... ended with {done.returncode}: {done.stdout[-800:]} {done.stderr[-1500:]}"
        )
    return done.stdout


def token(namespace: str, account: str) -> str:
    return run(["kubectl", "-n", namespace, "create", "token", account]).strip()


@contextmanager
def forwarded() -> Iterator[dict[int, int]]:
    """Ports of this machine that lead to the front's."""
    command = ["kubectl", "-n", SYSTEM_NAMESPACE, "port-forward", f"service/{FRONT}", ":10000", ":15002"]
    with subprocess.Popen([*command, "--address=127.0.0.1"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ports: dict[int, int] = {}
            while len(ports) < 2:
                line = process.stdout.readline()
                if not line:
                    raise DemoError("no way to the front: kubectl port-forward ended")
                if (found := FORWARDING.match(line)) is not None:
                    ports[int(found[2])] = int(found[1])
            yield ports
        finally:
            process.terminate()


def certificate(folder: Path) -> Path:
    """The front's certificate, as a file that clients trust."""
    secret = json.loads(run(["kubectl", "-n", SYSTEM_NAMESPACE, "get", "secret", FRONT, "-o", "json"]))
    file = folder / "front.crt"
    file.write_bytes(base64.b64decode(secret["data"]["tls.crt"]))
    return file


def ann(port: int, trusted: Path) -> None:
    """Counts by beeline in the session that she names."""
    import pyspark  # found where it is used: nothing else needs it

    store = trusted.with_suffix(".p12")
    run(
        [
            "keytool",
            "-importcert",
            "-noprompt",
            "-alias",
            "front",
            "-file",
            str(trusted),
            "-keystore",
            str(store),
            "-storepass",
            PASSWORD,
        ]
    )
    url = f"jdbc:hive2://localhost:{port}/{SESSION};ssl=true;sslTrustStore={store};trustStorePassword={PASSWORD}"
    beeline = str(Path(pyspark.__file__).parent / "bin" / "beeline")
    sql = "SELECT current_user() AS user, count(*) AS line_items FROM lineitem"
    began = time.monotonic()
    shown = run(["bash", beeline, "-u", url, "-n", "ann", "-p", token("demo", "ann"), "--silent=true", "-e", sql])
    print("\n".join(f"    {line}" for line in shown.splitlines() if line.startswith(("|", "+"))))
    print(f"    {time.monotonic() - began:.1f} s, beeline's own start included", flush=True)
    if "system:serviceaccount:demo:ann" not in shown:
        raise DemoError(f"current_user() is not Ann: {shown}")


def warm_driver() -> None:
    """Waits until the pool of the default class has a driver: the cluster has had other things to do."""
    deadline = time.monotonic() + SECONDS
    while (
        json.loads(run(["kubectl", "get", "sqlclass", "standard", "-o", "json"]))["status"]
        .get("warmPool", {})
        .get("ready", 0)
        < 1
    ):
        if time.monotonic() > deadline:
            raise DemoError(run(["kubectl", "describe", "sqlclass", "standard"]))
        time.sleep(1)


def ben(port: int, trusted: Path) -> None:
    """Gets a session of his own by pyspark, comes to it again, and is not let into the one that Ann uses."""
    env = {**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(trusted)}
    remote = f"sc://localhost:{port}/;use_ssl=true;token={token('demo-neighbour', 'ben')}"
    for _ in ("made for him", "there already"):
        print(run([sys.executable, "-c", PYSPARK, remote], env).rstrip(), flush=True)
    try:
        run([sys.executable, "-c", PYSPARK, f"{remote};x-sparksql-session={quote(SESSION, safe='')}"], env)
    except DemoError as refused:
        told = re.search(r"user \S+ may not connect to session [^\n\"]*", str(refused))
        if told is None:
            raise
        print(f"    refused: {told[0]}")
    else:
        raise DemoError(f"Ben is let into {SESSION}")


def main() -> int:
    try:
        say("Two users come through the front, one address for all sessions (examples/front)")
        run(["kubectl", "apply", "-f", str(HERE / "10-users.yaml")])
        with tempfile.TemporaryDirectory() as folder, forwarded() as ports:
            trusted = certificate(Path(folder))
            say(f"Ann, by beeline, in {SESSION}")
            ann(ports[10000], trusted)
            say(
                "Ben, by pyspark, in a session of his own: made for him with a warm driver, then there already; and not in Ann's"
            )
            warm_driver()
            ben(ports[15002], trusted)
    except (DemoError, subprocess.TimeoutExpired) as failed:
        print(f"\n{failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
