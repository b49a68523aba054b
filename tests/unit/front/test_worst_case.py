"""What the front may hold with its defaults, added up: it fits in the memory that the chart gives it."""

from __future__ import annotations

from pathlib import Path

import yaml

from sparksql.front.config import FrontConfig
from sparksql.front.thrift import BUFFER_BYTES
from sparksql.protocols.budget import BYTES, CALLS
from sparksql.protocols.gate import READ_BYTES, WRITE_BYTES
from sparksql.protocols.passages import LARGE_BYTES
from sparksql.protocols.slots import SlotLimits

VALUES = Path(__file__).parents[3] / "charts/spark-sql-operator/values.yaml"
MIB = 1 << 20
PROCESS = 110 * MIB
TLS_END = 70 << 10  # measured: `tests/unit/protocols/test_gate.py`
COPIES = 2  # of a body: what came, and as one
LARGE_COPIES = 3.75  # measured: `tests/attack`, messages of a user with the right
CALL = 24 << 10


def test_all_that_clients_may_take_fits_in_the_memory_of_the_front() -> None:
    limits = SlotLimits.of_users(FrontConfig().max_connections)
    user = 2 * TLS_END + BUFFER_BYTES * 2 + 8 * 1024
    stranger = TLS_END + 32 * 1024
    worst = (
        PROCESS
        + limits.most * user
        + limits.strangers * stranger
        + BYTES.most * COPIES
        + LARGE_BYTES * LARGE_COPIES
        + CALLS.most * CALL
    )
    front = yaml.safe_load(VALUES.read_text())["front"]
    assert front["maxConnections"] == FrontConfig().max_connections
    assert front["resources"]["limits"]["memory"] == "768Mi"
    assert worst < 768 * MIB, {"worst": worst / MIB}


def test_buffers_of_tls_are_no_larger_than_those_of_a_relay() -> None:
    assert READ_BYTES <= 2 * BUFFER_BYTES and WRITE_BYTES <= 2 * BUFFER_BYTES


def test_a_user_may_send_the_largest_body_and_no_user_may_take_all() -> None:
    assert 8 * MIB < BYTES.each < BYTES.most // 2 and CALLS.each * 4 <= CALLS.most - CALLS.spared
