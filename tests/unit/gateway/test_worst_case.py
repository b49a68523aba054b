"""What clients may hold of a driver's gateway, added up: it fits in what the driver's pod has beside its heap."""

from __future__ import annotations

import re
from pathlib import Path

from sparksql.domain.session.resolve import MIN_OVERHEAD_MIB, PYTHON_OVERHEAD_MIB
from sparksql.gateway.frontends.connect.executions import MAX_WAITING_BYTES
from sparksql.protocols.bounds import MAX_MESSAGE_BYTES
from sparksql.protocols.budget import DRIVER_BYTES
from tests.attack.driver_process import LIMIT_BYTES

SECURITY = Path(__file__).parents[3] / "docs/security.md"
MIB = 1 << 20
# Measured: the JVM of a driver beside its heap, with all connectors, and the gateway without clients.
JVM_MIB, GATEWAY_MIB = 300, 170


def test_bounds_of_clients_fit_in_the_pod_of_a_driver() -> None:
    text = SECURITY.read_text()
    told = re.search(r"the process stays within (\d+) MiB beyond what it has without clients: (\d+) MiB", text)
    assert told is not None
    clients, without_waiting = map(int, told.groups())
    assert without_waiting * MIB == LIMIT_BYTES  # held by an attack on each bound
    assert clients * MIB >= LIMIT_BYTES + MAX_WAITING_BYTES
    beside_heap = MIN_OVERHEAD_MIB + PYTHON_OVERHEAD_MIB
    assert (
        f"{beside_heap} MiB at least, of which the JVM uses some {JVM_MIB} MiB and the gateway {GATEWAY_MIB} MiB"
        in text
    )
    assert JVM_MIB + GATEWAY_MIB + clients <= beside_heap


def test_largest_message_may_wait_and_larger_shares_leave_others_room() -> None:
    assert MAX_MESSAGE_BYTES <= MAX_WAITING_BYTES
    assert 2 * 8 * MIB < DRIVER_BYTES.each <= DRIVER_BYTES.most // 2
