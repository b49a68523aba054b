"""What an executor's pod asks for counts against the class's limit, whatever key says so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.reasons import Reason
from sparksql.api.settings import SessionSettings
from sparksql.domain.session.memory import (
    CLUSTER_FACTOR,
    FACTOR,
    KEYS,
    MIN_OVERHEAD,
    OFF_HEAP,
    OFF_HEAP_SIZE,
    OVERHEAD,
    PYTHON,
    InvalidSize,
    pod_mib,
)
from sparksql.domain.session.resolve import Resolved, resolve
from sparksql.domain.violation import Violation
from tests.unit.domain.builders.classes import session_class
from tests.unit.domain.builders.sessions import session

GIB = 1024
LIMITED: dict[str, Any] = {"limits": {"executors": {"memory": "8Gi"}}, "allow": {"conf": list(KEYS)}}


def asked(heap: str, conf: dict[str, str], klass: dict[str, Any] | None = None) -> Resolved | Violation:
    spec = {"executors": {"memory": heap}, "conf": conf}
    return resolve(session(**spec), session_class(**{**LIMITED, **(klass or {})}), {}, SessionSettings())


@pytest.mark.parametrize(
    ("heap", "conf", "pod"),
    [
        (1 * GIB, {}, 1408),
        (8 * GIB, {}, 8192 + 819),
        (1 * GIB, {OVERHEAD: "2g"}, 3 * GIB),
        (1 * GIB, {OVERHEAD: "2048"}, 3 * GIB),
        (1 * GIB, {OVERHEAD: "1 g".replace(" ", ""), FACTOR: "9"}, 2 * GIB),
        (1 * GIB, {FACTOR: "1.5"}, 1024 + 1536),
        (1 * GIB, {CLUSTER_FACTOR: "0.5"}, 1536),
        (1 * GIB, {CLUSTER_FACTOR: "9", FACTOR: "0.5"}, 1536),
        (1 * GIB, {MIN_OVERHEAD: "1g"}, 2 * GIB),
        (1 * GIB, {MIN_OVERHEAD: "0"}, 1024 + 102),
        (1 * GIB, {OFF_HEAP_SIZE: "1g"}, 1408),
        (1 * GIB, {OFF_HEAP: "TRUE", OFF_HEAP_SIZE: "1g"}, 2432),
        (1 * GIB, {OFF_HEAP: "true", OFF_HEAP_SIZE: str(1 << 30)}, 2432),
        (1 * GIB, {PYTHON: "512mb"}, 1920),
        (1 * GIB, {PYTHON: "1"}, 1409),
    ],
)
def test_executor_pod_memory_is_computed_as_spark_does(heap: int, conf: dict[str, str], pod: int) -> None:
    assert pod_mib(heap, conf) == pod


@pytest.mark.parametrize("value", ["61GiB", "1e3", "1.5g", "-1", "", "g", "0x1", "1 000", "\u0663g", "9" * 30])
@pytest.mark.parametrize("key", [OVERHEAD, MIN_OVERHEAD, PYTHON])
def test_a_size_that_spark_would_not_take_is_told(key: str, value: str) -> None:
    made = asked("1Gi", {key: value})
    assert isinstance(made, Violation)
    assert made.reason is Reason.INVALID_SPEC
    assert made.message.startswith(f"spec.conf: {key}: {value!r}"), made.message
    assert "512m" in made.message


@pytest.mark.parametrize(
    ("conf", "fits"),
    [
        ({FACTOR: "0"}, "above 0"),
        ({FACTOR: "NaN"}, "above 0"),
        ({FACTOR: "1e9"}, "above 0"),
        ({FACTOR: "-0.5"}, "above 0"),
        ({OFF_HEAP: "yes"}, "true or false"),
        ({OFF_HEAP: "true", OFF_HEAP_SIZE: "1.5g"}, "512m"),
    ],
)
def test_invalid_memory_factor_or_off_heap_conf_is_refused_with_what_fits(conf: dict[str, str], fits: str) -> None:
    made = asked("1Gi", conf)
    assert isinstance(made, Violation)
    assert made.reason is Reason.INVALID_SPEC and fits in made.message


@pytest.mark.parametrize(
    "conf",
    [
        {OVERHEAD: "53g"},
        {FACTOR: "6.6"},
        {MIN_OVERHEAD: "53g"},
        {OFF_HEAP: "true", OFF_HEAP_SIZE: "53g"},
        {PYTHON: "53g"},
        {OVERHEAD: "820m"},
    ],
)
def test_a_pod_beyond_that_of_the_largest_heap_is_refused(conf: dict[str, str]) -> None:
    made = asked("8Gi", conf)
    assert isinstance(made, Violation), made
    assert made.reason is Reason.LIMIT_EXCEEDED
    pod = pod_mib(8 * GIB, conf)
    for told in ("spec.conf", *conf, f"{pod}Mi", "9011Mi", "8Gi", f"request {pod - 9011}Mi less"):
        assert told in made.message, (told, made.message)


@pytest.mark.parametrize(
    ("heap", "conf"),
    [
        ("8Gi", {}),
        ("8Gi", {OVERHEAD: "819m"}),
        ("4Gi", {OVERHEAD: "4g"}),
        ("1Gi", {OFF_HEAP: "true", OFF_HEAP_SIZE: "7g"}),
    ],
)
def test_executor_pod_within_the_memory_limit_of_the_class_is_allowed(heap: str, conf: dict[str, str]) -> None:
    assert isinstance(asked(heap, conf), Resolved)


def test_without_a_limit_only_the_values_are_checked() -> None:
    unlimited: dict[str, Any] = {"limits": {}}
    assert isinstance(asked("8Gi", {OVERHEAD: "53g"}, unlimited), Resolved)
    assert isinstance(asked("8Gi", {OVERHEAD: "53 g"}, unlimited), Violation)


@pytest.mark.parametrize("where", ["defaults", "enforcedConf"])
def test_memory_overhead_set_by_the_class_does_not_count_against_its_limit(where: str) -> None:
    adds = {FACTOR: "0.4"}
    klass = {where: adds if where == "enforcedConf" else {"conf": adds}}
    assert isinstance(asked("8Gi", {}, klass), Resolved)
    assert isinstance(asked("8Gi", {PYTHON: "1g"}, klass), Violation)
    assert isinstance(asked("6Gi", {PYTHON: "1g"}, klass), Resolved)
    made = asked("8Gi", {FACTOR: "0.5"}, klass)
    assert isinstance(made, Violation if where == "defaults" else Resolved)


SIZES = st.builds("{}{}".format, st.integers(0, 70_000), st.sampled_from(["", "m", "MB", "k", "g"]))
CONFS = st.fixed_dictionaries(
    {},
    optional={
        OVERHEAD: SIZES,
        MIN_OVERHEAD: SIZES,
        PYTHON: SIZES,
        OFF_HEAP_SIZE: SIZES,
        FACTOR: st.decimals(0, 20, places=2).map(str),
        OFF_HEAP: st.sampled_from(["true", "false", "True"]),
    },
)


@given(heap=st.integers(256, 9000), own=CONFS, platform=CONFS)
def test_no_allowed_conf_makes_a_pod_beyond_the_bound(heap: int, own: dict[str, str], platform: dict[str, str]) -> None:
    klass = {"enforcedConf": platform}
    try:
        bound = pod_mib(8 * GIB, platform)
    except InvalidSize:
        return
    made = asked(f"{heap}Mi", own, klass)
    if isinstance(made, Resolved):
        effective = made.effective
        assert pod_mib(effective.executors.memory_mib, {**effective.conf, **effective.enforced_conf}) <= bound
    else:
        assert made.reason in (Reason.LIMIT_EXCEEDED, Reason.INVALID_SPEC)
