"""Changed streaming texts on the checkpoints of old ones: refused with the place, or going on with right numbers."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import AsyncIterator, Mapping, Set
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from sparksql.api.execution import StatementMode
from sparksql.gateway.streaming.sinks import SINK_LOG
from sparksql.gateway.streaming.state.description import StreamSource
from sparksql.gateway.streaming.state.description_file import NAME
from sparksql.gateway.streaming.state.outline import undescribed
from sparksql.wire.control import ErrorReason, OperationState, OperationView, Parameter, RestoreOptions
from tests.support.process import GatewayProcess

from ..client import connect
from ..streams import Streams
from .cases import CASES
from .texts import BASE_OPTIONS, BASES, COLUMNS, TARGET, Accepted, Case, Parked, Rewritten, rows

AT_A_TIME = 4  # queries
# Of so few rows, a state needs one partition.
FAST = {"spark.sql.shuffle.partitions": "1"}
BY_NAME = {case.name: case for case in CASES}
# Bases whose change is daily as one of another base, or shown by a text of test_structures.
LATER: Set[tuple[type[Parked] | type[Accepted], str]] = {
    *((Parked, base) for base in ("branches", "regions", "unions", "distincts")),
    *((Accepted, base) for base in ("enriched", "spellings", "sessions", "appended", "merged")),
}
ALWAYS = ("windows", "plain", "joined")  # for tests that are of no case
pytestmark = pytest.mark.asyncio(loop_scope="module")


class BaseCheckpoints:
    """Tables, and a checkpoint of each base text of these that has read part 1. Only copies of checkpoints and targets are gone on with."""

    def __init__(self, streams: Streams, warehouse: Path, bases: Set[str]) -> None:
        self.streams = streams
        self._bases = [base for base in BASES if base in bases]
        self.folder = streams.folder
        self._copies = 0
        self._tables = warehouse / f"{streams.database}.db"

    async def make(self) -> None:
        await self.streams.ok(
            f"CREATE TABLE $.src ({COLUMNS}) USING parquet",
            f"CREATE TABLE $.other ({COLUMNS}) USING parquet",
            "CREATE TABLE $.dim (code STRING, region STRING) USING parquet",
            "CREATE TABLE $.dim2 (code STRING, region STRING) USING parquet",
            "INSERT INTO $.dim VALUES ('de', 'north'), ('fr', 'west'), ('it', 'south')",
            "INSERT INTO $.dim2 VALUES ('de', 'centre'), ('fr', 'centre'), ('it', 'centre')",
            *(f"CREATE TABLE $.{base} ({TARGET}) USING {format_of(base)}" for base in self._bases),
        )
        await self._add(1)
        for start in range(0, len(self._bases), AT_A_TIME):
            await asyncio.gather(*map(self._run_base, self._bases[start : start + AT_A_TIME]))
        await self._add(2)

    async def _run_base(self, base: str) -> None:
        await self.drained(BASES[base], base, **BASE_OPTIONS.get(base, {}))

    async def _add(self, part: int) -> None:
        await self.streams.ok(f"INSERT INTO $.src {rows(part)}", f"INSERT INTO $.other {rows(part)}")

    async def run(
        self, sql: str, checkpoint: str, conf: Mapping[str, str] | None = None, **fields: Any
    ) -> OperationView:
        return await self.streams.run(sql, checkpoint, conf={**FAST, **(conf or {})}, **fields)

    async def drained(self, sql: str, checkpoint: str, conf: Mapping[str, str] | None = None, **fields: Any) -> None:
        await self.streams.drained(sql, checkpoint, conf={**FAST, **(conf or {})}, **fields)

    async def copy(self, case: Case) -> str:
        """A checkpoint and a target like the base's, for one case alone; answers the target's name."""
        self._copies += 1
        name = f"{case.base}_{self._copies}"
        shutil.copytree(self.folder / case.base, self.folder / name)
        if case.other_target:
            await self.streams.ok(f"CREATE TABLE $.{name} ({TARGET}) USING {format_of(case.base)}")
            return name
        location = (self.folder / f"{name}_rows").as_uri()
        shutil.copytree(self._tables / case.base, self.folder / f"{name}_rows")
        for log in (self.folder / f"{name}_rows").glob(f"{SINK_LOG}/*"):  # it has full paths
            if log.name.endswith(".crc"):
                log.unlink()
            else:
                log.write_text(log.read_text().replace((self._tables / case.base).as_uri(), location))
        await self.streams.ok(f"CREATE TABLE $.{name} ({TARGET}) USING {format_of(case.base)} LOCATION '{location}'")
        return name

    def forget(self, name: str) -> None:
        """Makes a checkpoint one that plain Spark could have made."""
        for each in (NAME, f".{NAME}.crc"):
            (self.folder / name / each).unlink()

    def checkpoint(self, name: str) -> dict[str, bytes]:
        folder = self.folder / name
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    async def compare(
        self, sql: str, checkpoint: str, conf: Mapping[str, str] | None = None, **fields: Any
    ) -> OperationView:
        """What is told of a text beforehand."""
        parameters = fields.pop("parameters", ())
        against = self.streams.options(checkpoint, **fields)
        text = sql.replace("$", self.streams.database)
        return await self.streams.client.run(
            text,
            mode=StatementMode.VALIDATE,
            validate_against=against,
            conf={**FAST, **(conf or {})},
            parameters=parameters,
        )

    async def rows(self, query: str) -> list[str]:
        return sorted(map(repr, await self.streams.rows(query)))


@pytest.fixture(scope="module")
def gateway(connected_gateway: GatewayProcess) -> GatewayProcess:
    return connected_gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def base_checkpoints(
    gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[BaseCheckpoints]:
    """Of the base texts that the collected tests change."""
    mine = [item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function)]
    asked = [item.callspec.params.get("case") for item in mine if hasattr(item, "callspec")]
    bases = {*ALWAYS, *(case.base for case in asked if isinstance(case, Case))}
    async with connect(gateway) as client:
        await client.until_started()
        streams = Streams(client, tmp_path_factory.mktemp("upgrades"), "upgrades")
        await client.ok("CREATE DATABASE upgrades")
        made = BaseCheckpoints(streams, gateway.folder / "warehouse", bases)
        await made.make()
        yield made
        for operation_id in streams.started:
            await client.cancel(operation_id)
        await asyncio.gather(*(client.until(each, lambda view: view.state.is_terminal) for each in streams.started))
        await client.ok("DROP DATABASE upgrades CASCADE")


def format_of(base: str) -> str:
    return "delta" if base in BASE_OPTIONS else "parquet"


def into(case: Case, target: str) -> str:
    """The changed text with another target."""
    return case.text.replace(f"$.{case.base} ", f"$.{target} ")


def incompatible(view: OperationView) -> str:
    """The message of a query that was refused because of its state."""
    assert view.state is OperationState.ERROR, view
    assert view.error is not None
    assert view.error.reason is ErrorReason.STATE_INCOMPATIBLE, view.error
    return view.error.message


def cases(kind: type[Parked] | type[Accepted] | type[Rewritten]) -> list[Any]:
    """The first case of each base is daily but for those of `LATER`, all others are thorough: the page's tables are of all of them."""
    of_kind = [case for case in CASES if isinstance(case.outcome, kind)]
    first = {case.base: case.name for case in reversed(of_kind)}
    daily = {name for base, name in first.items() if (kind, base) not in LATER}
    return [
        pytest.param(case, id=case.name, marks=() if case.name in daily else pytest.mark.thorough) for case in of_kind
    ]


@pytest.mark.parametrize("case", cases(Parked))
async def test_changed_sql_that_does_not_fit_the_stream_state_is_refused_without_effect(
    base_checkpoints: BaseCheckpoints, case: Case
) -> None:
    assert isinstance(case.outcome, Parked)
    name = await base_checkpoints.copy(case)
    before = base_checkpoints.checkpoint(name)
    told = await base_checkpoints.compare(into(case, name), name, conf=case.conf, **case.options)
    view = await base_checkpoints.run(into(case, name), name, conf=case.conf, **case.options)
    message = incompatible(view)
    assert incompatible(told) == message
    assert told.result is not None and told.result.row_count >= 1
    assert case.outcome.words in message
    assert "spec.streaming.upgradeMode Stateless" in message
    assert base_checkpoints.checkpoint(name) == before
    assert (view.start_time, view.progress and view.progress.stream) == (None, None)


@pytest.mark.parametrize("case", cases(Accepted))
async def test_changed_sql_accepted_for_a_stream_state_equals_a_recomputation(
    base_checkpoints: BaseCheckpoints, case: Case
) -> None:
    assert isinstance(case.outcome, Accepted)
    name = await base_checkpoints.copy(case)
    before = base_checkpoints.checkpoint(name)
    told = await base_checkpoints.compare(into(case, name), name, conf=case.conf, **case.options)
    assert told.state is OperationState.FINISHED, told
    assert base_checkpoints.checkpoint(name) == before
    await base_checkpoints.drained(into(case, name), name, conf=case.conf, **case.options)
    columns = ", ".join(part.split()[0] for part in TARGET.split(", "))
    assert await base_checkpoints.rows(f"SELECT {columns} FROM $.{name}") == await base_checkpoints.rows(
        case.outcome.query
    )


@pytest.mark.parametrize("case", cases(Rewritten))
async def test_a_changed_text_goes_on_with_its_rewritten_stream_state_as_a_recomputation(
    base_checkpoints: BaseCheckpoints, case: Case
) -> None:
    assert isinstance(case.outcome, Rewritten)
    name = await base_checkpoints.copy(case)
    before = base_checkpoints.checkpoint(name)
    assert case.outcome.words in incompatible(await base_checkpoints.run(into(case, name), name))
    told = await base_checkpoints.compare(into(case, name), name, rewrites=True)
    assert told.state is OperationState.FINISHED and told.result is not None and told.result.row_count == 1, told
    restore = RestoreOptions(location=base_checkpoints.streams.options(name).checkpoint, query_id="", rewrite=True)
    await base_checkpoints.drained(into(case, name), f"{name}_new", rewrites=True, restore=restore)
    assert base_checkpoints.checkpoint(name) == before
    columns = ", ".join(part.split()[0] for part in TARGET.split(", "))
    assert await base_checkpoints.rows(f"SELECT {columns} FROM $.{name}") == await base_checkpoints.rows(
        case.outcome.query
    )


async def test_a_checkpoint_without_description_is_taken_over_and_described(base_checkpoints: BaseCheckpoints) -> None:
    case = BY_NAME["setting: other trigger and limit of a batch"]
    name = await base_checkpoints.copy(case)
    described = json.loads((base_checkpoints.folder / name / NAME).read_text())
    base_checkpoints.forget(name)
    await base_checkpoints.drained(into(case, name), name)
    again = json.loads((base_checkpoints.folder / name / NAME).read_text())
    assert {**again, "text_hash": ""} == {**described, "text_hash": ""}


@pytest.mark.parametrize(
    ("change", "base"), [("aggregation: aggregate added", "windows"), ("stateless: source added", "plain")]
)
async def test_a_stream_state_that_spark_refuses_is_incompatible_and_left_undescribed(
    base_checkpoints: BaseCheckpoints, change: str, base: str
) -> None:
    case = BY_NAME[change]
    assert case.base == base
    name = await base_checkpoints.copy(case)
    base_checkpoints.forget(name)
    message = incompatible(await base_checkpoints.run(into(case, name), name))
    assert "Spark refuses the state" in message and "upgradeMode Stateless" in message
    assert not (base_checkpoints.folder / name / NAME).exists()
    await base_checkpoints.drained(BASES[base].replace(f"$.{base} ", f"$.{name} "), name)


async def test_a_description_that_cannot_be_read_is_told(base_checkpoints: BaseCheckpoints) -> None:
    case = BY_NAME["nothing changed"]
    name = await base_checkpoints.copy(case)
    base_checkpoints.forget(name)
    (base_checkpoints.folder / name / NAME).write_text("{}")
    assert f"{NAME} in the checkpoint" in incompatible(await base_checkpoints.run(into(case, name), name))


async def test_the_same_text_goes_on_from_a_description_of_the_first_version_and_another_one_does_not(
    base_checkpoints: BaseCheckpoints,
) -> None:
    case = BY_NAME["aggregation: filter changed"]
    name = await base_checkpoints.copy(case)
    same = BASES[case.base].replace(f"$.{case.base} ", f"$.{name} ")
    file = base_checkpoints.folder / name / NAME
    raw = json.loads(file.read_text())
    raw = {**{key: raw[key] for key in raw if key not in ("nodes", "group_filters")}, "version": 1}
    raw["operators"] = [{key: each[key] for key in each if key != "structure"} for each in raw["operators"]]
    raw["sources"] = [{key: each[key] for key in each if key != "reading"} for each in raw["sources"]]
    raw["text_hash"] = hashlib.sha256(same.replace("$", base_checkpoints.streams.database).encode()).hexdigest()
    base_checkpoints.forget(name)
    file.write_text(json.dumps(raw))
    message = incompatible(await base_checkpoints.run(into(case, name), name))
    assert "start the text that the state is of once" in message
    await base_checkpoints.drained(same, name)
    assert json.loads(file.read_text())["version"] == 3
    assert (await base_checkpoints.compare(into(case, name), name)).state is OperationState.FINISHED


@pytest.mark.parametrize(("change", "fits"), [("nothing changed", True), ("aggregation: filter changed", False)])
async def test_a_stream_whose_driver_died_before_its_description_goes_on_with_the_same_text_alone(
    base_checkpoints: BaseCheckpoints, change: str, fits: bool
) -> None:
    case = BY_NAME[change]
    name = await base_checkpoints.copy(case)
    text = BASES[case.base].replace(f"$.{case.base} ", f"$.{name} ").replace("$", base_checkpoints.streams.database)
    file = base_checkpoints.folder / name / NAME
    described = json.loads(file.read_text())
    sources = tuple(StreamSource(**each) for each in described["sources"])
    outline = undescribed(described["spark_version"], text, described["output_mode"], sources)
    base_checkpoints.forget(name)
    file.write_text(outline.to_json())
    if not fits:
        incompatible(await base_checkpoints.run(into(case, name), name))
        assert file.read_text() == outline.to_json()
        return
    await base_checkpoints.drained(into(case, name), name)
    again = json.loads(file.read_text())
    assert {**again, "text_hash": ""} == {**described, "text_hash": ""}, "once it has started it is described whole"


async def test_a_text_that_never_began_a_batch_binds_nobody(base_checkpoints: BaseCheckpoints) -> None:
    """Its state is empty, whatever it would have been."""
    await base_checkpoints.streams.ok(f"CREATE TABLE $.unbegun ({TARGET}) USING parquet")
    case = BY_NAME["aggregation: aggregate added"]
    (base_checkpoints.folder / "unbegun").mkdir()
    shutil.copy(base_checkpoints.folder / case.base / NAME, base_checkpoints.folder / "unbegun" / NAME)
    await base_checkpoints.drained(into(case, "unbegun"), "unbegun")


async def test_secret_values_are_not_written_down(base_checkpoints: BaseCheckpoints) -> None:
    await base_checkpoints.streams.ok(f"CREATE TABLE $.secrets ({TARGET}) USING parquet")
    text = (
        "INSERT INTO $.secrets (a, n, until) SELECT concat(country, :salt), count(*), window.end FROM STREAM $.src "
        "WATERMARK ts DELAY OF INTERVAL 10 SECONDS GROUP BY concat(country, :salt), window(ts, '1 minute')"
    )
    salt = Parameter(name="salt", value="much-salt", secret=True)
    view = await base_checkpoints.streams.client.put(
        text.replace("$", base_checkpoints.streams.database),
        streaming=base_checkpoints.streams.options("secrets"),
        conf=FAST,
        parameters=(salt,),
    )
    assert (await base_checkpoints.streams.client.end(view)).state is OperationState.FINISHED
    kept = (base_checkpoints.folder / "secrets" / NAME).read_text()
    assert "much-salt" not in kept
    assert "concat([1].country, " in kept
    other = Parameter(name="salt", value="other-salt", secret=True)
    told = await base_checkpoints.compare(text, "secrets", parameters=(other,))
    assert told.state is OperationState.FINISHED, "what is hidden cannot be told from another"
