"""How much of one request is read."""

from __future__ import annotations

MAX_MESSAGE_BYTES = 80 << 20  # clients before 4.1 send local data of up to 64 MiB within a plan
MAX_DEPTH = (
    1024  # Spark's default for spark.connect.grpc.marshallerRecursionLimit; a DataFrame operation takes two levels
)
