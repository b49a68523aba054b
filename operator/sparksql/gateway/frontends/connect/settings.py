"""The Config RPC: keys that a client may set, values that it may see."""

from __future__ import annotations

from pyspark.sql.connect.proto import base_pb2 as wire

from sparksql.api.conf_policy import redacted
from sparksql.gateway.frontends.connect.errors import malformed
from sparksql.gateway.frontends.connect.plans import decode
from sparksql.gateway.sql.policy import check_key, check_reading_key
from sparksql.wire.driver import SqlPolicy


def read_config(data: bytes, policy: SqlPolicy) -> wire.ConfigRequest:
    """Decodes a request of Config and checks its keys. Raises ConnectError, or StatementError for a key that is not allowed."""
    request = decode(wire.ConfigRequest, data)
    operation = request.operation
    match operation.WhichOneof("op_type"):
        case "set":
            for pair in operation.set.pairs:
                check_key(pair.key, policy, pair.value)
                check_reading_key(pair.key)
        case "unset":
            for key in operation.unset.keys:
                check_key(key, policy)
                check_reading_key(key)
        case None:
            raise malformed("the request has an operation on settings that this Spark does not support")
        case _:
            pass
    return request


def without_secrets(data: bytes) -> bytes:
    """Returns the answer with the values that look like secrets hidden; Spark shows them."""
    response = wire.ConfigResponse.FromString(data)
    for pair in response.pairs:
        if pair.HasField("value"):
            pair.value = redacted({pair.key: pair.value})[pair.key]
    shown: bytes = response.SerializeToString()
    return shown
