"""What goes over the wire, byte for byte: the other side may be of another version, and reads these names and spellings."""

from __future__ import annotations

from datetime import UTC, datetime

from sparksql.api.execution import Lookup, OutputMode, StatementMode, TriggerMode, Upsert
from sparksql.wire.control import (
    Column,
    ErrorReason,
    OperationError,
    OperationState,
    OperationView,
    Parameter,
    Progress,
    RestoreOptions,
    ResultOptions,
    ResultSummary,
    StreamOptions,
    StreamProgress,
    SubmitRequest,
)
from sparksql.wire.savepoints import SavepointPlace

WHEN = datetime(2026, 1, 31, 8, tzinfo=UTC)


def test_a_request_with_every_field_is_spelled_as_it_always_was() -> None:
    request = SubmitRequest(
        boot_id="b",
        namespace="ns",
        name="orders",
        sql="SELECT :day",
        mode=StatementMode.VALIDATE,
        parameters=(Parameter(name="day", value="1", type="INT", secret=True),),
        conf={"spark.sql.ansi.enabled": "true"},
        priority=7,
        execution_seconds=60,
        result=ResultOptions(max_rows=5, preview_rows=2, retention_seconds=9),
        streaming=StreamOptions(
            checkpoint="s3a://b/c",
            trigger=TriggerMode.AVAILABLE_NOW,
            interval_millis=500,
            max_rows_per_trigger=10,
            max_files_per_trigger=11,
            output_mode=OutputMode.UPDATE,
            upsert=Upsert(keys=("id", "at"), order_by="ts", delete_when="op = 'd'"),
            lookups=(Lookup(table="c", latency_millis=5, rows=6, ttl_seconds=7),),
            restore=RestoreOptions(location="s3a://b/s", query_id="q"),
            unconfirmed=("x", "y"),
        ),
        validate_against=StreamOptions(checkpoint="s3a://b/other", upsert=Upsert(keys=("id",))),
        savepoints=(
            SavepointPlace(name="n", phase="Completed", location="s3a://b/s"),
            SavepointPlace(name="m", phase="new"),
        ),
    )
    assert request.to_json() == (
        '{"bootId":"b","namespace":"ns","name":"orders","sql":"SELECT :day","mode":"Validate",'
        '"parameters":[{"name":"day","value":"1","type":"INT","secret":true}],"conf":{"spark.sql.ansi.enabled":"true"},'
        '"priority":7,"executionSeconds":60.0,"result":{"maxRows":5,"previewRows":2,"retentionSeconds":9},'
        '"streaming":{"checkpoint":"s3a://b/c","trigger":"AvailableNow","intervalMillis":500,"maxRowsPerTrigger":10,'
        '"maxFilesPerTrigger":11,"outputMode":"Update","upsert":{"keys":["id","at"],"orderBy":"ts","deleteWhen":"op = \'d\'"},'
        '"lookups":[{"table":"c","latencyMillis":5,"rows":6,"ttlSeconds":7}],'
        '"restore":{"location":"s3a://b/s","queryId":"q","rewrite":false},"unconfirmed":["x","y"],"rewrites":false,"rebuilds":false},'
        '"validateAgainst":{"checkpoint":"s3a://b/other","trigger":"Auto","maxRowsPerTrigger":0,"maxFilesPerTrigger":0,'
        '"outputMode":"Append","upsert":{"keys":["id"]},"lookups":[],"unconfirmed":[],"rewrites":false,"rebuilds":false},'
        '"savepoints":[{"name":"n","phase":"Completed","location":"s3a://b/s"},{"name":"m","phase":"new"}]}'
    )
    assert SubmitRequest.model_validate_json(request.to_json()) == request


def test_a_view_with_every_part_is_spelled_as_it_always_was() -> None:
    view = OperationView(
        operation_id="o",
        boot_id="b",
        seq=3,
        state=OperationState.TIMED_OUT,
        statement_type="INSERT",
        read_only=True,
        streaming=True,
        submitted_time=WHEN,
        start_time=WHEN,
        completion_time=WHEN,
        progress=Progress(tasks_done=1, stream=StreamProgress(query_id="q", run_id="r", batch_id=4, lag=5)),
        result=ResultSummary(columns=(Column(name="n", type="int"),), row_count=1, preview=((None,),), bytes=8),
        error=OperationError(reason=ErrorReason.STATE_INCOMPATIBLE, condition="C", sql_state="42000", message="m"),
    )
    assert view.to_json() == (
        '{"operationId":"o","bootId":"b","seq":3,"state":"TimedOut","statementType":"INSERT","readOnly":true,'
        '"streaming":true,"submittedTime":"2026-01-31T08:00:00Z","startTime":"2026-01-31T08:00:00Z",'
        '"completionTime":"2026-01-31T08:00:00Z","progress":{"tasksDone":1,"tasksTotal":0,"stagesDone":0,"stagesTotal":0,'
        '"statementIndex":1,"statementCount":1,"stream":{"queryId":"q","runId":"r","batchId":4,"lag":5}},'
        '"result":{"columns":[{"name":"n","type":"int"}],"rowCount":1,"truncated":false,"preview":[[null]],"bytes":8},'
        '"error":{"reason":"StateIncompatible","condition":"C","sqlState":"42000","message":"m","rewritable":false}}'
    )
    assert OperationView.model_validate_json(view.to_json()) == view
