"""The generated files follow the models, and the schemas keep the rules that all kinds share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparksql.api.base import ApiObject
from sparksql.api.crd import KINDS, custom_resource_definition, generated_files, main
from sparksql.api.schema import structural
from sparksql.api.session import SqlSession
from sparksql.api.statement import SqlStatement

LAYERED = ("driver", "executors", "conf", "database", "idle", "statementTimeouts", "maxLifetimeSeconds", "maxConcurrentStatements",
           "maxQueuedStatements", "endpoints", "className", "image", "init", "serviceAccountName")  # fmt: skip
INHERENTLY_BOUNDED = {"date-time"}


def root_schema(kind: type[ApiObject]) -> dict[str, Any]:
    schema: dict[str, Any] = custom_resource_definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema node below spec and status, with its path; `[]` stands for an element."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield from nodes(schema[keyword], f"{path}[]")


def own_nodes(kind: type[ApiObject]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in ("spec", "status"):
        yield from nodes(root_schema(kind)["properties"][name], name)


def test_committed_files_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().out


def test_check_finds_drift_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--root", str(tmp_path)]
    assert main([*arguments, "--check"]) == 1
    assert list(tmp_path.iterdir()) == []
    assert main(arguments) == 0
    assert main([*arguments, "--check"]) == 0
    changed = tmp_path / next(iter(generated_files()))
    changed.write_text(changed.read_text() + "#\n")
    capsys.readouterr()
    assert main([*arguments, "--check"]) == 1
    assert capsys.readouterr().out == f"out of date: {changed.relative_to(tmp_path)}\n"
    assert changed.read_text().endswith("#\n")


def printed_columns(kind: type[ApiObject], *, wide: bool) -> list[str]:
    columns = custom_resource_definition(kind)["spec"]["versions"][0]["additionalPrinterColumns"]
    return [column["name"] for column in columns if wide or column.get("priority", 0) == 0]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_columns_of_each_kind_end_in_reason_message_and_age_by_default(kind: type[ApiObject]) -> None:
    assert printed_columns(kind, wide=False)[-3:] == ["Reason", "Message", "Age"]


def test_columns_of_a_stream_or_a_front_session_have_lag_rate_batch_and_user() -> None:
    assert "Lag" in printed_columns(SqlStatement, wide=False)
    wide = set(printed_columns(SqlStatement, wide=True)) - set(printed_columns(SqlStatement, wide=False))
    assert wide == {"Run", "Attempt", "Rate", "Batch"}
    assert "User" in set(printed_columns(SqlSession, wide=True)) - set(printed_columns(SqlSession, wide=False))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_every_field_is_described(kind: type[ApiObject]) -> None:
    silent = [path for path, node in own_nodes(kind) if not path.endswith("[]") and not node.get("description")]
    assert silent == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_every_value_of_a_crd_is_bounded(kind: type[ApiObject]) -> None:
    def is_bounded(node: dict[str, Any]) -> bool:
        if node.get("x-kubernetes-int-or-string"):
            return "maxLength" in node and "x-kubernetes-validations" in node
        match node["type"]:
            case "string":
                return "maxLength" in node or "enum" in node or node.get("format") in INHERENTLY_BOUNDED
            case "array":
                return "maxItems" in node and "x-kubernetes-list-type" in node
            case "integer":
                return {"minimum", "maximum", "format"} <= node.keys()
            case "object" if "additionalProperties" in node:
                return "maxProperties" in node
            case other:
                return other in ("object", "boolean")

    assert [path for path, node in own_nodes(kind) if not is_bounded(node)] == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_no_field_takes_a_namespace_and_none_is_a_float(kind: type[ApiObject]) -> None:
    for path, node in own_nodes(kind):
        assert not path.endswith(".namespace") or path.startswith("status."), path  # nobody asks for anything there
        assert node.get("type") != "number", path


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_status_has_the_one_default_that_kstatus_needs(kind: type[ApiObject]) -> None:
    defaults = {
        path: node["default"] for path, node in own_nodes(kind) if path.startswith("status") and "default" in node
    }
    assert defaults == {"status": {"observedGeneration": -1}}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_nothing_below_a_list_or_map_has_a_default(kind: type[ApiObject]) -> None:
    """Client-side tools compare lists as a whole, and would see what the API server adds to an entry as drift."""
    assert [path for path, node in own_nodes(kind) if "[]" in path and "default" in node] == []


def test_a_parameter_and_a_lookup_take_their_defaults_from_the_models() -> None:
    spec = {"sql": "SELECT :a", "sessionRef": {"name": "s"}, "parameters": [{"name": "a", "value": "1"}]}
    streaming = {"lookups": [{"table": "t"}]}
    stored = {"metadata": {"name": "x"}, "spec": {**spec, "streaming": streaming}}
    parsed = SqlStatement.parse(stored).spec
    assert parsed.parameters[0].type == "STRING"
    assert parsed.streaming is not None
    assert (parsed.streaming.lookups[0].rows, parsed.streaming.lookups[0].ttl_seconds) == (10_000, 0)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_layered_settings_have_no_default(kind: type[ApiObject]) -> None:
    """A default would hide the layer below."""
    roots = {"SqlSession": "spec", "SqlStatement": "spec.session", "SqlSessionClass": "spec.defaults"}
    prefixes = tuple(f"{roots[kind.KIND]}.{field}" for field in LAYERED) if kind.KIND in roots else ()
    layered = [(path, node) for path, node in own_nodes(kind) if path.startswith((*prefixes, "spec.timeouts"))]
    assert layered or kind.KIND == "SqlSavepoint"
    assert [path for path, node in layered if "default" in node] == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_rules_of_change_say_immutable(kind: type[ApiObject]) -> None:
    for path, node in own_nodes(kind):
        for rule in node.get("x-kubernetes-validations", []):
            assert rule["message"], path
            if "oldSelf" in rule["rule"] and not rule.get("optionalOldSelf"):
                assert "immutable" in rule["message"], (path, rule)


def test_preview_cells_may_be_null() -> None:
    statement = next(kind for kind in KINDS if kind.KIND == "SqlStatement")
    cell = dict(own_nodes(statement))["status.result.preview[][]"]
    assert cell["nullable"] is True


def test_a_union_is_not_guessed_at() -> None:
    with pytest.raises(ValueError, match="union"):
        structural({"anyOf": [{"type": "string"}, {"type": "boolean"}]}, {})


def test_an_unknown_keyword_is_not_dropped_silently() -> None:
    with pytest.raises(ValueError, match="exclusiveMaximum"):
        structural({"type": "integer", "exclusiveMaximum": 3}, {})
