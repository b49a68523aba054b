"""The sources of a query, and where a batch of its checkpoint has left each of them."""

from __future__ import annotations

from dataclasses import dataclass

from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan
from sparksql.gateway.streaming.state.outline import plan_of_sources
from sparksql.gateway.streaming.state.source_identity import first_column, streamed

_HEADER_LINES = 2  # of a file of offsets: its version, and metadata
NOTHING = "-"  # the place of a source that has given no row yet


@dataclass(frozen=True)
class Source:
    """A source of a query, by its leaf in the plan and its name in the text."""

    leaf: LogicalPlan
    name: str


def sources_of(jvm: Jvm, analysed: LogicalPlan) -> tuple[Source, ...]:
    """Returns the sources of an analysed plan in the order of Spark's log of offsets, each once."""
    found: dict[int, Source] = {}
    for leaf, name in streamed(plan_of_sources(jvm, analysed)):
        found.setdefault(first_column(leaf), Source(leaf, name))
    return tuple(found.values())


def places_in(offsets: str) -> tuple[str, ...]:
    """Returns the places of the sources by the text of a file of offsets, in their order."""
    return tuple(offsets.splitlines()[_HEADER_LINES:])


def last_places(files: HadoopFiles, checkpoint: str) -> tuple[str, ...] | None:
    """Returns where the last batch that was planned has left the sources; None before the first batch."""
    names = (uri.rpartition("/")[2] for uri in files.children(f"{checkpoint}/offsets"))
    batch = max((int(name) for name in names if name.isdecimal()), default=None)
    if batch is None:
        return None
    return places_in(files.read_text(f"{checkpoint}/offsets/{batch}") or "")
