"""A decision by a list of codes, or by a text that was made for people, has a reason why it is right for what is not listed.

One without a reason decides by types, owners, causes or structure instead.
"""

from __future__ import annotations

import ast

import pytest

from tests.support.decisions import Kind, decisions
from tests.unit.test_source_tree import modules

_SHOWN = "nothing is decided: a text for people is put together"
_HINT = "a hint for people, which is left out for what is not listed"
_OWN_STATUS = "statuses of our own service, which docs and its tests list; each other one is an error"
_RFC = "RFC 9110: the classes of statuses are complete, and each other one is in its class"
_NO_HTTP = "no HTTP: it is a state, a byte or an exit code"
_OWN_REASONS = "members of the operator's own enum of reasons"
_OWN_CONDITIONS = "the gateway's own conditions"
_SHAPE = "the shape of the word, whichever it is: a text of another shape is not shown"
_EXACT = (
    "whole names of Spark's atomic types, which are its keywords; each other type has the branch of what is not known"
)
_DECIMAL = "of all texts of types only decimal's begins so: nested ones begin with array, map and struct"

REASONS: dict[Kind, dict[str, str]] = {
    Kind.MESSAGE: {
        "cli.kubectl._answer": "kubectl gives no other; the pattern is its own beginning, and what follows decides nothing",
        "controllers.start_failures.violation_of": _HINT,
        "gateway.frontends.connect.errors.__init__": _SHOWN,
        "gateway.frontends.connect.plans._inspect": "no text: the messages are protobuf's, told apart by type",
        "gateway.frontends.rest.errors._message": _SHOWN,
        "gateway.frontends.thrift.errors.error_text": _SHOWN,
        "gateway.sql.errors._is_result_too_large": "Spark ends a job so without condition and cause: the whole beginning is Spark's own",
        "gateway.sql.errors._parser_span": "no message: the word at a place in the statement's text",
        "gateway.sql.errors._without_place": _SHOWN,
        "gateway.streaming.state.description_file.is_refusal": "an assertion of Spark's has no condition; conditions of others rule it out",
        "gateway.streaming.unsupported._refusal": _HINT,
        "gateway.streaming.unsupported._spans": "no message: the text of a plan's origin",
        "lint.settings._placed": "the operator's own message begins with its field; without one the finding is at the section",
        "lint.sql.spark._finding": "the gateway's own message begins with the parameter's field; it decides the place alone",
        "kube.errors.quota_exceeded": "the quota plugin of the API server names itself in its message only",
    },
    Kind.CLASS_NAME: {
        "gateway.spark.table_formats.is_delta": "a library's own package, which no other library has",
        "gateway.spark.table_formats.is_iceberg": "a library's own package, which no other library has",
        "gateway.streaming.lookups.versions._joined_version": "whole names of Spark's two case classes; what follows is a parenthesis",
    },
    Kind.TYPE_TEXT: {
        "gateway.changelog.aggregates._average": _EXACT,
        "gateway.changelog.aggregates._checked": _EXACT,
        "gateway.changelog.aggregates._number": _DECIMAL,
        "gateway.changelog.aggregates._summed_type": _EXACT,
        "gateway.changelog.relations._told_by": _DECIMAL,
        "gateway.results.collector._text_expression": "the name of one atomic type, of a part that was reached by a walk of the type",
        "gateway.streaming.kafka.records.record_type": "the name of a type without its parameters",
        "gateway.streaming.kafka.tables._check_declared": "types of columns of a record, each with all that it may be; others are refused",
        "gateway.streaming.mini_batch_hint._whole_number": "Spark's whole numbers, of which it has four; others are refused",
        "gateway.streaming.state_tables.call._text": _EXACT,
        "gateway.windowing.assign._time_column": "Spark's two types of points in time; others are refused",
        "gateway.windowing.assign._zone": _EXACT,
        "gateway.windowing.dynamic_totals._as_text": _EXACT,
        "gateway.windowing.dynamic_totals.carried": _EXACT,
        "gateway.windowing.dynamic_totals.restored": _EXACT,
        "gateway.windowing.dynamic_totals.total": _EXACT,
        "gateway.windowing.enumerable._values": _EXACT,
        "gateway.windowing.merging.merge_of": _EXACT,
        "gateway.windowing.time_windows._is_time": "the name of a type without its parameters",
        "gateway.windowing.top_n._reversed": _DECIMAL,
    },
    Kind.SQL_STATE: {
        "domain.public_text.error_summary": _SHAPE,
        "front.thrift_messages.is_not_ready": "a SQLSTATE that the gateway itself gives for this alone",
        "wire.failure.sql_states.verdict_of_class": "test_classes.py holds that each class of Spark has a rule; others are unknown",
        "wire.failure.sql_states.verdict_of_state": "exceptions from the rule of its class, which holds for what is not listed",
    },
    Kind.CONDITION: {
        "domain.public_text.error_summary": _SHAPE,
        "gateway.frontends.connect.errors.__init__": "our own errors, whose conditions are all in the table",
        "gateway.frontends.connect.proxy._stream": "all conditions that Connect's server has about how answers are read",
        "gateway.sql.errors._unknown_routine": "Spark's two conditions of an unknown routine; of others the name is not known",
        "gateway.streaming.refusals.completed": _OWN_CONDITIONS,
        "gateway.streaming.state.description_file.is_refusal": "its test compares them with Spark's; of others Spark's own error stays",
        "gateway.streaming.unsupported._refusal": "Spark's mark of errors that it has not named; another name stays as it is",
        "wire.failure.sql_states.verdict_of_condition": "exceptions from the rule of its SQLSTATE, which holds for what is not listed",
    },
    Kind.HTTP: {
        "local.pods.pod_run._answers": "as the kubelet's probes: from 200 to 399 is success, anything else is none",
        "cli.gateway._refusal": _OWN_STATUS,
        "cli.gateway.ask": _OWN_STATUS,
        "cli.gateway.result_pages": _OWN_STATUS,
        "controllers.session.pods._container_end": f"{_NO_HTTP}; the remedy is {_HINT}",
        "drivers.binding.bind": _OWN_STATUS,
        "drivers.client._check": _OWN_STATUS,
        "drivers.client.get": _OWN_STATUS,
        "drivers.client.saved": _OWN_STATUS,
        "front.driver_http.asked": _OWN_STATUS,
        "front.driver_http.opened": _OWN_STATUS,
        "front.promises.carry": _OWN_STATUS,
        "front.rest._error": "RFC 9110: 401 has WWW-Authenticate, 429 and 503 may have Retry-After, and no other has one",
        "front.rest._in_session": _OWN_STATUS,
        "front.rest._open": _OWN_STATUS,
        "front.sessions._refused": _RFC,
        "front.thrift_http.dial": _OWN_STATUS,
        "gateway.frontends.rest.handlers.operation_status": _NO_HTTP,
        "gateway.frontends.rest.routes._error_response": "RFC 9110: 401 has WWW-Authenticate, 429 and 503 may have Retry-After",
        "gateway.frontends.thrift.errors.state_of": _NO_HTTP,
        "gateway.results.columns.module": _NO_HTTP,
        "gateway.results.columns.text_cells": _NO_HTTP,
        "kube.client._request": _RFC,
        "kube.client.list_as": "410 is the API server's word for a listing that was compacted; each other status is raised",
        "kube.errors._error_type": _RFC,
        "protocols.hiveserver2.sasl.read_plain": _NO_HTTP,
        "wire.failure.throwables.verdict_of_status": f"{_RFC}; object_store_answers.csv lists those of S3",
    },
    Kind.REASON: {
        "cache.pod_ends.observe": "a disruption that is not listed is none: the session then restarts by its own limit",
        "controllers.session.gather._start_blocker": _OWN_REASONS,
        "controllers.session.pods._container_problem": "the kubelet's two words for a start that goes on; each other one is a problem",
        "controllers.session.pods.pod_snapshot": "of a problem only whether it is the image's: the deadline, not what is done, depends on it",
        "domain.session.executors.executor_events": _OWN_REASONS,
        "domain.session.starting._blocked": _OWN_REASONS,
        "domain.statement.stream.changes.next_question": _OWN_REASONS,
        "domain.statement.stream.compatibility._is_answer": _OWN_REASONS,
        "domain.statement.stream.run._never_ran": _OWN_REASONS,
        "domain.statement.stream.run.park_lost_rows": _OWN_REASONS,
    },
}


def test_decision_by_a_list_or_a_text_has_a_reason() -> None:
    found: dict[Kind, set[str]] = {kind: set() for kind in Kind}
    for name, tree in modules():
        for function, kind in decisions(tree):
            found[kind].add(f"{name.removeprefix('sparksql.')}.{function}")
    listed = {kind: set(REASONS[kind]) for kind in Kind}
    assert found == listed, "decide by type, owner, cause or structure, or write here why the list is complete"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("def f(error): return 'timeout' in str(error)", Kind.MESSAGE),
        ("def f(error):\n    text = str(error)\n    return text.startswith('a')", Kind.MESSAGE),
        ("def f(thrown): return 'a' in thrown.getMessage()", Kind.MESSAGE),
        ("def f(view): return re.search('a', view.error.message)", Kind.MESSAGE),
        ("def f(view): return _PATTERN.match(view.message)", Kind.MESSAGE),
        ("def f():\n    try: g()\n    except ValueError as late: return 'a' in str(late).lower()", Kind.MESSAGE),
        ("def f(node): return simple_name(node).startswith('Stream')", Kind.CLASS_NAME),
        ("def f(table): return 'iceberg' in str(table.getClass().getName())", Kind.CLASS_NAME),
        ("def f(type_): return 'variant' in str(type_.catalogString())", Kind.TYPE_TEXT),
        ("def f(type_name): return type_name in _TIMES", Kind.TYPE_TEXT),
        ("def f(error): return error.sql_state[:2] in _RETRIED", Kind.SQL_STATE),
        ("def f(error): return error.sql_state.startswith('42')", Kind.SQL_STATE),
        ("def f(error): return _CLASSES.get((error.sql_state or '')[:2])", Kind.SQL_STATE),
        ("def f(error): return error.condition in {'A', 'B'}", Kind.CONDITION),
        ("def f(error): return (error.condition or '').startswith('INVALID_')", Kind.CONDITION),
        ("def f(answer): return answer.status in (429, 503)", Kind.HTTP),
        ("def f(answer):\n    match answer.status:\n        case 429: return 1", Kind.HTTP),
        ("def f(answer): return answer.status == 404", Kind.HTTP),
        ("def f(waiting): return waiting.reason in _IMAGE", Kind.REASON),
    ],
)
def test_decision_of_each_kind_is_found(text: str, kind: Kind) -> None:
    assert ("f", kind) in set(decisions(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "def f(node): return simple_name(node) == 'Project'",
        "def f(node): return simple_name(node) in _NODES",
        "def f(error): return error.reason is ErrorReason.SQL_ERROR",
        "def f(text): return text.startswith('--')",
        "def f(error): return f'failed: {error}'",
    ],
)
def test_decision_by_structure_is_not_found(text: str) -> None:
    assert list(decisions(ast.parse(text))) == []
