"""dbt: seed, models and tests of a small project, twice, by dbt's own programmatic invocation in one process."""

from __future__ import annotations

import sys
from typing import Any

from dbt.cli.main import dbtRunner
from lines import answer


def main(project: str, work: str) -> None:
    runner = dbtRunner()
    places = [
        "--project-dir",
        project,
        "--profiles-dir",
        project,
        "--target-path",
        f"{work}/target",
        "--log-path",
        work,
    ]
    for turn in ("first", "second"):
        for command in ("seed", "run", "test"):
            done = runner.invoke([command, *places, "--quiet", "--no-use-colors", "--no-partial-parse"])
            results: Any = done.result or ()
            shown = {result.node.name: [str(result.status), str(result.message)] for result in results}
            answer(f"{turn}_{command}", success=done.success, results=shown, error=str(done.exception or ""))


if __name__ == "__main__":  # dbt starts processes that import it again
    main(*sys.argv[1:])
