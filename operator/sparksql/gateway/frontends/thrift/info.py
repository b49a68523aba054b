"""What HiveServer2's clients are told of the server itself. Pure."""

from __future__ import annotations

from sparksql.gateway.frontends.thrift import errors
from sparksql.gateway.frontends.thrift.errors import ThriftError
from sparksql.protocols.hiveserver2.messages import TGetInfoType, TGetInfoValue

SERVER_NAME = "Spark SQL"
_MAX_NAME_CHARS = 128


def info_value(kind: int) -> TGetInfoValue:
    """Returns the server's name, how names are quoted, or their length. Raises ThriftError for another type."""
    match kind:
        case TGetInfoType.CLI_SERVER_NAME | TGetInfoType.CLI_DBMS_NAME:
            return TGetInfoValue(SERVER_NAME)
        case TGetInfoType.CLI_SEARCH_PATTERN_ESCAPE:
            return TGetInfoValue("\\")
        case TGetInfoType.CLI_IDENTIFIER_QUOTE_CHAR:
            return TGetInfoValue("`")
        case (
            TGetInfoType.CLI_MAX_COLUMN_NAME_LEN
            | TGetInfoType.CLI_MAX_SCHEMA_NAME_LEN
            | TGetInfoType.CLI_MAX_TABLE_NAME_LEN
        ):
            return TGetInfoValue(len_value=_MAX_NAME_CHARS)
        case _:
            raise ThriftError(errors.refusal(f"no information has the type {kind}", errors.NOT_SUPPORTED))
