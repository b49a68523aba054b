"""How long `sparksql lint` takes for many right files, with Spark's parser and without: `python -m tests.bench.lint [FILES]`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES = 2000
STATEMENTS = (
    "INSERT INTO revenue_{0} SELECT day, sum(amount) AS amount FROM orders WHERE day = DATE '2026-01-31' GROUP BY day",
    "CREATE TABLE IF NOT EXISTS table_{0} (day DATE, amount DECIMAL(12, 2)) USING parquet",
    "SELECT a.id, b.name, count(*) FROM orders a JOIN customers b ON a.customer = b.id WHERE a.day > {0} GROUP BY ALL",
    "MERGE INTO t{0} USING s ON t{0}.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
)


def write(folder: Path, count: int) -> None:
    """A session for each 50 files, and statements that depend on each other."""
    head = "apiVersion: sparksql.dev/v1alpha1\n"
    for number in range(count):
        team = number // 50
        space = folder / f"team-{team}"
        space.mkdir(exist_ok=True)
        if number % 50 == 0:
            manifest = (
                f"kind: SqlSession\nmetadata: {{name: main, namespace: team-{team}}}\nspec: {{className: standard}}\n"
            )
        else:
            before = f"  dependsOn: [{{name: s{number - 1}}}]\n" if number % 50 > 1 else ""
            sql = STATEMENTS[number % len(STATEMENTS)].format(number)
            meta = f"kind: SqlStatement\nmetadata: {{name: s{number}, namespace: team-{team}}}\nspec:\n"
            manifest = f"{meta}  sessionRef: {{name: main}}\n{before}  sql: |\n    {sql}\n"
        (space / f"{number}.yaml").write_text(head + manifest)


def seconds(folder: Path, environment: dict[str, str]) -> float:
    begin = time.monotonic()
    command = [sys.executable, "-m", "sparksql.cli.main", "lint", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"the files are not clean: {done.stdout}{done.stderr}")
    return time.monotonic() - begin


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else FILES
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), count)
        without = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"} | {"PATH": "/nowhere"}
        print(f"{count} files without SQL: {seconds(Path(name), without):.1f} s")
        print(f"{count} files with SQL:    {seconds(Path(name), dict(os.environ)):.1f} s")


if __name__ == "__main__":
    main()
