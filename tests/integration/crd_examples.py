"""Specs for `test_crds`: one case for each rule of the schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sparksql.api.base import ApiObject
from sparksql.api.savepoint import SqlSavepoint
from sparksql.api.session import SqlSession
from sparksql.api.session_class import SqlSessionClass
from sparksql.api.statement import SqlStatement


class Invalid(NamedTuple):
    kind: type[ApiObject]
    name: str
    spec: dict[str, Any]
    message: str


class Update(NamedTuple):
    kind: type[ApiObject]
    name: str
    before: dict[str, Any]
    after: dict[str, Any]
    message: str = ""


STATEMENT: dict[str, Any] = {"sql": "SELECT 1", "sessionRef": {"name": "analytics"}}
STREAM: dict[str, Any] = {**STATEMENT, "streaming": {}}
AGAINST: dict[str, Any] = {"validateAgainst": {"statementRef": {"name": "a"}}}
VALIDATION: dict[str, Any] = {**STATEMENT, "mode": "Validate", **AGAINST}
SAVEPOINT: dict[str, Any] = {"statementRef": {"name": "orders"}}
QUERY: dict[str, Any] = {**SAVEPOINT, "source": "Query", "sql": "SELECT 1"}
EXISTING: dict[str, Any] = {**SAVEPOINT, "source": "Existing", "location": "s3a://bucket/savepoint"}
KINDS: dict[type[ApiObject], dict[str, Any]] = {
    SqlSessionClass: {"image": "example/spark-sql-session:1"},
    SqlSession: {},
    SqlStatement: STATEMENT,
    SqlSavepoint: SAVEPOINT,
}
"""The smallest valid spec of each kind."""

VALID: tuple[tuple[type[ApiObject], dict[str, Any]], ...] = (
    *KINDS.items(),
    (SqlSessionClass, {"image": "i", "podTemplate": {"driver": {"spec": {"containers": [{"name": "driver"}]}}}}),
    (
        SqlSessionClass,
        {"image": "i", "allow": {"namespaces": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}},
    ),
    (SqlSession, {"desiredState": "Stopped", "idle": {"timeoutSeconds": 0}, "executors": {"cpu": "2"}}),
    (SqlSession, {"driver": {"cpu": "0.5", "memory": "1.5Gi"}, "executors": {"max": 3}}),
    (SqlSession, {"database": ""}),
    (SqlSession, {"database": "team_{namespace}_2"}),
    (SqlSession, {"conf": {f"spark.sql.key{number}": "x" * 100 for number in range(256)}}),
    (SqlStatement, {**STATEMENT, "sql": "é" * 262_144}),
    (SqlStatement, {**STATEMENT, "retry": {"limit": 3}}),
    (SqlStatement, {**STATEMENT, "retry": {"on": ["SqlError"]}}),
    (SqlStatement, {**STATEMENT, "parameters": [{"name": "a", "value": ""}]}),
    (SqlStatement, {"sql": "SELECT 1", "session": {}}),
    (SqlStatement, {"sql": "SELECT 1", "session": {"className": "standard", "driver": {"cpu": "1"}}}),
    (SqlStatement, STREAM),
    (SqlStatement, {**STREAM, "desiredState": "Stopped"}),
    (SqlStatement, {**STATEMENT, "streaming": {"trigger": {"mode": "Interval", "intervalMillis": 0}}}),
    (SqlStatement, VALIDATION),
    (SqlStatement, {**STATEMENT, "streaming": {"savepoints": {"schedule": {"intervalSeconds": 60}}}}),
    (SqlStatement, {**STATEMENT, "streaming": {"trigger": {"mode": "AvailableNow"}}}),
    (SqlStatement, {**STATEMENT, "streaming": {"startFrom": {"savepointRef": {"name": "a"}}, "restoreNonce": "1"}}),
    (
        SqlStatement,
        {
            **STATEMENT,
            "streaming": {"savepoints": {"schedule": {"cron": "0 3 * * *", "timezone": "Europe/Rome", "paused": True}}},
        },
    ),
    (SqlSessionClass, {"image": "i", "front": {"only": True}}),
    (SqlSessionClass, {"image": "i", "networkPolicy": {"enabled": False}}),
    (SqlSavepoint, EXISTING),
)


def _session(name: str, spec: dict[str, Any], message: str) -> Invalid:
    return Invalid(SqlSession, name, spec, message)


def _statement(name: str, change: dict[str, Any], message: str) -> Invalid:
    return Invalid(SqlStatement, name, {**STATEMENT, **change}, message)


def _parameter(name: str, parameter: dict[str, Any], message: str) -> Invalid:
    return _statement(name, {"parameters": [parameter]}, message)


def _savepoint(name: str, change: dict[str, Any], message: str) -> Invalid:
    return Invalid(SqlSavepoint, name, {**SAVEPOINT, **change}, message)


def _frontends(name: str, of: Sequence[tuple[str, int]], message: str) -> Invalid:
    frontends = [{"name": each, "port": port} for each, port in of]
    return Invalid(SqlSessionClass, name, {"image": "i", "frontends": frontends}, message)


WITHOUT_EFFECT = (
    Invalid(
        SqlSessionClass,
        "front-only-without-policy",
        {"image": "i", "front": {"only": True}, "networkPolicy": {"enabled": False}},
        "spec.front.only: Invalid value: front.only has no effect without networkPolicy.enabled",
    ),
    Invalid(
        SqlStatement,
        "restore-nonce-without-savepoint",
        {**STATEMENT, "streaming": {"restoreNonce": "1"}},
        "spec.streaming.restoreNonce: Invalid value: restoreNonce has no effect without startFrom: set startFrom",
    ),
    Invalid(
        SqlStatement,
        "zone-without-cron",
        {**STATEMENT, "streaming": {"savepoints": {"schedule": {"intervalSeconds": 60, "timezone": "Europe/Rome"}}}},
        "spec.streaming.savepoints.schedule.timezone: Invalid value: timezone has no effect without cron",
    ),
)
"""Fields that have no effect beside the others; objects that were stored before the rule may still be changed."""

INVALID = (
    *WITHOUT_EFFECT,
    Invalid(SqlSessionClass, "no-image", {}, "spec.image: Required value"),
    Invalid(
        SqlSessionClass,
        "defaults-mixed-executors",
        {"image": "i", "defaults": {"executors": {"instances": 1, "max": 2}}},
        "set either instances (a fixed number) or min and max (dynamic allocation), not both",
    ),
    Invalid(
        SqlSessionClass,
        "selector-without-values",
        {"image": "i", "allow": {"namespaces": {"matchExpressions": [{"key": "a", "operator": "In"}]}}},
        "In and NotIn need values; Exists and DoesNotExist take none",
    ),
    Invalid(
        SqlSessionClass,
        "selector-with-values",
        {
            "image": "i",
            "allow": {"namespaces": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}},
        },
        "In and NotIn need values; Exists and DoesNotExist take none",
    ),
    Invalid(
        SqlSessionClass,
        "relative-mount",
        {"image": "i", "storage": {"volumeClaim": {"name": "a", "mountPath": "data"}}},
        "spec.storage.volumeClaim.mountPath",
    ),
    _frontends("frontend-name", [("Lines", 7777)], "spec.frontends[0].name"),
    _frontends("frontend-long-name", [("a-name-that-is-long", 7777)], "spec.frontends[0].name"),
    _frontends("frontend-own-name", [("thrift", 7777)], "is that of one of the gateway's own"),
    _frontends("frontend-low-port", [("lines", 80)], "spec.frontends[0].port"),
    _frontends("frontend-own-port", [("lines", 15002)], "the port is one of the driver's own"),
    _frontends("frontends-of-one-name", [("lines", 7777), ("lines", 7778)], "needs a name and a port of its own"),
    _frontends("frontends-of-one-port", [("lines", 7777), ("words", 7777)], "needs a name and a port of its own"),
    _session("two-executor-numbers", {"executors": {"instances": 1, "min": 1, "max": 2}}, "set either instances"),
    _session("min-without-max", {"executors": {"min": 1}}, "min needs max"),
    _session("min-above-max", {"executors": {"min": 3, "max": 2}}, "min must not be greater than max"),
    _session(
        "init-twice",
        {"init": [{"sql": "USE a", "sqlFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}]},
        "set exactly one of sql and sqlFrom in each init entry",
    ),
    _session("database-with-dash", {"database": "team-a"}, "database must be of letters, digits and '_'"),
    _session("database-of-another", {"database": "{name}"}, "with {namespace} for the session's namespace"),
    _session("database-quoted", {"database": "a`; DROP DATABASE b; --"}, "database must be of letters"),
    _session("database-twice", {"database": "{namespace}{namespace}"}, "at most once"),
    _session("init-empty", {"init": [{}]}, "set exactly one of sql and sqlFrom in each init entry"),
    _session("cpu-suffix", {"driver": {"cpu": "1k"}}, 'write for instance 2, "500m" or "0.5", in quotes'),
    _session("cpu-decimal", {"driver": {"cpu": 2.0}}, 'write for instance 2, "500m" or "0.5", in quotes'),
    _session("cpu-zero", {"driver": {"cpu": 0}}, "cpu must be from 1m to 1024 cores"),
    _session("cpu-negative", {"driver": {"cpu": -1}}, "cpu must be from 1m to 1024 cores"),
    _session("cpu-too-much", {"executors": {"cpu": "1025"}}, "cpu must be from 1m to 1024 cores"),
    _session("memory-suffix", {"driver": {"memory": "1g"}}, 'write for instance "512Mi" or "2Gi", not 2g or 2GB'),
    _session("memory-bytes", {"driver": {"memory": 1024}}, "memory must be from 1Mi to 16Ti"),
    _session("memory-too-much", {"driver": {"memory": "17Ti"}}, "memory must be from 1Mi to 16Ti"),
    _session("conf-key-long", {"conf": {"k" * 254: "v"}}, "a configuration key must have 1 to 253 characters"),
    _session("conf-key-empty", {"conf": {"": "v"}}, "a configuration key must have 1 to 253 characters"),
    _session("conf-too-many", {"conf": {f"k{number}": "" for number in range(257)}}, "must have at most 256 items"),
    _session("idle-action", {"idle": {"action": "Sleep"}}, "Unsupported value"),
    _session("state", {"desiredState": "Canceled"}, "Unsupported value"),
    Invalid(SqlStatement, "no-text", {"sessionRef": {"name": "a"}}, "set exactly one of sql and sqlFrom"),
    _statement(
        "two-texts", {"sqlFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}, "set exactly one of sql and sqlFrom"
    ),
    _statement("text-too-long", {"sql": "x" * 262_145}, "262144"),
    _statement("text-empty", {"sql": ""}, "spec.sql"),
    Invalid(SqlStatement, "no-session", {"sql": "SELECT 1"}, "set exactly one of sessionRef"),
    _statement("two-sessions", {"session": {}}, "set exactly one of sessionRef"),
    _statement("stopped-batch", {"desiredState": "Stopped"}, "use Canceled to end a batch statement"),
    _statement("mode", {"mode": "execute"}, "Unsupported value"),
    _statement("against-execute", AGAINST, "validateAgainst needs mode: Validate"),
    _statement("against-nothing", {"mode": "Validate", "validateAgainst": {}}, "statementRef: Required value"),
    _statement("retry-reason", {"retry": {"on": ["CanceledByUser"]}}, "Unsupported value"),
    _statement("dependency-twice", {"dependsOn": [{"name": "a"}, {"name": "a"}]}, "Duplicate value"),
    _parameter(
        "parameter-twice",
        {"name": "a", "value": "b", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}},
        "set exactly one of value and valueFrom in each parameter",
    ),
    _parameter("parameter-empty", {"name": "a"}, "set exactly one of value and valueFrom in each parameter"),
    _parameter(
        "parameter-source-empty", {"name": "a", "valueFrom": {}}, "set exactly one of secretKeyRef and configMapKeyRef"
    ),
    _parameter("parameter-name", {"name": "a-b", "value": "c"}, "spec.parameters[0].name"),
    _parameter("parameter-colon", {"name": ":d", "value": "c"}, "write the parameter's name without the colon"),
    _statement("session-of-a-namespace", {"sessionRef": {"name": "demo/a"}}, "without a namespace before it"),
    _statement("dependency-in-capitals", {"dependsOn": [{"name": "A"}]}, "spec.dependsOn[0].name"),
    _session("class-in-capitals", {"className": "Standard"}, "write the name alone, of lower-case letters"),
    _statement(
        "parameters-same-name",
        {"parameters": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]},
        "Duplicate value",
    ),
    _statement(
        "interval-absent",
        {"streaming": {"trigger": {"mode": "Interval"}}},
        "trigger mode Interval needs intervalMillis",
    ),
    _statement(
        "schedule-empty", {"streaming": {"savepoints": {"schedule": {}}}}, "set exactly one of intervalSeconds and cron"
    ),
    _statement(
        "schedule-twice",
        {"streaming": {"savepoints": {"schedule": {"intervalSeconds": 1, "cron": "0 * * * *"}}}},
        "set exactly one of intervalSeconds and cron",
    ),
    _statement(
        "upsert-with-a-key-without-name", {"streaming": {"upsert": {"keys": [""]}}}, "spec.streaming.upsert.keys[0]"
    ),
    _statement(
        "deleted-keys-without-order",
        {"streaming": {"upsert": {"keys": ["id"], "deleteWhen": "gone", "deletedRetentionSeconds": 60}}},
        "deletedRetentionSeconds needs deleteWhen and orderBy",
    ),
    _statement(
        "deleted-keys-kept-for-no-time",
        {"streaming": {"upsert": {"keys": ["id"], "orderBy": "v", "deleteWhen": "gone", "deletedRetentionSeconds": 0}}},
        "spec.streaming.upsert.deletedRetentionSeconds",
    ),
    _statement(
        "dedicated-mixed-executors",
        {"sessionRef": None, "session": {"executors": {"instances": 1, "max": 2}}},
        "set either instances",
    ),
    _savepoint("location-of-copy", {"location": "s3a://b/c"}, "set location with source Existing, and only then"),
    _savepoint("existing-without-location", {"source": "Existing"}, "set location with source Existing, and only then"),
    _savepoint("query-without-sql", {"source": "Query"}, "set sql with source Query, and only then"),
    _savepoint("sql-of-copy", {"sql": "SELECT 1"}, "set sql with source Query, and only then"),
    _savepoint("operator-of-copy", {"operator": "aggregate"}, "set operator with source Query only"),
    _savepoint("query-with-location", {**QUERY, "location": "s3a://b/c"}, "set location with source Existing"),
    _savepoint("existing-with-null", {"source": "Existing", "location": None}, "set location with source Existing"),
)

_FROM_STATEMENT = {"sessionRef": {"name": "analytics"}, "sqlFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}
_DEDICATED = {"sql": "SELECT 1", "session": {"className": "a"}}


def _changed(name: str, message: str, after: dict[str, Any], before: dict[str, Any] = STATEMENT) -> Update:
    return Update(SqlStatement, name, before, after, message)


REFUSED_UPDATES = (
    _changed("sql", "sql is immutable unless spec.streaming is set", {**STATEMENT, "sql": "SELECT 2"}),
    _changed("sql-to-source", "sqlFrom is immutable", _FROM_STATEMENT),
    _changed("source-to-sql", "sql is immutable", STATEMENT, _FROM_STATEMENT),
    _changed(
        "source",
        "sqlFrom is immutable",
        {**_FROM_STATEMENT, "sqlFrom": {"configMapKeyRef": {"name": "a", "key": "c"}}},
        _FROM_STATEMENT,
    ),
    _changed("streaming-sql-to-source", "sqlFrom is immutable", {**_FROM_STATEMENT, "streaming": {}}, STREAM),
    _changed("mode", "mode is immutable", {**STATEMENT, "mode": "Explain"}),
    _changed("against-none", "validateAgainst is immutable", VALIDATION, {**STATEMENT, "mode": "Validate"}),
    _changed(
        "against",
        "validateAgainst is immutable",
        {**VALIDATION, "validateAgainst": {"statementRef": {"name": "b"}}},
        VALIDATION,
    ),
    _changed("session-ref", "the choice of session is immutable", {**STATEMENT, "sessionRef": {"name": "other"}}),
    _changed("session-ref-to-dedicated", "the choice of session is immutable", _DEDICATED),
    _changed("dedicated-to-session-ref", "session is immutable", STATEMENT, _DEDICATED),
    _changed("dedicated", "session is immutable", {**_DEDICATED, "session": {"className": "b"}}, _DEDICATED),
    _changed(
        "parameters-added", "parameters are immutable", {**STATEMENT, "parameters": [{"name": "a", "value": "1"}]}
    ),
    _changed(
        "parameters-removed",
        "parameters are immutable",
        STATEMENT,
        {**STATEMENT, "parameters": [{"name": "a", "value": "1"}]},
    ),
    _changed(
        "parameters-changed",
        "parameters are immutable",
        {**STATEMENT, "parameters": [{"name": "a", "value": "2"}]},
        {**STATEMENT, "parameters": [{"name": "a", "value": "1"}]},
    ),
    _changed(
        "parameter-type-changed",
        "parameters are immutable",
        {**STATEMENT, "parameters": [{"name": "a", "value": "1", "type": "INT"}]},
        {**STATEMENT, "parameters": [{"name": "a", "value": "1"}]},
    ),
    _changed(
        "parameter-renamed",
        "parameters are immutable",
        {**STATEMENT, "parameters": [{"name": "b", "value": "1"}]},
        {**STATEMENT, "parameters": [{"name": "a", "value": "1"}]},
    ),
    _changed(
        "parameter-source-changed",
        "parameters are immutable",
        {**STATEMENT, "parameters": [{"name": "a", "valueFrom": {"secretKeyRef": {"name": "s", "key": "b"}}}]},
        {**STATEMENT, "parameters": [{"name": "a", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a"}}}]},
    ),
    _changed("depends-on-added", "dependsOn is immutable", {**STATEMENT, "dependsOn": [{"name": "a"}]}),
    _changed("depends-on-removed", "dependsOn is immutable", STATEMENT, {**STATEMENT, "dependsOn": [{"name": "a"}]}),
    _changed(
        "depends-on-changed",
        "dependsOn is immutable",
        {**STATEMENT, "dependsOn": [{"name": "b"}]},
        {**STATEMENT, "dependsOn": [{"name": "a"}]},
    ),
    _changed("streaming-added", "the presence of streaming is immutable", STREAM),
    _changed("streaming-removed", "the presence of streaming is immutable", STATEMENT, STREAM),
    _changed("streaming-added-with-sql", "the presence of streaming is immutable", {**STREAM, "sql": "SELECT 2"}),
    Update(SqlSavepoint, "statement", SAVEPOINT, {"statementRef": {"name": "other"}}, "statementRef is immutable"),
    Update(SqlSavepoint, "source", SAVEPOINT, EXISTING, "source is immutable"),
    Update(SqlSavepoint, "sql", QUERY, {**QUERY, "sql": "SELECT 2"}, "sql is immutable"),
    Update(
        SqlSavepoint,
        "operator",
        QUERY,
        {**QUERY, "operator": "a"},
        "operator is immutable",
    ),
    Update(SqlSavepoint, "location", EXISTING, {**EXISTING, "location": "s3a://b/d"}, "location is immutable"),
)

VALID_UPDATES = (
    Update(SqlStatement, "streaming-sql", STREAM, {**STREAM, "sql": "SELECT 2"}),
    Update(SqlStatement, "streaming-options", STREAM, {**STATEMENT, "streaming": {"upgradeMode": "Stateless"}}),
    Update(SqlStatement, "stop-stream", STREAM, {**STREAM, "desiredState": "Stopped"}),
    Update(SqlStatement, "cancel", STATEMENT, {**STATEMENT, "desiredState": "Canceled"}),
    Update(SqlStatement, "run-again", STATEMENT, {**STATEMENT, "runNonce": "2"}),
    Update(
        SqlStatement,
        "parameter-type-as-the-default",
        {**STATEMENT, "parameters": [{"name": "a", "value": "1", "type": "STRING"}, {"name": "b", "value": "2"}]},
        {**STATEMENT, "parameters": [{"name": "b", "value": "2"}, {"name": "a", "value": "1"}]},
    ),
    Update(SqlStatement, "empty-lists", STATEMENT, {**STATEMENT, "parameters": [], "dependsOn": []}),
    Update(
        SqlStatement,
        "dependencies-in-other-order",
        {**STATEMENT, "dependsOn": [{"name": "a"}, {"name": "b"}]},
        {**STATEMENT, "dependsOn": [{"name": "b"}, {"name": "a"}]},
    ),
    Update(SqlStatement, "the-rest", STATEMENT, {**STATEMENT, "priority": 5, "retry": {"limit": 1}, "timeouts": {}}),
    Update(SqlSession, "class", {"className": "a"}, {"className": "b", "restartNonce": "1"}),
    Update(SqlSavepoint, "pin", SAVEPOINT, {**SAVEPOINT, "pinned": True, "reclaimPolicy": "Delete", "location": None}),
)
