"""Validate and Explain of a text with spec.streaming look at the query that Execute runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sparksql.api.execution import Lookup, OutputMode, StatementMode, TriggerMode, Upsert
from sparksql.wire.control import ErrorReason, OperationError, OperationState, OperationView, StreamOptions
from tests.support.process import GatewayProcess

from ..streams import Streams
from .test_unsupported import CASES, WATERMARKED

VALIDATE, EXPLAIN = StatementMode.VALIDATE, StatementMode.EXPLAIN
MODES = tuple(OutputMode)
KEYED = Upsert(keys=("id",))
REFUSED = (ErrorReason.INVALID_SPEC, ErrorReason.NOT_IMPLEMENTED)


@pytest.fixture(scope="module")
def gateway(connected_gateway: GatewayProcess) -> GatewayProcess:
    return connected_gateway


@dataclass(frozen=True)
class Text:
    """A text, `@` being its target, and the options that it runs with. `is_daily`: in its first mode it is tried each day."""

    name: str
    sql: str
    target: str = "USING parquet"
    options: dict[str, Any] = field(default_factory=dict)
    modes: tuple[OutputMode, ...] = (OutputMode.APPEND,)
    is_daily: bool = True


def _first(mode: OutputMode) -> tuple[OutputMode, ...]:
    """All modes, a text's own at first."""
    return (mode, *(each for each in MODES if each is not mode))


PLAIN = "INSERT INTO @ SELECT id, name, 1 FROM STREAM $.src"
COUNTED = "INSERT INTO @ SELECT id, name, count(*) AS n FROM STREAM $.src GROUP BY id, name"
TEXTS = [
    *(
        Text(case.name, f"INSERT INTO @\n{case.query.replace('¦', '')}", modes=_first(case.output_mode), is_daily=number % 3 == 0)
        for number, case in enumerate(CASES)
    ),
    Text("plain", PLAIN, modes=MODES),
    Text("aggregate into iceberg", COUNTED, "USING iceberg", modes=MODES),
    Text("upsert", COUNTED, "USING iceberg", {"upsert": KEYED}, MODES),
    Text("upsert of changes", PLAIN.replace(", 1", ", 1 AS n"), "USING iceberg", {"upsert": Upsert(keys=("id",), order_by="n")}, MODES),
    Text("upsert without a column", "INSERT INTO @ SELECT id FROM STREAM $.src", "USING iceberg", {"upsert": KEYED}),
    Text("upsert by an unknown key", PLAIN, "USING iceberg", {"upsert": Upsert(keys=("other",))}),
    Text("upsert into files", PLAIN, options={"upsert": KEYED}),
    Text("upsert by a wrong order", PLAIN.replace(", 1", ", 1 AS n"), "USING iceberg", {"upsert": Upsert(keys=("id",), order_by="none")}),
    Text("unknown lookup", PLAIN, options={"lookups": (Lookup(table="nothing"),)}),
    Text("limit of rows through a view", "INSERT INTO @ SELECT id, name, 1 FROM $.streamed", options={"max_rows_per_trigger": 5}),
    Text("real time", PLAIN, options={"trigger": TriggerMode.REAL_TIME}, modes=MODES),
    Text("no stream", "INSERT INTO @ SELECT id, name, 1 FROM $.src"),
    Text("a query alone", "SELECT id FROM STREAM $.src"),
    Text("overwrite", PLAIN.replace("INTO", "OVERWRITE")),
    Text("new table", "CREATE TABLE $.made USING parquet AS SELECT id FROM STREAM $.src"),
    Text("named target", PLAIN.replace("@", "IDENTIFIER('@')")),
    Text("view as target", PLAIN.replace("@", "$.streamed")),
    Text("unknown column", "INSERT INTO @\nSELECT nothing, name, 1 FROM STREAM $.src"),
    Text("too few columns", "INSERT INTO @ SELECT id FROM STREAM $.src"),
    Text("rows of a batch in the target", PLAIN.replace("@", "$.used")),
    Text("script", f"DECLARE OR REPLACE known = 1; {PLAIN.replace(', 1', ', known')}"),
    Text("script with an unknown column", "DECLARE OR REPLACE known = 1;\nINSERT INTO @ SELECT nothing, name, 1 FROM STREAM $.src"),
    Text("script with a wrong query", f"SELECT nothing FROM $.src;\n{PLAIN}"),
    Text("script with a refused stream", f"DECLARE OR REPLACE known = 1; {COUNTED}", modes=MODES),
]  # fmt: skip


@pytest.fixture
async def tables(streams: Streams) -> Streams:
    await streams.ok(
        "CREATE TABLE $.dim (id INT, name STRING) USING parquet",
        "CREATE TABLE $.used (id BIGINT, name STRING, n BIGINT) USING parquet",
        "INSERT INTO $.used VALUES (1, 'batch', 1)",
        "CREATE VIEW $.sorted AS SELECT * FROM STREAM $.src ORDER BY id",
        "CREATE VIEW $.streamed AS SELECT * FROM STREAM $.src",
        "INSERT INTO $.src SELECT 1, 'a', TIMESTAMP'2026-01-01 00:00:00'",
    )
    return streams


def dry(**fields: Any) -> StreamOptions:
    return StreamOptions(checkpoint="", trigger=fields.pop("trigger", TriggerMode.AVAILABLE_NOW), **fields)


async def looked(streams: Streams, sql: str, mode: StatementMode, **fields: Any) -> OperationView:
    return await streams.client.run(sql.replace("$", streams.database), mode=mode, dry_run=dry(**fields))


def told(error: OperationError | None, target: str) -> tuple[object, ...] | None:
    if error is None:
        return None
    said = error.message.replace(target, "@")
    return (error.reason, error.condition, error.sql_state, error.line, error.position, error.fragment, said)


async def test_each_text_that_execute_refuses_is_refused_alike_by_validate_and_explain(tables: Streams) -> None:
    assert await refused_alike(tables, [(text, text.modes[0]) for text in TEXTS if text.is_daily]) > 20


@pytest.mark.thorough
async def test_each_text_is_refused_alike_in_its_other_output_modes(tables: Streams) -> None:
    others = [(text, mode) for text in TEXTS for mode in text.modes[1 if text.is_daily else 0 :]]
    assert await refused_alike(tables, others) > 60


async def refused_alike(tables: Streams, texts: list[tuple[Text, OutputMode]]) -> int:
    """The number of texts that are refused in their modes, by Execute as by the others. What is refused leaves its target unused."""
    wrong, refused, unused = [], 0, dict[str, str]()
    for number, (text, mode) in enumerate(texts):
        catalog = "lake.$" if "iceberg" in text.target else "$"
        target = unused.pop(text.target, None)
        if target is None:
            target = f"dst_{number}"
            await tables.ok(f"CREATE TABLE {catalog}.{target} (id BIGINT, name STRING, n BIGINT) {text.target}")
        sql, options = text.sql.replace("@", f"{catalog}.{target}"), {"output_mode": mode, **text.options}
        validated = await looked(tables, sql, VALIDATE, **options)
        explained = await looked(tables, sql, EXPLAIN, **options)
        assert await tables.rows(f"SELECT count(*) FROM {catalog}.{target}") == [(0,)]
        assert [each.name for each in tables.folder.iterdir() if each.name.startswith("c-")] == []
        ran = await tables.client.end(await tables.put(sql, f"r-{number}", **options))
        if ran.error is not None:
            refused, unused[text.target] = refused + 1, target
        seen = [told(each.error, target) for each in (ran, validated, explained)]
        is_placed = ran.error is None or ran.error.reason not in REFUSED or None not in told(ran.error, target)[:5]
        if (
            not is_placed
            or not seen[0] == seen[1] == seen[2]
            or (ran.error is None) != (ran.state is OperationState.FINISHED)
        ):
            wrong.append((text.name, mode, *seen))
    assert not wrong, "\n\n".join("\n".join(map(str, each)) for each in wrong)
    return refused


OPERATORS = {
    "stateStoreSave": "StateStoreSave",
    "dedupe": "StreamingDeduplicate",
    "symmetricHashJoin": "StreamingSymmetricHashJoin",
    "sessionWindowStateStoreSaveExec": "SessionWindowStateStoreSave",
}
WINDOWED = "TABLE(SELECT * FROM " + WATERMARKED + ")"
MINUTE, HOP = "INTERVAL 1 MINUTE", "INTERVAL 5 MINUTES"
EXPLAINED = [
    ("plain", PLAIN, OutputMode.APPEND, None, 0),
    ("aggregate", COUNTED, OutputMode.COMPLETE, None, 1),
    ("upsert", COUNTED, OutputMode.UPDATE, KEYED, 1),
    ("join", "INSERT INTO @ SELECT s.id, t.name, 1 FROM STREAM $.src s JOIN STREAM $.src t ON s.id = t.id", OutputMode.APPEND, None, 1),
    ("panes", f"INSERT INTO @ SELECT count(*), 'x', 1 FROM HOP({WINDOWED}, DESCRIPTOR(ts), {MINUTE}, {HOP}) GROUP BY window_start, window_end", OutputMode.APPEND, None, 2),
    ("shared distinct", f"INSERT INTO @ SELECT count(DISTINCT id), 'x', count(DISTINCT name) FROM {WATERMARKED} GROUP BY window(ts, '1 minute')", OutputMode.APPEND, None, 2),
]  # fmt: skip


def kept(checkpoint: Path) -> Counter[str]:
    """The operators of which a checkpoint has the state."""
    found: Counter[str] = Counter()
    for each in checkpoint.glob("state/[0-9]*"):
        text = "".join(
            file.read_text() for file in each.glob("_metadata/**/*") if file.is_file() and not file.name.startswith(".")
        )
        found[next(shown for name, shown in OPERATORS.items() if f'"operatorName":"{name}"' in text)] += 1
    return found


async def test_explain_of_a_stream_shows_the_operators_whose_state_the_query_keeps(tables: Streams) -> None:
    for name, sql, mode, upsert, least in EXPLAINED:
        target = f"lake.$.{name.replace(' ', '_')}"
        await tables.ok(f"CREATE TABLE {target} (id BIGINT, name STRING, n BIGINT) USING iceberg")
        text = sql.replace("@", target)
        view = await looked(tables, text, EXPLAIN, output_mode=mode, upsert=upsert)
        assert view.state is OperationState.FINISHED and view.result is not None, (name, view)
        plan = str(view.result.preview[0][0])
        await tables.drained(text, name.replace(" ", "_"), output_mode=mode, upsert=upsert)
        state = kept(tables.folder / name.replace(" ", "_"))
        assert sum(state.values()) >= least, (name, state)
        assert Counter({each: n for each in OPERATORS.values() if (n := plan.count(f" {each} "))}) == state, (
            name,
            plan,
        )
        assert ("Upsert into" in plan) is (upsert is not None), plan


async def test_script_with_an_effect_before_its_insert_is_not_validated_and_has_no_effect(tables: Streams) -> None:
    for first in (
        "CREATE TABLE $.made (id INT) USING parquet",
        "INSERT INTO $.used VALUES (2, 'b', 2)",
        "DROP TABLE $.dim",
    ):
        await tables.ok("CREATE TABLE IF NOT EXISTS $.dst (id BIGINT, name STRING, n BIGINT) USING parquet")
        view = await looked(tables, f"{first}; {PLAIN.replace('@', '$.dst')}", VALIDATE)
        assert view.error is not None and "would have to run first" in view.error.message, view
    assert await tables.rows("SELECT count(*) FROM $.used") == [(1,)]
    assert await tables.rows("SHOW TABLES IN $ LIKE 'dim|made'") == [(tables.database, "dim", False)]


SCRIPTS = {
    "insert": "INSERT INTO $.used VALUES (2, 'b', 2); INSERT INTO $.used\nSELECT id, name, 1 FROM ¦STREAM $.src¦",
    "insert of a WITH": "DROP TABLE $.dim; WITH s AS (SELECT * FROM ¦STREAM $.src¦) INSERT INTO $.used SELECT id, name, 1 FROM s",
    "insert in a block": "DROP TABLE $.dim; BEGIN IF true THEN INSERT INTO $.used SELECT id, name, 1 FROM STREAM $.src; END IF; END",
    "query": "DROP TABLE $.dim; SELECT id FROM ¦STREAM $.src¦",
    "new table": "DROP TABLE $.dim; CREATE TABLE $.made USING parquet AS SELECT id FROM ¦STREAM $.src¦",
}  # fmt: skip


async def test_script_with_a_stream_that_is_not_run_as_one_is_refused_before_its_first_statement(
    tables: Streams,
) -> None:
    for name, marked in SCRIPTS.items():
        before, *rest = marked.replace("$", tables.database).split("¦")
        sql, later = marked.replace("¦", ""), f"{marked.replace('¦', '')}; {PLAIN.replace('@', '$.used')}"
        views = [
            await tables.client.run(sql.replace("$", tables.database)),
            await tables.run(later, name.replace(" ", "_")),
        ]
        for view, says in zip(views, ("spec.streaming", "only the last statement"), strict=True):
            assert view.error is not None and view.start_time is None, (name, view)
            assert None not in told(view.error, "")[:5], (name, view)
            assert name == "new table" or says in view.error.message, (name, view)
            if rest:
                place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
                assert (view.error.line, view.error.position) == place, (name, view)
                assert (view.error.fragment or "").startswith("STREAM"), (name, view)
    assert await tables.rows("SELECT count(*) FROM $.used") == [(1,)]
    assert await tables.rows("SHOW TABLES IN $ LIKE 'dim'") == [(tables.database, "dim", False)]


async def test_script_that_keeps_or_explains_a_query_of_a_stream_runs(tables: Streams) -> None:
    view = f"v_{tables.database}"
    await tables.client.ok(
        f"CREATE TEMPORARY VIEW {view} AS SELECT * FROM STREAM $.src; EXPLAIN SELECT * FROM STREAM $.src; DROP VIEW {view}".replace(
            "$", tables.database
        )
    )


@pytest.mark.parametrize("mode", [VALIDATE, EXPLAIN])
async def test_insert_from_a_stream_without_spec_streaming_is_refused_as_by_execute(
    tables: Streams, mode: StatementMode
) -> None:
    for sql in (
        PLAIN,
        "INSERT INTO @ SELECT id, name, 1 FROM $.streamed",
        "CREATE TABLE $.made USING parquet AS SELECT id FROM STREAM $.src",
    ):
        text = sql.replace("@", "$.used").replace("$", tables.database)
        ran, seen = await tables.client.run(text), await tables.client.run(text, mode=mode)
        assert ran.error is not None and told(seen.error, "") == told(ran.error, ""), (seen, ran)
