"""Quantities become integers exactly, and nonsense is refused with its name."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.quantities import MAX_CPU_MILLIS, MAX_MEMORY_MIB, QuantityError, cpu_cores, cpu_millis, memory_mib

UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


@pytest.mark.parametrize(
    ("text", "millis", "cores"),
    [
        ("1", 1000, 1),
        (2, 2000, 2),
        ("100m", 100, 1),
        ("1.5", 1500, 2),
        ("0.001", 1, 1),
        ("1001m", 1001, 2),
        ("1024", MAX_CPU_MILLIS, 1024),
    ],
)
def test_cpu_quantity_is_read_as_millicores_and_whole_cores_rounded_up(
    text: str | int, millis: int, cores: int
) -> None:
    assert cpu_millis(text) == millis
    assert cpu_cores(text) == cores


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("1Gi", 1024),
        ("1.5Gi", 1536),
        ("1Mi", 1),
        ("1025Ki", 2),
        ("2G", 1908),
        (1073741824, 1024),
        ("16Ti", MAX_MEMORY_MIB),
    ],
)
def test_memory_quantity_is_read_as_mebibytes_rounded_up(text: str | int, mib: int) -> None:
    assert memory_mib(text) == mib


@pytest.mark.parametrize(
    "text", ["", "m", "1k", "1e3", "-1", "+1", " 1", "1 ", "1\n", "0.0001", "1,5", "١", "0", "0m", "1025", True]
)
def test_bad_cpu_is_named(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        cpu_millis(text)
    assert str(text).strip() in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "Gi", "1g", "1GB", "1gi", "1e9", "-1Gi", "1Gi\n", "0", "1", "1Ki", "1048575", "17Ti", "1Pi"]
)
def test_bad_memory_is_named(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        memory_mib(text)
    assert text.strip() in str(caught.value)


@given(st.integers(1, MAX_CPU_MILLIS))
def test_cpu_written_in_thousandths_or_cores_is_the_same(millis: int) -> None:
    assert cpu_millis(f"{millis}m") == millis
    assert cpu_millis(f"{millis // 1000}.{millis % 1000:03d}") == millis
    assert cpu_cores(f"{millis}m") == max(1, math.ceil(Fraction(millis, 1000)))


@given(st.integers(0, 10**13), st.integers(0, 999), st.sampled_from(sorted(UNITS)))
def test_memory_is_rounded_up_exactly_or_out_of_bounds(whole: int, fraction: int, unit: str) -> None:
    size = (whole + Fraction(fraction, 1000)) * UNITS[unit]
    text = f"{whole}.{fraction:03d}{unit}"
    if 2**20 <= size <= MAX_MEMORY_MIB * 2**20:
        assert memory_mib(text) == math.ceil(size / 2**20)
    else:
        with pytest.raises(QuantityError):
            memory_mib(text)
