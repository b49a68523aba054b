"""A status of each kind with every field set, for `test_crds`. Texts that are too long are there to be cut."""

from __future__ import annotations

from datetime import UTC, datetime

from sparksql.api.base import ApiModel, ApiObject
from sparksql.api.conditions import Condition, ConditionStatus
from sparksql.api.savepoint import SavepointPhase, SavepointTrigger, SqlSavepoint, SqlSavepointStatus
from sparksql.api.session import (
    DriverStatus,
    EndpointStatus,
    SessionPhase,
    SqlSession,
    SqlSessionStatus,
    StatementCounts,
)
from sparksql.api.session_class import SqlSessionClass, SqlSessionClassStatus
from sparksql.api.statement import (
    ResultColumn,
    SqlStatement,
    SqlStatementStatus,
    StatementError,
    StatementPhase,
    StatementProgress,
    StatementResult,
    StatementSession,
)
from sparksql.api.streaming import LastSavepoint, StreamingStatus

_NOW = datetime(2026, 1, 31, 8, 0, 0, 123_456, tzinfo=UTC)
_CONDITIONS = (
    Condition(
        type="Ready",
        status=ConditionStatus.TRUE,
        reason="Finished",
        message="m" * 5000,
        observed_generation=1,
        last_transition_time=_NOW,
    ),
)
FULL_STATUS: dict[type[ApiObject], ApiModel] = {
    SqlSessionClass: SqlSessionClassStatus(observed_generation=1, conditions=_CONDITIONS),
    SqlSession: SqlSessionStatus(
        observed_generation=1,
        phase=SessionPhase.READY,
        phase_since=_NOW,
        message="m",
        driver=DriverStatus(
            pod_name="analytics-1",
            pod_uid="u",
            boot_id="b",
            incarnation=3,
            start_time=_NOW,
            spark_application_id="spark-1",
            spark_version="4.1.4",
        ),
        class_name="standard",
        front="spark-sql-front.spark-sql-system.svc",
        endpoints=EndpointStatus(rest="https://a", connect="sc://a", thrift="jdbc:hive2://a"),
        statements=StatementCounts(running=1, queued=2),
        last_activity_time=_NOW,
        restarts=1,
        next_start_time=_NOW,
        config_hash="0123456789abcdef",
        observed_restart_nonce="n",
        conditions=_CONDITIONS,
    ),
    SqlStatement: SqlStatementStatus(
        observed_generation=1,
        phase=StatementPhase.FINISHED,
        run=1,
        attempt=2,
        observed_run_nonce="n",
        operation_id="6f0c0000-0000-5000-8000-000000000000",
        session_name="analytics",
        session=StatementSession(name="analytics", pod_name="p", pod_uid="u", boot_id="b"),
        statement_type="INSERT",
        read_only=False,
        sql_hash="0" * 64,
        met_dependencies=("create-orders",),
        failed_attempts=1,
        lost_drivers=("analytics-1",),
        next_attempt_time=_NOW,
        submitted_time=_NOW,
        start_time=_NOW,
        completion_time=_NOW,
        duration_millis=1500,
        progress=StatementProgress(tasks_done=10, tasks_total=12, stages_done=1, stages_total=2),
        result=StatementResult(
            columns=(ResultColumn(name="a", type="int"), ResultColumn(name="b", type="struct<" + "x" * 5000)),
            row_count=1,
            truncated=True,
            preview=(("1", None), (None, "x" * 9000)),
            bytes=12,
            expiration_time=_NOW,
        ),
        error=StatementError(
            condition="TABLE_OR_VIEW_NOT_FOUND",
            sql_state="42P01",
            message="m" * 10_000,
            line=1,
            position=14,
            fragment="f" * 2000,
        ),
        streaming=StreamingStatus(
            query_id="q",
            run_id="r",
            batch_id=42,
            committed_batch_id=41,
            input_rows_per_second="120.5",
            processed_rows_per_second="130",
            watermark="2026-01-31T08:00:00Z",
            last_progress_time=_NOW,
            checkpoint_location="s3a://b/c",
            restored_from="s3a://b/d",
            rewritten_from="s3a://b/e",
            restarts=1,
            last_savepoint=LastSavepoint(name="before-release", time=_NOW),
            observed_restore_nonce="n",
            next_restart_time=_NOW,
            next_savepoint_time=_NOW,
            message="m",
        ),
        conditions=_CONDITIONS,
    ),
    SqlSavepoint: SqlSavepointStatus(
        observed_generation=1,
        phase=SavepointPhase.COMPLETED,
        trigger=SavepointTrigger.MANUAL,
        location="s3a://b/c",
        batch_id=41,
        query_id="q",
        sql_hash="0" * 64,
        spark_version="4.1.4",
        size_bytes=123,
        file_count=9,
        start_time=_NOW,
        completion_time=_NOW,
        used_by=("orders-stream",),
        failures=1,
        next_attempt_time=_NOW,
        message="m",
        conditions=_CONDITIONS,
    ),
}
