"""The demo: a cluster, the operator, TPC-H data in an object store, SQL as Kubernetes resources, windows (../windows), streams (../streaming), and users (../front).

`demo.py up` may be run again at any time: what is there is reused, and the statements run anew. `demo.py down` removes all of
it. The cluster is the one that `tests/cluster/cluster.py` chooses: an own one, kind where Docker is, or the one of $KUBECONFIG.
`down` needs the Python standard library alone; `up` also `tpchgen-cli`, which makes the data, and the official `kubernetes` client, which
looks at what has become of it.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import io
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubernetes.dynamic import DynamicClient

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spark-sql-operator"
CLUSTER = ROOT / "tests" / "cluster" / "cluster.py"
CHART = ROOT / "charts" / "spark-sql-operator"
STREAMING = ROOT / "examples" / "streaming" / "demo.py"
FRONT = ROOT / "examples" / "front" / "demo.py"
WINDOWS = ROOT / "examples" / "windows"
IMAGES = ("session", "operator", "objectstore", "kafka")
RELEASE = "spark-sql-operator"
SYSTEM_NAMESPACE = "spark-sql-system"
NAMESPACE = "demo"
NAMESPACES = (NAMESPACE, "demo-neighbour")
LABELS = {"app.kubernetes.io/part-of": "spark-sql-quickstart"}
SCALE_FACTOR = "0.1"  # about 32 MB of Parquet, 600,000 line items
BUCKET = "tpch"
EXPECTED_FAILURES = {"mistake": "SqlError"}
STATEMENTS_SECONDS = 900.0
POLL_SECONDS = 1.0


class DemoError(Exception):
    """A step failed; the message says which and what was seen."""


def say(text: str) -> None:
    print(f"\n==> {text}", flush=True)


def program(name: str) -> str:
    """Path of a command line tool: the one built for the cluster, else the one of the machine."""
    built = CACHE / "bin" / name
    found = str(built) if built.is_file() else shutil.which(name)
    if found is None:
        raise DemoError(f"{name} is missing: run `{sys.executable} {CLUSTER.relative_to(ROOT)} tools`")
    return found


def run(command: Sequence[str], *, stdin: bytes | None = None, quiet: bool = False) -> str:
    """Runs a command and returns what it wrote to standard output; standard error stays visible unless `quiet`."""
    stderr = subprocess.DEVNULL if quiet else None
    result = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=stderr, check=False)
    if result.returncode != 0:
        raise DemoError(
            f"`{' '.join(map(str, command[:8]))} ...` ended with {result.returncode}\n{result.stdout.decode()}"
        )
    return result.stdout.decode()


def show(command: Sequence[str]) -> None:
    """Runs a command whose output is for the reader."""
    print(run(command), end="", flush=True)


def kubectl(*arguments: str, namespace: str = NAMESPACE) -> list[str]:
    return [program("kubectl"), "--namespace", namespace, *arguments]


def cluster(*arguments: str) -> str:
    return run([sys.executable, str(CLUSTER), *arguments])


def start_cluster() -> None:
    say("Cluster")
    os.environ["KUBECONFIG"] = cluster("up").strip().splitlines()[-1]
    say("Images")
    cluster("tools")
    base = cluster("base").strip()
    run([sys.executable, str(ROOT / "images" / "build.py"), "--base", base, *IMAGES])
    cluster("load", *(f"localhost/spark-sql-{image}:dev" for image in IMAGES))


def install() -> None:
    say(f"Operator, metastore and object store in namespace {SYSTEM_NAMESPACE}")
    target = ["--namespace", SYSTEM_NAMESPACE, "--create-namespace"]
    # An upgrade that was killed blocks every later one. Resource definitions and the objects of users stay.
    if RELEASE in run([program("helm"), "list", "--pending", "--short", "--namespace", SYSTEM_NAMESPACE]).split():
        run([program("helm"), "uninstall", RELEASE, "--namespace", SYSTEM_NAMESPACE, "--wait"])
    run([program("helm"), "upgrade", "--install", RELEASE, str(CHART), *target, "--values", str(HERE / "values.yaml")])
    for deployment in ("objectstore", "metastore"):
        rollout(f"{RELEASE}-{deployment}")
    rollout(RELEASE)


def rollout(deployment: str) -> None:
    show(kubectl("rollout", "status", f"deployment/{deployment}", "--timeout=300s", namespace=SYSTEM_NAMESPACE))


def data_folder(scale: str = SCALE_FACTOR) -> Path:
    """Folder with one Parquet file for each TPC-H table, made once."""
    folder = CACHE / f"tpch-{scale}"
    if not folder.is_dir():
        generator = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
        unfinished = folder.with_suffix(".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        run([str(generator), "parquet", "-s", scale, "--output-dir", str(unfinished)])
        unfinished.rename(folder)
    return folder


def upload() -> None:
    """Copies the tables into the object store, which keeps a bucket as a folder: `<bucket>/<table>/<table>.parquet`."""
    say(f"TPC-H data at scale factor {SCALE_FACTOR}")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for file in sorted(data_folder().glob("*.parquet")):
            tar.add(file, arcname=f"{file.stem}/{file.name}")
            print(f"    {file.stem}: {file.stat().st_size / 1e6:.1f} MB")
    store = f"deployment/{RELEASE}-objectstore"
    extract = ("exec", "--stdin", store, "--", "tar", "--extract", "--touch", f"--directory=/data/{BUCKET}")
    run(kubectl(*extract, namespace=SYSTEM_NAMESPACE), stdin=archive.getvalue())


def apply() -> None:
    say(f"Session and statements in namespaces {' and '.join(NAMESPACES)}")
    for name in NAMESPACES:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": LABELS}}
        run(kubectl("apply", "--server-side", "--filename", "-"), stdin=json.dumps(namespace).encode())
        # What a statement did cannot be undone by changing it; a new run needs a new object (or a new runNonce).
        run(kubectl("delete", "sqlstatements", "--all", "--timeout=120s", namespace=name))
    for each in failed_sessions():  # of an earlier run: it would stay as it is
        run(kubectl("delete", "sqlsession", each["metadata"]["name"], "--timeout=120s"))
    for manifest in (*sorted(HERE.glob("[0-9]*.yaml")), WINDOWS / "10-tables.yaml", WINDOWS / "20-streams.yaml"):
        apply_file(manifest)


def apply_file(manifest: Path) -> None:
    show([program("kubectl"), "apply", "--server-side", "--filename", str(manifest)])


@functools.cache
def api() -> DynamicClient:
    """The cluster as its official client shows it: not as the operator's own code would."""
    from kubernetes import config, dynamic

    # What it discovers is by default in a file that all clusters share that were ever at the same address.
    folder = tempfile.mkdtemp(prefix="demo-")
    atexit.register(shutil.rmtree, folder)
    return dynamic.DynamicClient(
        config.new_client_from_config(os.environ["KUBECONFIG"]), cache_file=f"{folder}/discovery.json"
    )


def objects(kind: str, namespace: str) -> list[dict[str, Any]]:
    resource = api().resources.get(api_version="sparksql.dev/v1alpha1", kind=kind)
    found: list[dict[str, Any]] = json.loads(resource.get(namespace=namespace, serialize=False).data)["items"]
    return found


def statements() -> list[dict[str, Any]]:
    return [each for name in NAMESPACES for each in objects("SqlStatement", name)]


def failed_sessions() -> list[dict[str, Any]]:
    return [each for each in objects("SqlSession", NAMESPACE) if each.get("status", {}).get("phase") == "Failed"]


def check_sessions() -> None:
    """Raises DemoError for a session that cannot start: its statements would wait for ever."""
    for each in failed_sessions():
        ready = next(c for c in each["status"]["conditions"] if c["type"] == "Ready")
        raise DemoError(f"session {each['metadata']['name']}: {ready['reason']}: {ready['message']}")


def is_finished(statement: dict[str, Any]) -> bool:
    conditions = statement.get("status", {}).get("conditions", [])
    return any(each["type"] == "Finished" and each["status"] == "True" for each in conditions)


def follow(known: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
    """Prints each change of phase until every statement has ended, and returns those that were not known to have ended."""
    say("Statements run (the same as: kubectl wait --for=condition=Finished sqlstmt --all)")
    started, seen = time.monotonic(), dict[str, str]()
    ended = {each["metadata"]["uid"] for each in known}
    while True:
        current = [each for each in statements() if each["metadata"]["uid"] not in ended]
        for each in current:
            name, phase = each["metadata"]["name"], each.get("status", {}).get("phase") or "new"
            if seen.get(name) != phase:
                print(f"    {time.monotonic() - started:6.1f} s  {name}: {phase}", flush=True)
                seen[name] = phase
        if current and all(map(is_finished, current)):
            return current
        check_sessions()
        if time.monotonic() - started > STATEMENTS_SECONDS:
            show(kubectl("describe", "sqlsessions,sqlstatements"))
            raise DemoError(f"statements did not end within {STATEMENTS_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def table(columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> str:
    cells = [list(columns), *([("NULL" if cell is None else cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join(f"    {line}" for line in [lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def report(ended: Sequence[dict[str, Any]]) -> None:
    say("Results, from status.result.preview")
    for each in ended:
        status = each["status"]
        result, error = status.get("result") or {}, status.get("error")
        if error:
            print(
                f"\n  {each['metadata']['name']}: {error.get('condition')} at line {error.get('line')}, position {error.get('position')}"
            )
            print(f"    {error.get('message', '').splitlines()[0]}")
        elif result.get("preview"):
            print(
                f"\n  {each['metadata']['name']} ({status.get('durationMillis', 0) / 1000:.1f} s, {result['rowCount']} rows)"
            )
            print(table([column["name"] for column in result["columns"]], result["preview"]))


def check(ended: Sequence[dict[str, Any]]) -> None:
    """Raises DemoError for a statement that did not end as the demo means it to."""
    for each in ended:
        name, status = each["metadata"]["name"], each["status"]
        reason = next(c["reason"] for c in status["conditions"] if c["type"] == "Finished")
        if reason != EXPECTED_FAILURES.get(name, "Finished"):
            raise DemoError(f"{name} ended in {status['phase']}/{reason}: {(status.get('error') or {}).get('message')}")


def windows(known: Sequence[dict[str, Any]]) -> None:
    """Raises DemoError unless the streams over windows have written what is expected, row by row."""
    say("Curves, live rooms and best-sellers: what the streams wrote beside what is expected")
    apply_file(WINDOWS / "30-compare.yaml")
    compared = follow(known)
    report(compared)
    check(compared)
    for each in compared:
        rows = each["status"]["result"]["preview"]
        if not rows or any(row[-2:] != ["1", "1"] for row in rows):  # the columns `found` and `expected`
            raise DemoError(f"{each['metadata']['name']}: a row is not found once and expected once")


def part(demo: Path, *arguments: str) -> None:
    """Runs a part of the demo, a program of its own that finds kubectl on the PATH."""
    path = os.pathsep.join([str(Path(program("kubectl")).parent), os.environ["PATH"]])
    done = subprocess.run([sys.executable, str(demo), *arguments], env={**os.environ, "PATH": path}, check=False)
    if done.returncode != 0:
        raise DemoError(
            f"its part `{' '.join((str(demo.relative_to(ROOT)), *arguments))}` ended with {done.returncode}"
        )


def up() -> None:
    started = time.monotonic()
    start_cluster()
    install()
    upload()
    apply()
    part(STREAMING, "prepare")
    ended = follow()
    report(ended)
    check(ended)
    windows(ended)
    say("All of it")
    show(kubectl("get", "sqlsessions,sqlstatements"))
    part(STREAMING, "run")
    part(FRONT)
    say(f"Done in {time.monotonic() - started:.0f} s. To look around:")
    print(
        f"    export KUBECONFIG={os.environ['KUBECONFIG']} PATH={CACHE / 'bin'}:{sysconfig.get_path('scripts')}:$PATH"
    )
    print(f"    kubectl -n {NAMESPACE} describe sqlstmt mistake")
    print(f"    kubectl sparksql -n {NAMESPACE} run -s analytics -e 'SELECT count(*) FROM lineitem'")


def down() -> None:
    """Statements and sessions first: their finalizers need the operator."""
    os.environ["KUBECONFIG"] = cluster("kubeconfig").strip().splitlines()[-1]
    if subprocess.run(kubectl("get", "--raw", "/readyz"), capture_output=True, check=False).returncode == 0:
        say(f"Namespaces {' and '.join(NAMESPACES)}")
        run(kubectl("delete", "namespace", *NAMESPACES, "--ignore-not-found", "--timeout=120s"))
        run(kubectl("delete", "sqlsessionclass", "quickstart", "--ignore-not-found"))
        say("Operator")
        run([program("helm"), "uninstall", RELEASE, "--namespace", SYSTEM_NAMESPACE, "--ignore-not-found", "--wait"])
    say("Cluster")
    cluster("down")


def main() -> int:
    parser = argparse.ArgumentParser(description="The demo of spark-sql-operator.")
    parser.add_argument("command", choices=["up", "down"])
    try:
        {"up": up, "down": down}[parser.parse_args().command]()
    except DemoError as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
