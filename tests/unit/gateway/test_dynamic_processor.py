"""What Python's workers run of CUMULATE with GAP: how parts become one, and that workers need nothing of this package."""

from __future__ import annotations

import base64
import math
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import LongType, StructField, StructType

from sparksql.gateway.windowing import dynamic_stream
from sparksql.gateway.windowing.dynamic_processor import ADD, DISTINCT, GREATEST, LEAST, Curves, merged

MOST = Decimal("9" * 38)
WORKER = """
import base64, pickle, sys
sys.modules["sparksql"] = None  # any import of it fails
found = pickle.loads(base64.b64decode(sys.stdin.read()))
print(type(found).__name__, found._timer.__func__.__globals__["merged"]("add", 1, 2))
"""


@pytest.mark.parametrize(
    ("merge", "total", "part", "expected"),
    [
        (ADD, 1, 2, 3),
        (ADD, None, 2, 2),
        (ADD, 1, None, 1),
        (ADD, None, None, None),
        (ADD, MOST, MOST, 2 * int(MOST)),
        (DISTINCT, 4, 0, 4),
        (LEAST, "b", "a", "a"),
        (LEAST, math.nan, 1.0, 1.0),
        (GREATEST, True, False, True),
        (GREATEST, None, 0.5, 0.5),
    ],
)
def test_parts_of_two_panes_become_one_as_sql_has_it(merge: str, total: Any, part: Any, expected: Any) -> None:
    assert merged(merge, total, part) == expected


def test_the_greatest_of_floats_is_nan_in_any_order() -> None:
    assert math.isnan(merged(GREATEST, math.nan, 1.0))
    assert math.isnan(merged(GREATEST, 1.0, math.nan))


def test_a_worker_without_this_package_can_read_the_processor() -> None:
    assert dynamic_stream.OPERATOR  # importing it has the module go by value
    state = StructType([StructField("n", LongType())])
    text = base64.b64encode(CloudPickleSerializer().dumps(Curves(1, 2, ("k",), (("n", ADD),), state)))
    worker = subprocess.run(
        [sys.executable, "-c", WORKER], input=text.decode(), capture_output=True, text=True, check=False
    )
    assert worker.stdout.split() == ["Curves", "3"], worker.stderr
