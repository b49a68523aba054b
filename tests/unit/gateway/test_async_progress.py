"""Progress that Spark writes down beside the batches: which queries may have it, and how."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sparksql.api.execution import TriggerMode
from sparksql.gateway.sql.errors import StatementError
from sparksql.gateway.streaming.async_progress import check_async_progress, is_asked_for, with_each_batch
from tests.unit.gateway.test_plans import Node

ON = {"asyncProgressTrackingEnabled": "true"}


class Streaming(Node):
    """A node of a streaming plan."""

    def isStreaming(self) -> bool:
        return True


STATELESS = Streaming("Project", Streaming("StreamingRelationV2"))


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, False),
        (ON, True),
        ({"ASYNCPROGRESSTRACKINGENABLED": " True "}, True),
        ({"asyncProgressTrackingEnabled": "false"}, False),
        ({"asyncProgressTrackingCheckpointIntervalMs": "1000"}, False),
    ],
)
def test_async_progress_is_asked_for_as_spark_reads_the_option(given: Mapping[str, str], asked: bool) -> None:
    assert is_asked_for(given) is asked
    interval = with_each_batch(given).get("asyncProgressTrackingCheckpointIntervalMs")
    assert interval == ("0" if asked else given.get("asyncProgressTrackingCheckpointIntervalMs"))


@pytest.mark.parametrize(
    ("options", "trigger", "plan", "into_kafka", "says"),
    [
        (ON, TriggerMode.INTERVAL, STATELESS, True, None),
        (ON, TriggerMode.AUTO, STATELESS, True, None),
        ({**ON, "asyncProgressTrackingCheckpointIntervalMs": "0"}, TriggerMode.INTERVAL, STATELESS, True, None),
        ({}, TriggerMode.AVAILABLE_NOW, Streaming("Aggregate", STATELESS), False, None),
        (ON, TriggerMode.INTERVAL, STATELESS, False, "requires a table USING kafka"),
        (
            {**ON, "asyncprogresstrackingcheckpointintervalms": "1000"},
            TriggerMode.INTERVAL,
            STATELESS,
            True,
            "cannot be in a savepoint",
        ),
        (ON, TriggerMode.AVAILABLE_NOW, STATELESS, True, "not AvailableNow"),
        (ON, TriggerMode.REAL_TIME, STATELESS, True, "not RealTime"),
        *(
            (ON, TriggerMode.INTERVAL, Streaming("Project", Streaming(kind, STATELESS)), True, "keeps no state")
            for kind in ("Aggregate", "Distinct", "Deduplicate", "DeduplicateWithinWatermark", "GlobalLimit")
        ),
    ],
)
def test_a_query_has_async_progress_only_where_it_can_be_stopped_and_resumed(
    options: Mapping[str, str], trigger: TriggerMode, plan: Node, into_kafka: bool, says: str | None
) -> None:
    if says is None:
        check_async_progress(options, trigger, plan, into_kafka=into_kafka)
        return
    with pytest.raises(StatementError) as refused:
        check_async_progress(options, trigger, plan, into_kafka=into_kafka)
    assert says in refused.value.error.message
