"""What Spark's own Connect service is started with, and how much of one request it and the gateway read."""

from __future__ import annotations

from sparksql.protocols.bounds import MAX_MESSAGE_BYTES

LOOPBACK = "127.0.0.1"
MAX_DEPTH = (
    1024  # Spark's default for spark.connect.grpc.marshallerRecursionLimit; a DataFrame operation takes two levels
)


def connect_conf() -> dict[str, str]:
    """Returns what a driver's configuration needs for Connect. Spark's own keys; tenants may set none of them."""
    return {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.grpc.maxInboundMessageSize": str(MAX_MESSAGE_BYTES),
        "spark.connect.grpc.marshallerRecursionLimit": str(MAX_DEPTH),
        # What a client that reattaches may miss: several network buffers of the way through the gateway, and Spark's 10 MiB are
        # not always enough for that.
        "spark.connect.execute.reattachable.observerRetryBufferSize": "32m",
        # The gateway closes idle sessions; Connect on its own never does.
        "spark.connect.session.manager.defaultSessionTimeout": "-1",
        "spark.connect.grpc.interceptor.classes": "dev.sparksql.connect.UserOfRequest,dev.sparksql.connect.ErrorOfCall",
    }
