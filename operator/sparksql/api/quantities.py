"""Kubernetes quantities of CPU and memory as plain integers.

Only what makes sense for a Spark process is accepted: positive decimal numbers, `m` for CPU, the binary and decimal
suffixes for memory; no exponents. The patterns are those of the CRD: what the API server lets through parses here.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

CPU_PATTERN = r"^([0-9]{1,4}(\.[0-9]{1,3})?|[0-9]{1,7}m)$"
MEMORY_PATTERN = r"^[0-9]{1,15}(\.[0-9]{1,3})?(Ki|Mi|Gi|Ti|k|M|G|T)?$"
MAX_CPU_MILLIS = 1024 * 1000
MAX_MEMORY_MIB = 16 * 1024 * 1024

_MIB = 1024 * 1024
_MEMORY_UNITS = {
    "": 1, "k": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4,
    "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4,
}  # fmt: skip


class QuantityError(ValueError):
    """A quantity that is malformed or out of bounds; the message names the value and what is expected."""


def cpu_millis(value: str | int) -> int:
    """Thousandths of a core of `"500m"`, `"1.5"` or `2`: 1 to 1,024,000. Raises `QuantityError`."""
    text = str(value)
    if not re.fullmatch(CPU_PATTERN, text):
        raise QuantityError(f'{text!r} is not a CPU quantity: write cores ("1", "0.5") or thousandths ("500m")')
    millis = int(text[:-1]) if text.endswith("m") else math.ceil(Decimal(text) * 1000)
    if not 1 <= millis <= MAX_CPU_MILLIS:
        raise QuantityError(f"CPU {text} is out of bounds: at least 1m and at most {MAX_CPU_MILLIS // 1000} cores")
    return millis


def cpu_cores(value: str | int) -> int:
    """Whole cores that Spark counts for a CPU request: rounded up, at least 1."""
    return max(1, math.ceil(cpu_millis(value) / 1000))


def memory_mib(value: str | int) -> int:
    """MiB, rounded up, of `"1Gi"`, `"1500M"` or a number of bytes: 1 MiB to 16 TiB. Raises `QuantityError`."""
    text = str(value)
    if not re.fullmatch(MEMORY_PATTERN, text):
        raise QuantityError(f'{text!r} is not a memory quantity: write for instance "512Mi" or "2Gi"')
    number = text.rstrip("KMGTik")
    size = Decimal(number) * _MEMORY_UNITS[text[len(number) :]]
    if not _MIB <= size <= MAX_MEMORY_MIB * _MIB:
        raise QuantityError(f"memory {text} is out of bounds: at least 1Mi and at most 16Ti (a plain number is bytes)")
    return math.ceil(size / _MIB)
