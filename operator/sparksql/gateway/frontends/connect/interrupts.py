"""What a client's Interrupt means: which executions it names, and what of it Spark is asked."""

from __future__ import annotations

import uuid

from pyspark.sql.connect.proto import base_pb2 as wire

_KINDS = (
    wire.InterruptRequest.INTERRUPT_TYPE_ALL,
    wire.InterruptRequest.INTERRUPT_TYPE_TAG,
    wire.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID,
)


def is_meant(request: wire.InterruptRequest, operation_id: str, tags: frozenset[str]) -> bool:
    """Tells whether a request means the execution of this id, to which its client gave these tags."""
    match request.interrupt_type:
        case wire.InterruptRequest.INTERRUPT_TYPE_ALL:
            return True
        case wire.InterruptRequest.INTERRUPT_TYPE_TAG:
            return request.operation_tag in tags
        case wire.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID:
            return request.operation_id == operation_id
        case _:
            return False


def of_nothing(request: wire.InterruptRequest) -> wire.InterruptRequest:
    """Returns the request with an id that no execution has: Spark checks the session and answers, and interrupts nothing.

    A request of a kind that is not known is returned as it is, for Spark to refuse.
    """
    if request.interrupt_type not in _KINDS:
        return request
    asked = wire.InterruptRequest()
    asked.CopyFrom(request)
    asked.interrupt_type, asked.operation_id = wire.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID, str(uuid.uuid4())
    return asked
