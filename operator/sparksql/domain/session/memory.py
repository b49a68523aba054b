"""The memory that an executor's pod will ask for, as Spark counts it.

A limit on the heap cannot be gone around beside it. Spark's own sum is in ResourceProfile.getResourcesForClusterManager
and BasicExecutorFeatureStep of Spark 4.1: heap, overhead, off-heap memory and Python's. The driver's pod needs none of
this: the operator makes it, from `spec.driver` alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal

OVERHEAD = "spark.executor.memoryOverhead"
FACTOR = "spark.executor.memoryOverheadFactor"
MIN_OVERHEAD = "spark.executor.minMemoryOverhead"
OFF_HEAP = "spark.memory.offHeap.enabled"
OFF_HEAP_SIZE = "spark.memory.offHeap.size"
PYTHON = "spark.executor.pyspark.memory"
# The class's alone, as all of spark.kubernetes.*; Spark takes it where FACTOR is not said.
CLUSTER_FACTOR = "spark.kubernetes.memoryOverheadFactor"
KEYS = (OVERHEAD, FACTOR, MIN_OVERHEAD, OFF_HEAP, OFF_HEAP_SIZE, PYTHON)

DEFAULT_MIN_OVERHEAD_MIB = 384
DEFAULT_FACTOR = "0.1"
_MIB = 1 << 20
_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_SIZE = re.compile(r"([0-9]{1,15})([kmgtp]b?|b)?")
_NUMBER = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?|\.[0-9]{1,6}")


class InvalidSize(ValueError):
    """Refuses a value that Spark would not take, or that nobody means; `key` is the one to mend, the message says what fits."""

    def __init__(self, key: str, value: str, fits: str) -> None:
        super().__init__(f"{value[:200]!r} is invalid; it must be {fits}")
        self.key = key


def pod_mib(heap_mib: int, conf: Mapping[str, str]) -> int:
    """Returns the MiB of the pod of an executor with this heap. Raises InvalidSize.

    Python's part counts in any case: Spark adds it for applications that it takes for Python's.
    """
    overhead = _size(conf, OVERHEAD, _MIB)
    if overhead is None:
        least = _size(conf, MIN_OVERHEAD, _MIB)
        factor = _factor(conf)
        overhead = max(int(factor * heap_mib), DEFAULT_MIN_OVERHEAD_MIB if least is None else least)
    off_heap = (_size(conf, OFF_HEAP_SIZE, 1) or 0) if _flag(conf, OFF_HEAP) else 0
    return heap_mib + overhead + off_heap + (_size(conf, PYTHON, _MIB) or 0)


def _size(conf: Mapping[str, str], key: str, unit: int) -> int | None:
    """MiB, rounded up. A number without a unit has the key's own."""
    text = conf.get(key)
    if text is None:
        return None
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None:
        raise InvalidSize(key, text, "a whole number with a unit: k, m, g or t, such as 512m")
    factor = _UNITS[match.group(2)[0]] if match.group(2) else unit
    return math.ceil(int(match.group(1)) * factor / _MIB)


def _factor(conf: Mapping[str, str]) -> Decimal:
    key = FACTOR if FACTOR in conf else CLUSTER_FACTOR
    text = conf.get(key, DEFAULT_FACTOR)
    if not _NUMBER.fullmatch(text.strip()) or not Decimal(text.strip()):
        raise InvalidSize(key, text, "a decimal number above 0, such as 0.1")
    return Decimal(text.strip())


def _flag(conf: Mapping[str, str], key: str) -> bool:
    text = conf.get(key, "false").strip().lower()
    if text not in ("true", "false"):
        raise InvalidSize(key, conf[key], "true or false")
    return text == "true"
