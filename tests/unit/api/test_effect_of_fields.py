"""Every field of a spec does something, and the table says where.

A new field fails here until somebody has looked for the place that reads it, and a place that does not read it any more as well.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparksql
from sparksql.api.base import ApiModel
from sparksql.api.savepoint import SqlSavepointSpec
from sparksql.api.session import SqlSessionSpec
from sparksql.api.session_class import SqlSessionClassSpec
from sparksql.api.statement import SqlStatementSpec

OPERATOR = Path(sparksql.__file__).parent
ROOTS = (SqlSessionClassSpec, SqlSessionSpec, SqlStatementSpec, SqlSavepointSpec)
NOWHERE = {
    "SqlSessionClassSpec.description",  # for people
    "Retry.on_unquoted",  # what YAML makes of an unquoted `on`: read as that
}
READ: dict[str, str] = {
    "cache": "SqlStatementSpec.priority SqlStatementSpec.session_ref",
    "controllers": (
        "ConfigMapKeySelector.key ConfigMapKeySelector.name InitStatement.sql "
        "InitStatement.sql_from Limits.sessions Limits.sessions_per_namespace ParameterSource.config_map_key_ref "
        "ParameterSource.secret_key_ref Savepoints.retention SecretKeySelector.key SecretKeySelector.name "
        "ServiceAccount.create SessionSettings.max_concurrent_statements SessionSettings.max_queued_statements "
        "SessionTemplate.class_name SessionTemplate.init SqlSource.config_map_key_ref SqlStatementSpec.depends_on "
        "SqlStatementSpec.parameters SqlStatementSpec.session "
        "SqlStatementSpec.sql_from StartFrom.savepoint_ref StatementParameter.name StatementParameter.type "
        "StatementParameter.value StatementParameter.value_from"
    ),
    "front": "Front.max_sessions_per_user Front.share",
    "domain/savepoint": (
        "LocalReference.name Retention.keep_daily Retention.keep_hourly Retention.keep_last Retention.keep_weekly "
        "Retention.keep_within_seconds "
        "SqlSavepointSpec.backoff_limit SqlSavepointSpec.location SqlSavepointSpec.operator SqlSavepointSpec.pinned "
        "SqlSavepointSpec.reclaim_policy SqlSavepointSpec.source SqlSavepointSpec.sql SqlSavepointSpec.statement_ref "
        "SqlSavepointSpec.timeout_seconds Storage.savepoint_root"
    ),
    "domain/session": (
        "Allow.conf Allow.images Allow.namespaces Allow.service_accounts DriverLimits.cpu DriverLimits.memory "
        "DriverResources.cpu DriverResources.cpu_limit DriverResources.memory Endpoints.connect Endpoints.rest Endpoints.thrift "
        "ExecutorLimits.cpu ExecutorLimits.instances ExecutorLimits.memory ExecutorResources.cpu ExecutorResources.cpu_limit "
        "ExecutorResources.instances ExecutorResources.max ExecutorResources.memory ExecutorResources.min Front.only Frontend.name Frontend.port Idle.action Idle.restore_state "
        "Idle.timeout_seconds LabelRequirement.key LabelRequirement.operator LabelRequirement.values "
        "LabelSelector.match_expressions LabelSelector.match_labels Limits.driver Limits.execution_seconds "
        "Limits.executors Limits.queued_statements_per_session NetworkPolicy.clients NetworkPolicy.enabled "
        "PodTemplates.driver PodTemplates.executor Scheduling.queue_label ServiceAccount.name SessionSettings.conf SessionSettings.database "
        "SessionSettings.driver SessionSettings.endpoints SessionSettings.executors SessionSettings.idle "
        "SessionSettings.max_lifetime_seconds SessionSettings.statement_timeouts SessionTemplate.image "
        "SessionTemplate.service_account_name SqlSessionClassSpec.allow SqlSessionClassSpec.defaults "
        "SqlSessionClassSpec.enforced_conf SqlSessionClassSpec.front SqlSessionClassSpec.frontends SqlSessionClassSpec.image SqlSessionClassSpec.image_pull_policy "
        "SqlSessionClassSpec.limits SqlSessionClassSpec.network_policy SqlSessionClassSpec.pod_template "
        "SqlSessionClassSpec.scheduling SqlSessionClassSpec.service_account SqlSessionClassSpec.storage "
        "SqlSessionSpec.desired_state SqlSessionSpec.restart_nonce Storage.result_root Storage.volume_claim "
        "Storage.warehouse"
    ),
    "domain/session_class.py": "SqlSessionClassSpec.warm_pool WarmPool.namespaces",
    "domain/warm_pool.py": "WarmPool.max_age_seconds WarmPool.size",
    "domain/statement": (
        "Limits.preview_rows ResultSpec.max_rows ResultSpec.preview_rows ResultSpec.retention_seconds "
        "Retry.backoff_seconds Retry.limit Retry.on Savepoints.on_delete Savepoints.schedule SqlStatementSpec.conf "
        "SqlStatementSpec.desired_state SqlStatementSpec.mode SqlStatementSpec.result SqlStatementSpec.retry "
        "SqlStatementSpec.run_nonce SqlStatementSpec.sql SqlStatementSpec.streaming SqlStatementSpec.timeouts "
        "SqlStatementSpec.ttl_seconds_after_finished SqlStatementSpec.validate_against "
        "SavepointSchedule.catch_up SavepointSchedule.cron SavepointSchedule.interval_seconds "
        "SavepointSchedule.jitter_seconds SavepointSchedule.paused SavepointSchedule.timezone "
        "StatementTimeouts.execution_seconds StatementTimeouts.queue_seconds Storage.checkpoint_root "
        "StreamRestart.backoff_seconds StreamRestart.limit StreamRestart.reset_after_seconds "
        "Streaming.lookups Streaming.on_incompatible Streaming.output_mode Streaming.restart Streaming.restore_nonce "
        "Streaming.savepoints Streaming.start_from Streaming.trigger Streaming.upgrade_mode Streaming.upsert "
        "Trigger.interval_millis Trigger.max_files_per_trigger Trigger.max_rows_per_trigger Trigger.mode "
        "ValidateAgainst.statement_ref"
    ),
    "kube/builders": "Allow.jar_prefixes Scheduling.priority_class_name Scheduling.scheduler_name VolumeClaim.mount_path VolumeClaim.name",
    "gateway/streaming": "Lookup.latency_millis Lookup.rows Lookup.table Lookup.ttl_seconds Upsert.delete_when Upsert.deleted_retention_seconds Upsert.keys Upsert.order_by",
}


def models(kind: object) -> Iterator[type[ApiModel]]:
    """The models in an annotation."""
    if isinstance(kind, type) and issubclass(kind, ApiModel):
        yield kind
    for argument in typing.get_args(kind):
        yield from models(argument)


def reachable() -> list[type[ApiModel]]:
    found: list[type[ApiModel]] = []
    pending: list[type[ApiModel]] = [*ROOTS]
    while pending:
        model = pending.pop()
        if model not in found:
            found.append(model)
            pending.extend(m for field in model.model_fields.values() for m in models(field.annotation))
    return found


def fields() -> set[str]:
    """Each field by the model that defines it."""
    return {
        f"{kind.__name__}.{name}"
        for model in reachable()
        for kind in model.__mro__
        for name in vars(kind).get("__annotations__", {})
        if name in model.model_fields
    }


def camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.title() for word in tail)


def test_the_table_has_every_field_once() -> None:
    named = [field for listed in READ.values() for field in listed.split()]
    assert len(named) == len(set(named))
    assert set(named) | NOWHERE == fields(), "look for the place that reads a new field, then name it here"


def texts(area: str) -> str:
    """All code of a package with those in it, or of one module."""
    path = OPERATOR / area
    return "\n".join(file.read_text() for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path]))


@pytest.mark.parametrize(
    ("area", "field"), [(area, field) for area, listed in READ.items() for field in listed.split()]
)
def test_every_field_is_read_where_the_table_says(area: str, field: str) -> None:
    name = field.split(".")[1]
    # An attribute that is read, one that is taken out of a dump, or the field of a raw object.
    used = re.compile(rf"\.{name}\b|[\"']{name}[\"']|[\"']{camel(name)}[\"']")
    assert used.search(texts(area)), f"{area} does not read {field}"


def test_models_that_fields_refer_to_are_reached() -> None:
    assert {"Idle", "WarmPool", "Trigger", "Retention", "SqlSource"} <= {m.__name__ for m in reachable()}
