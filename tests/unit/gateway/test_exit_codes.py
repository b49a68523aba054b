"""The exit code of a driver whose JVM has ended."""

from __future__ import annotations

import pytest

from sparksql.gateway.main import exit_code_for


@pytest.mark.parametrize(("jvm_code", "code"), [(11, 11), (52, 52), (1, 1), (-9, 137), (-11, 139), (0, 1)])
def test_exit_code_of_a_driver_is_that_of_its_jvm(jvm_code: int, code: int) -> None:
    assert exit_code_for(jvm_code) == code
