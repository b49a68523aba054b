"""Waits for the Hive metastore at a driver's start: after a power cut both start at once, and init must not fail for that."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

METASTORE_SECONDS = 120.0  # the chart's own one takes 20 to 70 s on two cores that start everything else as well
POLL_SECONDS = 1.0

log = logging.getLogger(__name__)


def await_metastore(
    ask: Callable[[], object],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Waits until a question to the metastore is answered, and returns whether it was within METASTORE_SECONDS.

    If not, whoever uses it next says what is wrong with it.
    """
    deadline = clock() + METASTORE_SECONDS
    while True:
        try:
            ask()
            return True
        except Exception as exception:
            if clock() >= deadline:
                log.warning("the metastore does not answer: %s", type(exception).__name__)
                return False
            log.info("waiting for the metastore to answer")
        sleep(POLL_SECONDS)
