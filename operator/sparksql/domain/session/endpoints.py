"""Where clients reach a session. Pure.

An address is told only while something answers there: the names are stable, but a session without a driver has nobody
behind them, and a client that finds no address knows that it has to wait.
"""

from __future__ import annotations

from sparksql.api.names import gateway_server_name
from sparksql.api.session import EndpointStatus, SqlSession
from sparksql.wire.driver import CONNECT_PORT, GATEWAY_PORT, THRIFT_PORT


def endpoints_of(session: SqlSession) -> EndpointStatus:
    """Addresses of the driver that the session has: what its configuration turned on when it was started, not what the
    class says by now."""
    metadata = session.metadata
    host = gateway_server_name(metadata.name, metadata.uid, metadata.namespace)
    on = {entry.name for entry in session.status.configuration if entry.value == "true"}
    return EndpointStatus(
        rest=f"https://{host}:{GATEWAY_PORT}" if "endpoints.rest" in on else None,
        connect=f"sc://{host}:{CONNECT_PORT}/;use_ssl=true" if "endpoints.connect" in on else None,
        thrift=f"jdbc:hive2://{host}:{THRIFT_PORT}/default;ssl=true" if "endpoints.thrift" in on else None,
    )
