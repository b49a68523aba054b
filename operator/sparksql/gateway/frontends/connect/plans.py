"""Reads a client's request: only allowed messages, nothing that streams, and which SQL texts are in it.

Pure. Invariants: what is forwarded is the message that was read here, written anew, so that no second reading of the bytes can
find something else; nothing is decoded beyond the bounds of `extent`, and nothing unpacked beyond that of a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
from google._upb import _message
from google.protobuf.message import DecodeError, Message
from pyspark.sql.connect.proto import base_pb2 as wire
from pyspark.sql.connect.proto import commands_pb2 as commands
from pyspark.sql.connect.proto import expressions_pb2 as expressions
from pyspark.sql.connect.proto import relations_pb2 as relations
from pyspark.sql.connect.proto import types_pb2 as types

from sparksql.gateway.frontends.connect.allowed import ALLOWED, PACKAGE, REASONS, STREAMING_READ
from sparksql.gateway.frontends.connect.errors import malformed, not_permitted
from sparksql.gateway.frontends.connect.extent import ExtentError, WireFormatError, check_extent
from sparksql.gateway.spark.names import REFLECTION_FUNCTIONS
from sparksql.gateway.sql.text_bounds import check_text
from sparksql.protocols.bounds import MAX_MESSAGE_BYTES

# protobuf's own limit of 100 levels would refuse chains of fifty DataFrame operations.
_message.SetAllowOversizeProtos(True)

# Without one of these an expression, even one with a query in it, asks for nothing that the policy does not give.
_TRANSFORM_WORDS = ("TRANSFORM", "MAP", "REDUCE")
# Commands that execute nothing: they need no slot.
_IMMEDIATE = frozenset({"create_dataframe_view", "remove_cached_remote_relation_command"})
_WRITES = frozenset({"write_operation", "write_operation_v2"})
_COMMAND_TYPES = {
    "write_operation": "WRITE",
    "write_operation_v2": "WRITE",
    "merge_into_table_command": "MERGE",
    "create_dataframe_view": "CREATE TEMPORARY VIEW",
    "checkpoint_command": "CHECKPOINT",
    "remove_cached_remote_relation_command": "RELEASE",
}
QUERY = "SELECT"
CATALOG = "CATALOG"

M = TypeVar("M", bound=Message)


@dataclass
class Findings:
    """Collects what a plan holds.

    `immediate`: it executes nothing; `writes`: it is a DataFrame's write. `statement` is the text of a SQL command,
    which may be of any kind; `queries` must be queries; `expressions` may hold a TRANSFORM; `options` are those that
    sources are given.
    """

    statement_type: str = QUERY
    immediate: bool = False
    writes: bool = False
    statement: str | None = field(default=None, repr=False)
    queries: list[str] = field(default_factory=list)
    expressions: list[str] = field(default_factory=list)
    options: list[dict[str, str]] = field(default_factory=list)

    @property
    def has_sql(self) -> bool:
        """Returns whether any text of the plan is SQL."""
        return self.statement is not None or bool(self.queries) or bool(self.expressions)


def decode(kind: type[M], data: bytes) -> M:
    """Decodes a request of this kind, within the bounds of `extent`. Raises ConnectError."""
    try:
        check_extent(data, kind.DESCRIPTOR)
        request: M = kind.FromString(data)
    except ExtentError as beyond:
        raise malformed(str(beyond)) from None
    except (DecodeError, WireFormatError):
        raise malformed(f"the request is no {kind.DESCRIPTOR.name}") from None
    return request


def read_execute(data: bytes) -> tuple[wire.ExecutePlanRequest, Findings]:
    """Decodes a request to execute, with its plan unpacked, and what is in it. Raises ConnectError."""
    request = decode(wire.ExecutePlanRequest, data)
    _unpack(request.plan)
    match request.plan.WhichOneof("op_type"):
        case "root":
            return request, _inspect(request, _of_root(request.plan.root))
        case "command":
            return request, _inspect(request, _of_command(request.plan.command))
        case _:
            raise malformed("the plan is neither a relation nor a command")


def read_analyze(data: bytes) -> tuple[wire.AnalyzePlanRequest, Findings]:
    """Decodes a request to analyse and what is in it. Raises ConnectError."""
    request = decode(wire.AnalyzePlanRequest, data)
    kind = request.WhichOneof("analyze")
    if kind is None:
        raise malformed("the request has an analysis that this Spark does not support")
    asked = getattr(request, kind)
    for name in ("plan", "target_plan", "other_plan"):
        if name in asked.DESCRIPTOR.fields_by_name and asked.HasField(name):
            _unpack(getattr(asked, name))
            if getattr(asked, name).WhichOneof("op_type") != "root":
                raise malformed("only a relation can be analysed")
    return request, _inspect(request, Findings())


def _unpack(plan: wire.Plan) -> None:
    """Puts the relation or command of a compressed plan in its place."""
    if plan.WhichOneof("op_type") != "compressed_operation":
        return
    packed = plan.compressed_operation
    if packed.compression_codec != wire.COMPRESSION_CODEC_ZSTD:
        raise malformed("the plan is compressed by a codec that this Spark does not support")
    data = _decompress(packed.data)
    kinds = wire.Plan.CompressedOperation
    match packed.op_type:
        case kinds.OP_TYPE_RELATION:
            plan.root.CopyFrom(decode(relations.Relation, data))
        case kinds.OP_TYPE_COMMAND:
            plan.command.CopyFrom(decode(commands.Command, data))
        case _:
            raise malformed("the compressed plan is neither a relation nor a command")


def _decompress(data: bytes) -> bytes:
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            unpacked: bytes = stream.read(MAX_MESSAGE_BYTES + 1)
    except (OSError, pa.ArrowException):
        raise malformed("the compressed plan cannot be unpacked") from None
    if len(unpacked) > MAX_MESSAGE_BYTES:
        raise malformed(f"the compressed plan has more than {MAX_MESSAGE_BYTES} bytes when unpacked")
    return unpacked


def _of_root(root: relations.Relation) -> Findings:
    return Findings(statement_type=CATALOG if root.WhichOneof("rel_type") == "catalog" else QUERY)


def _of_command(command: commands.Command) -> Findings:
    kind = command.WhichOneof("command_type")
    if kind != "sql_command":
        return Findings(_COMMAND_TYPES.get(kind or "", "COMMAND"), kind in _IMMEDIATE, kind in _WRITES)
    sql = command.sql_command
    if not sql.HasField("input"):
        return Findings(statement=sql.sql)
    if sql.sql:
        raise malformed("the SQL command has a text and an input")
    root = sql.input
    if root.WhichOneof("rel_type") == "with_relations":
        if any(r.WhichOneof("rel_type") != "subquery_alias" for r in root.with_relations.references):
            raise malformed("the SQL command refers to a relation without a name")
        root = root.with_relations.root
    if root.WhichOneof("rel_type") != "sql":
        raise malformed("the input of the SQL command is no SQL")
    return Findings(statement=root.sql.query)


def _inspect(request: Message, findings: Findings) -> Findings:
    """Walks all messages. Raises ConnectError for the first that is not allowed, StatementError for a text beyond its bounds."""
    statement = statement_relation(request)
    root = request.plan.root if isinstance(request, wire.ExecutePlanRequest) else None
    pending: list[Message] = [request]
    while pending:
        message = pending.pop()
        _check_type(message)
        findings.options.extend(_options(message))
        for text in _parsed_texts(message):
            check_text(text)
        match message:
            case relations.Relation():
                _check_relation(message, root)
            case commands.Command():
                _check_known(message, "command_type")
            case expressions.Expression():
                _check_known(message, "expr_type")
            case relations.SQL():
                if message is not statement:
                    findings.queries.append(message.query)
            case expressions.Expression.ExpressionString():
                if any(word in message.expression.upper() for word in _TRANSFORM_WORDS):
                    findings.expressions.append(message.expression)
            case expressions.Expression.UnresolvedFunction() | expressions.CallFunction():
                _check_function(message.function_name)
            case _:
                pass
        pending.extend(_children(message))
    return findings


def statement_relation(request: Message) -> relations.SQL | None:
    """Returns the SQL relation that is a SQL command's own text."""
    if not isinstance(request, wire.ExecutePlanRequest) or not request.plan.HasField("command"):
        return None
    root = request.plan.command.sql_command.input
    if root.WhichOneof("rel_type") == "with_relations":
        root = root.with_relations.root
    return root.sql if root.WhichOneof("rel_type") == "sql" else None


def _parsed_texts(message: Message) -> Iterator[str]:
    """The texts beside queries that Spark's parser reads: expressions, types and schemas."""
    match message:
        case expressions.Expression.ExpressionString():
            yield message.expression
        case expressions.Expression.Cast():
            yield message.type_str
        case types.DataType.Unparsed():
            yield message.data_type_string
        case relations.Read.DataSource():
            yield message.schema
        case wire.AnalyzePlanRequest.DDLParse():
            yield message.ddl_string
        case _:
            pass


def _check_type(message: Message) -> None:
    name = message.DESCRIPTOR.full_name
    if name in ALLOWED:
        return
    short = name.removeprefix(PACKAGE)
    reason = REASONS.get(short, "it is not among what the gateway lets through")
    raise not_permitted(f"{short} is not allowed over Connect: {reason}")


def _options(message: Message) -> Iterator[dict[str, str]]:
    """The options that a reader, a writer or a table of the catalog gives its source."""
    for name in ("options", "table_properties"):
        descriptor = message.DESCRIPTOR.fields_by_name.get(name)
        if (
            descriptor is not None
            and descriptor.message_type is not None
            and descriptor.message_type.GetOptions().map_entry
        ):
            given = getattr(message, name)
            if given and isinstance(next(iter(given.values())), str):
                yield {key.removeprefix("option."): value for key, value in given.items()}


def _check_known(message: Message, choice: str) -> str:
    kind: str | None = message.WhichOneof(choice)
    if kind is None:
        raise not_permitted(f"the plan holds a {message.DESCRIPTOR.name} of a kind that this Spark does not support")
    return kind


def _check_relation(relation: relations.Relation, root: relations.Relation | None) -> None:
    kind = _check_known(relation, "rel_type")
    if kind == "read" and relation.read.is_streaming:
        raise not_permitted(f"Read is not allowed over Connect with is_streaming: {STREAMING_READ}")
    if kind == "catalog" and relation is not root:
        raise not_permitted("Catalog is allowed over Connect only as a request of its own, not within a plan")


def _check_function(name: str) -> None:
    if name.rpartition(".")[2].strip("`").lower() in REFLECTION_FUNCTIONS:
        raise not_permitted(f"function {name} is not allowed: it calls any Java method")


def _children(message: Message) -> Iterator[Message]:
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        if not descriptor.is_repeated:
            yield value
        elif not descriptor.message_type.GetOptions().map_entry:
            yield from value
        elif descriptor.message_type.fields_by_name["value"].message_type is not None:
            yield from value.values()
