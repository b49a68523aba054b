"""The demo's streaming part: Kafka, a windowed aggregate and an upsert into Iceberg, a savepoint, an upgrade, a mistake, a restore.

`make demo` runs it after the quickstart, whose namespace, class and operator it uses: `prepare` starts a broker and a session,
`run` tells the story. Both begin anew on whatever an earlier run has left. It needs `kubectl` on the PATH and a KUBECONFIG.
Every command that it shows is one that a user would type.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NAMESPACE = "demo"
WAIT_SECONDS = 300.0
POLL_SECONDS = 0.5
# Events enough for some closed windows: a batch has 40, which are 4 seconds of the shop's time.
LEAST_BATCHES = 20
STREAMS = ("orders-per-window", "customer-curve", "latest-orders")
COMPARISONS = ("compare-windows", "compare-curve", "compare-latest")
TABLES = ("shop.orders_per_window", "shop.customer_curve", "shop.latest_orders")
STATEMENTS = ("stream-tables", "generate-orders", *STREAMS, "close-shop", *COMPARISONS)

STARTED = time.monotonic()

Object = dict[str, Any]


class DemoError(Exception):
    """A step failed; the message says which and what was seen."""


def say(text: str) -> None:
    print(f"\n==> {text}", flush=True)


def tell(text: str) -> None:
    """Prints what has happened, and when, in seconds since the program began."""
    print(f"    {time.monotonic() - STARTED:6.1f} s  {text}", flush=True)


def kubectl(*arguments: str, shown: bool = False) -> str:
    """Runs kubectl in the demo's namespace and returns what it wrote; standard error stays visible."""
    command = ["kubectl", "-n", NAMESPACE, *arguments]
    if shown:
        print(f"    $ {shlex.join(command)}", flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    if shown:
        print("".join(f"      {line}\n" for line in done.stdout.splitlines()), end="", flush=True)
    if done.returncode != 0:
        raise DemoError(f"`{shlex.join(command)}` ended with {done.returncode}")
    return done.stdout


def apply(manifest: str) -> None:
    kubectl("apply", "-f", str((HERE / manifest).relative_to(ROOT)), shown=True)


def change(*names: str, **spec: object) -> None:
    patch = json.dumps({"spec": spec}, separators=(",", ":"))
    kubectl("patch", "sqlstmt", *names, "--type", "merge", "-p", patch, shown=True)


def get(kind: str, name: str) -> Object:
    found: Object = json.loads(kubectl("get", kind, name, "--output=json"))
    return found


def condition(item: Object, kind: str) -> Object:
    conditions = item.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def streaming(statement: Object) -> Object:
    found: Object = statement["status"].get("streaming") or {}
    return found


def phase(item: Object) -> str:
    return str(item.get("status", {}).get("phase"))


def wait(what: str, kind: str, name: str, reached: Callable[[Object], bool]) -> Object:
    """The object once `reached` holds for what is said of its current spec. Raises DemoError when that cannot be any more."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        item = get(kind, name)
        status = item.get("status", {})
        if status.get("observedGeneration") == item["metadata"]["generation"] and reached(item):
            return item
        ready = condition(item, "Ready")
        seen = f"{phase(item)}, {ready.get('reason')}: {ready.get('message')}"
        if phase(item) in ("Error", "TimedOut", "Failed", "Abandoned"):
            raise DemoError(f"{name} is not {what}: {seen}")
        if time.monotonic() > deadline:
            raise DemoError(f"{name} is not {what} after {WAIT_SECONDS:.0f} s: {seen}")
        time.sleep(POLL_SECONDS)


def finished(name: str) -> Object:
    def reached(statement: Object) -> bool:
        return phase(statement) == "Finished"

    return wait("finished", "sqlstatement", name, reached)


def committed(statement: Object) -> int:
    return int(streaming(statement).get("committedBatchId", -1))


def running(name: str, least: int, also: Callable[[Object], bool] = lambda _: True) -> Object:
    """The stream once it runs and has committed the batch `least`, and `also` holds."""

    def reached(statement: Object) -> bool:
        return phase(statement) == "Running" and committed(statement) >= least and also(statement)

    seen = wait(f"running with batch {least} committed", "sqlstatement", name, reached)
    tell(f"{name}: Running, batch {committed(seen)} is committed")
    return seen


def prepare() -> None:
    """Starts a new broker, which has no topic, and the session. The streams of an earlier run end here."""
    say("Streaming: a Kafka broker and a session, which start beside the quickstart's statements")
    kubectl("delete", "sqlstatements", *STATEMENTS, "--ignore-not-found", "--timeout=120s")
    kubectl("delete", "sqlsavepoint", "before-release", "--ignore-not-found", "--timeout=120s")
    kubectl("delete", "deployment", "kafka", "--ignore-not-found", "--timeout=120s")
    sessions = json.loads(kubectl("get", "sqlsessions", "--output=json"))["items"]
    if any(each["metadata"]["name"] == "streaming" and phase(each) == "Failed" for each in sessions):
        kubectl("delete", "sqlsession", "streaming", "--timeout=120s")  # it would stay as it is
    apply("10-kafka.yaml")
    apply("20-session.yaml")


def start() -> None:
    say("Streaming: a topic, three Iceberg tables, events of orders, and three streams that read them")
    kubectl("rollout", "status", "deployment/kafka", "--timeout=300s")
    for manifest in ("30-tables.yaml", "40-orders.yaml", "50-streams.yaml"):
        apply(manifest)
    finished("stream-tables")
    for name in ("generate-orders", *STREAMS):
        running(name, 0)
    kubectl("get", "sqlstmt", *STREAMS, shown=True)


def save() -> None:
    say("A savepoint of latest-orders, while it runs")
    apply("60-savepoint.yaml")
    made = wait("complete", "sqlsavepoint", "before-release", lambda each: phase(each) == "Completed")
    tell(f"before-release: Completed, up to batch {made['status']['batchId']}")


def upgrade() -> None:
    name = "orders-per-window"
    say(f"Stop {name}: with upgradeMode Savepoint it is Stopped once its state is saved")
    change(name, desiredState="Stopped")
    stopped = wait("stopped", "sqlstatement", name, lambda each: phase(each) == "Stopped")
    tell(f"{name}: Stopped, up to batch {committed(stopped)}")
    kubectl("get", "sqlsp", shown=True)
    say("A release: another text, on the same state")
    apply("70-upgrade.yaml")
    running(name, committed(stopped) + 1)


def mistake() -> None:
    name = "orders-per-window"
    say("A mistake: count(*) becomes sum(id), which the state does not fit; the query goes on with the text before it")
    apply("75-mistake.yaml")

    def is_refused(statement: Object) -> bool:
        return condition(statement, "Ready").get("reason") == "StateIncompatible"

    refused = wait("refused", "sqlstatement", name, is_refused)
    tell(f"{name}: {phase(refused)}, StateIncompatible: {condition(refused, 'Ready')['message']}")


def restore() -> None:
    say("The text is put back, and latest-orders goes back to its savepoint: what came after it is merged once more")
    before = committed(get("sqlstatement", "orders-per-window"))
    apply("70-upgrade.yaml")
    apply("80-restore.yaml")
    location = get("sqlsavepoint", "before-release")["status"]["location"]
    running("latest-orders", 0, lambda each: streaming(each).get("restoredFrom") == location)
    tell(f"latest-orders: restored from {location}")
    running("orders-per-window", before + 1)


def finish() -> None:
    """All stops before the last event is written, so that each stream finds something new: only then does Spark close windows."""
    say("The end: everything stops, and the shop closes")
    running("generate-orders", LEAST_BATCHES)
    for name in ("generate-orders", *STREAMS):
        change(name, desiredState="Stopped")
    for name in ("generate-orders", *STREAMS):
        wait("stopped", "sqlstatement", name, lambda each: phase(each) == "Stopped")
    apply("85-close.yaml")
    finished("close-shop")
    say("With trigger AvailableNow a stream reads what is there, and finishes")
    change(*STREAMS, desiredState="Running", streaming={"trigger": {"mode": "AvailableNow"}})
    for name in STREAMS:
        finished(name)
    kubectl("get", "sqlstmt", *STREAMS, shown=True)


def compare() -> None:
    """Raises DemoError unless all tables are what a batch makes of the topic."""
    say("The tables against the topic, counted anew by a batch")
    apply("90-compare.yaml")
    for name, table in zip(COMPARISONS, TABLES, strict=True):
        [row] = finished(name)["status"]["result"]["preview"]
        in_topic, in_table, differences = (int(cell or 0) for cell in row[:3])
        tell(f"{table}: {in_table} rows, from the topic {in_topic}, differences: {differences}")
        if differences or not in_table:
            raise DemoError(f"{table} is not what the topic says, first at {row[3]}")
    tell("equal: nothing was lost or counted twice through stop, upgrade, mistake and restore")


def run() -> None:
    for step in (start, save, upgrade, mistake, restore, finish, compare):
        step()


def main() -> int:
    parser = argparse.ArgumentParser(description="The streaming part of spark-sql-operator's demo.")
    parser.add_argument("command", choices=["prepare", "run"])
    try:
        {"prepare": prepare, "run": run}[parser.parse_args().command]()
    except DemoError as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
