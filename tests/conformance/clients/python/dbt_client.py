"""dbt: seed, models, snapshot, tests and docs of a small project, twice, by dbt's own programmatic invocation in one process."""

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
        for command in ("seed", "run", "snapshot", "test"):
            done = runner.invoke([command, *places, "--quiet", "--no-use-colors", "--no-partial-parse"])
            results: Any = done.result or ()
            shown = {result.node.name: [str(result.status), str(result.message)] for result in results}
            answer(f"{turn}_{command}", success=done.success, results=shown, error=str(done.exception or ""))
        done = runner.invoke(["docs", "generate", *places, "--quiet", "--no-use-colors", "--no-partial-parse"])
        nodes: Any = {} if done.result is None else done.result.nodes
        columns = {node.metadata.name: sorted(node.columns) for node in nodes.values()}
        answer(f"{turn}_docs", success=done.success, columns=columns, error=str(done.exception or ""))


if __name__ == "__main__":  # dbt starts processes that import it again
    main(*sys.argv[1:])
