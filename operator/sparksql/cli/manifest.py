"""Turns what the user typed into a SqlStatement manifest. Pure.

SQL stays text: parameters are handed over as parameters for Spark to bind, never pasted into it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparksql.api.execution import StatementMode
from sparksql.api.fields import DNS_LABEL, MAX_SQL_LENGTH
from sparksql.api.names import API_VERSION
from sparksql.cli.errors import CliError, Exit
from sparksql.cli.objects import STATEMENT_KIND
from sparksql.wire.control import MAX_RESULT_ROWS, Parameter

AD_HOC_TTL_SECONDS = 3600  # as long as the result is kept by default (`spec.result.retentionSeconds`)

# Spark SQL's data types that a parameter can have (Spark's SQL reference, "Data Types"): only these end a `-p` value.
_PLAIN_TYPES = (
    "BOOLEAN", "BYTE", "TINYINT", "SHORT", "SMALLINT", "INT", "INTEGER", "LONG", "BIGINT", "FLOAT", "REAL", "DOUBLE",
    "DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "STRING", "BINARY",
)  # fmt: skip
_SIZED_TYPES = ("CHAR", "CHARACTER", "VARCHAR")
_DECIMAL_TYPES = ("DECIMAL", "DEC", "NUMERIC")
_TYPE = re.compile(
    rf"({'|'.join(_PLAIN_TYPES)}|({'|'.join(_SIZED_TYPES)})\(\d+\)|({'|'.join(_DECIMAL_TYPES)})(\(\d+(,\s*\d+)?\))?)",
    re.IGNORECASE,
)
_LIKE_A_TYPE = re.compile(r"(\w{3,})(\([\d,\s]*\))?")
_MIN_LIKENESS = 0.75  # of DAET and DATE; INTERNAL and INTEGER have less


@dataclass(frozen=True)
class RunOptions:
    """Holds the flags of `run` that describe an ad-hoc statement.

    `session` None asks for a dedicated session, `max_rows` None for all rows.
    """

    session: str | None = None
    parameters: Sequence[Parameter] = ()
    mode: StatementMode = StatementMode.EXECUTE
    timeout_seconds: int | None = None
    max_rows: int | None = None
    keep: bool = False


def parse_parameter(text: str) -> Parameter:
    """Reads `name=value` or `name=value:TYPE`; what follows the last colon is a type only if Spark knows it as one.

    Raises CliError for a misspelt type: as a part of the value it would change the statement's result unnoticed.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CliError(f"-p {text}: expected name=value or name=value:TYPE", Exit.USAGE)
    head, colon, tail = value.rpartition(":")
    if colon and _TYPE.fullmatch(tail.strip()):
        return Parameter(name=name, value=head, type=tail.strip().upper())
    similar = _similar_type(tail.strip()) if colon else None
    if similar is not None:
        raise CliError(
            f"-p {text}: {tail} is not a type of Spark, did you mean {similar}? "
            f"For a value that ends in :{tail} append :STRING",
            Exit.USAGE,
        )
    return Parameter(name=name, value=value)


def _similar_type(text: str) -> str | None:
    """Returns the type that a text is most likely a misspelling of, None if it resembles no type."""
    word = _LIKE_A_TYPE.fullmatch(text)
    if word is None:
        return None
    names = (*_PLAIN_TYPES, *_SIZED_TYPES, *_DECIMAL_TYPES)
    matches = difflib.get_close_matches(word[1].upper(), names, n=1, cutoff=_MIN_LIKENESS)
    return matches[0] if matches else None


def statement_manifest(name: str, sql: str, options: RunOptions) -> dict[str, Any]:
    """The SqlStatement for ad-hoc SQL, with all its rows; it removes itself an hour after its end unless it is to be kept."""
    spec: dict[str, Any] = {"sql": sql, "mode": options.mode.value}
    if options.session is None:
        spec["session"] = {}
    else:
        spec["sessionRef"] = {"name": options.session}
    if options.parameters:
        spec["parameters"] = [{"name": p.name, "value": p.value, "type": p.type} for p in options.parameters]
    if options.timeout_seconds is not None:
        spec["timeouts"] = {"queueSeconds": options.timeout_seconds, "executionSeconds": options.timeout_seconds}
    if options.max_rows is not None:
        spec["result"] = {"maxRows": options.max_rows}
    elif (
        options.mode is StatementMode.EXECUTE and options.session is not None
    ):  # a dedicated session keeps a preview only
        spec["result"] = {"maxRows": MAX_RESULT_ROWS}
    if not options.keep:
        spec["ttlSecondsAfterFinished"] = AD_HOC_TTL_SECONDS
    return {"apiVersion": API_VERSION, "kind": STATEMENT_KIND, "metadata": {"name": name}, "spec": spec}


def check_size(sql: str, place: str) -> None:
    """Raises CliError for a text that no SqlStatement holds; `place` says where it was given."""
    if len(sql) > MAX_SQL_LENGTH:
        raise CliError(
            f"{place}: the SQL has {len(sql):,} characters, the limit of a SqlStatement is {MAX_SQL_LENGTH:,}. Put it into a ConfigMap "
            "(kubectl create configmap NAME --from-file=KEY=FILE, up to 1 MiB) and name that in spec.sqlFrom.configMapKeyRef "
            "of a manifest",
            Exit.USAGE,
        )


def session_ref(manifest: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """Returns name and namespace of the session that a manifest names, None for an own one, or for what is no name."""
    reference = (manifest.get("spec") or {}).get("sessionRef")
    name = reference.get("name") if isinstance(reference, Mapping) else None
    if not isinstance(name, str) or re.fullmatch(DNS_LABEL, name) is None:
        return None
    return name, (manifest.get("metadata") or {}).get("namespace")


def wants_a_part(manifest: Mapping[str, Any]) -> bool:
    """Tells whether a statement asks for some of its rows only, so that a cut result is as it wants it."""
    spec = manifest.get("spec") or {}
    most = (spec.get("result") or {}).get("maxRows", MAX_RESULT_ROWS)
    return bool(spec.get("mode") == StatementMode.PREVIEW or most < MAX_RESULT_ROWS)


def is_manifest(path: str, text: str) -> bool:
    """Tells whether `-f` names manifests and not SQL: by the file's ending; standard input (`-`) by what it holds."""
    if path == "-":
        return text.lstrip().startswith("{") or re.search(r"^apiVersion:", text, re.MULTILINE) is not None
    return path.endswith((".yaml", ".yml", ".json"))
