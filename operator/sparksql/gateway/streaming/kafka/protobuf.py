"""Protobuf values of Kafka records, read by the session's own jar: Spark's for Protobuf is not in its image."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from pyspark.errors import IllegalArgumentException

from sparksql.gateway.spark.names import JvmNames
from sparksql.gateway.spark.shapes import Jvm
from sparksql.gateway.streaming.kafka.options import (
    PROTOBUF_DESCRIPTOR,
    PROTOBUF_MESSAGE,
    KafkaTable,
    ProtobufHeader,
)
from sparksql.gateway.streaming.kafka.records import RECORD

_NAME = "from_protobuf"  # in a plan


def parsed(jvm: Jvm, table: KafkaTable) -> Any:
    """Returns the column that reads a record's `value`: a struct whose field RECORD is NULL for a malformed one.

    Raises StatementError for a descriptor without the message, and for a message that no columns can be of.
    """
    functions, to_seq = jvm.org.apache.spark.sql.functions, jvm.PythonUtils.toSeq
    own = jvm.dev.sparksql.formats.ProtobufReader
    if isinstance(own, JvmNames):
        message = (
            f"value.format {table.format}: the session's own jar is not on its class path; use the session's image"
        )
        raise table.invalid(message)
    try:
        reader = own.of(
            _descriptor(table), table.option(PROTOBUF_MESSAGE) or "", table.protobuf_header is ProtobufHeader.CONFLUENT
        )
        read = reader.function().withName(_NAME)
    except IllegalArgumentException as thrown:
        raise table.invalid(f"option {PROTOBUF_DESCRIPTOR!r} {thrown}") from None
    return functions.struct(to_seq([read.apply(to_seq([functions.col("value")])).alias(RECORD)]))


def _descriptor(table: KafkaTable) -> bytes:
    """The FileDescriptorSet. Raises StatementError for a text that is not Base64."""
    try:
        return base64.b64decode(table.option(PROTOBUF_DESCRIPTOR) or "", validate=True)
    except binascii.Error:
        message = "is not Base64: it must be that of a file as protoc --include_imports --descriptor_set_out writes it"
        raise table.invalid(f"option {PROTOBUF_DESCRIPTOR!r} {message}") from None
