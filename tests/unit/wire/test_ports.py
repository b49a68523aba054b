"""Ports of a driver, which classes may not give to other frontends."""

from __future__ import annotations

from sparksql.api.session_class import DRIVER_PORTS
from sparksql.wire.driver import BLOCK_MANAGER_PORT, CONNECT_PORT, DRIVER_RPC_PORT, GATEWAY_PORT, THRIFT_PORT


def test_ports_that_a_class_may_not_give_away_are_those_of_a_driver() -> None:
    assert sorted(DRIVER_PORTS) == sorted(
        (DRIVER_RPC_PORT, BLOCK_MANAGER_PORT, GATEWAY_PORT, THRIFT_PORT, CONNECT_PORT)
    )
