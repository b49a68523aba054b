"""From a message to its reply: finds the call, decodes its argument, encodes its answer.

Invariant: whatever the bytes of a message, there is either a reply or a ProtocolError, and the connection's next message can
be read. What no status can say (an unknown method, an argument that is none) is one of Thrift's own exceptions.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sparksql.gateway.frontends.thrift import errors
from sparksql.gateway.frontends.thrift.calls import Calls
from sparksql.gateway.frontends.thrift.fetching import Fetched
from sparksql.gateway.sessions.model import ClientError
from sparksql.protocols.hiveserver2 import messages as m
from sparksql.protocols.hiveserver2.codec import (
    STOP,
    ProtocolError,
    Reader,
    Struct,
    TMessageType,
    TType,
    encode,
    field_header,
    header,
)
from sparksql.protocols.hiveserver2.messages import ApplicationError, TApplicationException, TStatus

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Method:
    """A call: its argument, what a refusal is told in, and who answers."""

    argument: type[Struct]
    refusal: Callable[[TStatus], Struct] | None
    handler: Callable[[Calls, Any], Awaitable[Struct | Fetched]]


METHODS: Mapping[str, Method] = {
    "OpenSession": Method(m.TOpenSessionReq, m.TOpenSessionResp, Calls.open_session),
    "CloseSession": Method(m.SessionRequest, m.StatusResponse, Calls.close_session),
    "SetClientInfo": Method(m.SessionRequest, m.StatusResponse, Calls.set_client_info),
    "GetInfo": Method(m.TGetInfoReq, m.TGetInfoResp, Calls.get_info),
    "ExecuteStatement": Method(m.TExecuteStatementReq, m.OperationResponse, Calls.execute_statement),
    "GetOperationStatus": Method(m.TGetOperationStatusReq, m.TGetOperationStatusResp, Calls.get_operation_status),
    "CancelOperation": Method(m.OperationRequest, m.StatusResponse, Calls.cancel_operation),
    "CloseOperation": Method(m.OperationRequest, m.StatusResponse, Calls.close_operation),
    "GetQueryId": Method(m.OperationRequest, None, Calls.get_query_id),
    "GetLog": Method(m.OperationRequest, m.TGetLogResp, Calls.get_log),
    "GetResultSetMetadata": Method(m.OperationRequest, m.TGetResultSetMetadataResp, Calls.get_result_set_metadata),
    "FetchResults": Method(m.TFetchResultsReq, m.StatusResponse, Calls.fetch_results),
    "GetTypeInfo": Method(m.SessionRequest, m.OperationResponse, Calls.get_type_info),
    "GetCatalogs": Method(m.SessionRequest, m.OperationResponse, Calls.get_catalogs),
    "GetSchemas": Method(m.TGetSchemasReq, m.OperationResponse, Calls.get_schemas),
    "GetTables": Method(m.TGetTablesReq, m.OperationResponse, Calls.get_tables),
    "GetTableTypes": Method(m.SessionRequest, m.OperationResponse, Calls.get_table_types),
    "GetColumns": Method(m.TGetColumnsReq, m.OperationResponse, Calls.get_columns),
    "GetFunctions": Method(m.TGetFunctionsReq, m.OperationResponse, Calls.get_functions),
    "GetPrimaryKeys": Method(m.SessionRequest, m.OperationResponse, Calls.get_primary_keys),
    "GetCrossReference": Method(m.SessionRequest, m.OperationResponse, Calls.get_cross_reference),
    "GetDelegationToken": Method(m.SessionRequest, m.TGetDelegationTokenResp, Calls.no_delegation),
    "CancelDelegationToken": Method(m.SessionRequest, m.StatusResponse, Calls.no_delegation),
    "RenewDelegationToken": Method(m.SessionRequest, m.StatusResponse, Calls.no_delegation),
}


async def answer(calls: Calls, message: bytes) -> list[bytes]:
    """Returns the reply to a message, in pieces. Raises ProtocolError when not even a reply can be addressed."""
    reader = Reader(message)
    name, kind, sequence = reader.header()
    method = METHODS.get(name)
    if method is None or kind is not TMessageType.CALL:
        return exception(name, sequence, ApplicationError.UNKNOWN_METHOD, f"no call {name[:64]!r} is served")
    try:
        argument = reader.argument(method.argument)
    except ProtocolError as malformed:
        return exception(name, sequence, ApplicationError.PROTOCOL_ERROR, f"{name}: {malformed}")
    try:
        answered = await method.handler(calls, argument)
    except ClientError as error:
        refused = errors.client_refusal(error)
    except errors.ThriftError as error:
        refused = error.status
    except Exception as error:
        log.exception("%s failed", name)
        refused = errors.refusal(f"the call {name} failed inside the gateway: {type(error).__name__}")
    else:
        return _reply(name, sequence, answered.encoded() if isinstance(answered, Fetched) else encode(answered))
    if method.refusal is None:
        return exception(name, sequence, ApplicationError.INTERNAL_ERROR, refused.error_message or "")
    return _reply(name, sequence, encode(method.refusal(refused)))


def exception(name: str, sequence: int, error: ApplicationError, text: str) -> list[bytes]:
    """Returns the reply to a call that cannot be answered otherwise."""
    return [header(name, TMessageType.EXCEPTION, sequence), encode(TApplicationException(text, error))]


def _reply(name: str, sequence: int, body: bytes) -> list[bytes]:
    return [header(name, TMessageType.REPLY, sequence), field_header(TType.STRUCT, 0), body, STOP]
