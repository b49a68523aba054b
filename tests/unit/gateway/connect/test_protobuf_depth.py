"""The switch of protobuf that `plans` turns is private to protobuf: an upgrade may take it away, or take its effect away."""

from __future__ import annotations

import google.protobuf.message
import pytest
from google.protobuf.struct_pb2 import Value

WHAT_TO_DO = (
    f"protobuf {google.protobuf.__version__}: gateway/frontends/connect/plans.py reads plans nested deeper than protobuf's own 100 "
    "levels by google._upb._message.SetAllowOversizeProtos, which is not part of protobuf's API. Find what lifts that limit in this "
    "version and use it in plans.py; until then stay with the protobuf that pyproject.toml pinned before. Without it chains of fifty "
    "DataFrame operations are refused."
)


def nested(levels: int) -> bytes:
    value = Value()
    inner = value
    for _ in range(levels):
        inner = inner.list_value.values.add()
    inner.null_value = 0
    return value.SerializeToString()


def test_protobuf_reads_messages_deeper_than_its_limit_once_its_private_switch_is_turned() -> None:
    try:
        from google._upb import _message
    except ImportError:
        pytest.fail(WHAT_TO_DO)
    if not hasattr(_message, "SetAllowOversizeProtos"):
        pytest.fail(WHAT_TO_DO)
    _message.SetAllowOversizeProtos(True)
    try:
        assert Value.FromString(nested(500))
    except google.protobuf.message.DecodeError:
        pytest.fail(WHAT_TO_DO)
