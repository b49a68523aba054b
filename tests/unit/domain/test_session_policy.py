"""What a class lets a session ask for, and the sizes that come of it; a violation names field, value and remedy."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.reasons import Reason
from sparksql.api.session_class import LabelSelector
from sparksql.api.settings import SessionSettings
from sparksql.domain.session.resolve import Resolved, database_name, matches, resolve, selects
from sparksql.domain.violation import Violation
from tests.support.mistakes import assert_answered
from tests.unit.domain.builders.classes import session_class
from tests.unit.domain.builders.sessions import session


def asked(
    klass: dict[str, Any] | None = None, labels: dict[str, str] | None = None, **spec: Any
) -> Resolved | Violation:
    return resolve(session(**spec), session_class(**(klass or {})), labels or {}, SessionSettings())


def allowed(klass: dict[str, Any] | None = None, labels: dict[str, str] | None = None, **spec: Any) -> Resolved:
    made = asked(klass, labels, **spec)
    assert isinstance(made, Resolved), made
    return made


def refused(klass: dict[str, Any] | None = None, labels: dict[str, str] | None = None, **spec: Any) -> Violation:
    made = asked(klass, labels, **spec)
    assert isinstance(made, Violation), made
    return made


def test_a_session_without_wishes_is_what_its_class_offers() -> None:
    effective = allowed({"serviceAccount": {"name": "drivers"}, "enforcedConf": {"spark.a": "1"}}).effective
    assert (effective.image, effective.class_name) == ("registry.example/session:1", "standard")
    assert (effective.service_account, effective.create_service_account) == ("drivers", True)
    assert effective.enforced_conf == {"spark.a": "1"}
    assert (effective.driver.cores, effective.driver.heap_mib, effective.driver.pod_mib) == (1, 1024, 1024 + 384 + 600)


# --- database


@pytest.mark.parametrize(
    ("klass", "session_", "name"),
    [
        (None, None, ""),
        ("{namespace}", None, "team_a"),
        ("{namespace}", "sales", "sales"),
        ("{namespace}", "", ""),
        (None, "x_{namespace}_2", "x_team_a_2"),
    ],
)
def test_database_comes_from_the_last_layer_with_the_namespace_filled_in(
    klass: str | None, session_: str | None, name: str
) -> None:
    spec = {} if session_ is None else {"database": session_}
    made = allowed({} if klass is None else {"defaults": {"database": klass}}, **spec)
    assert made.effective.database == name
    assert [entry.value for entry in made.configuration if entry.name == "database"] == [name]


@given(st.lists(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True), min_size=2, unique=True))
def test_no_two_namespaces_share_a_database(namespaces: list[str]) -> None:
    names = {database_name("{namespace}", namespace) for namespace in namespaces}
    assert len(names) == len(namespaces)
    assert all(re.fullmatch(r"\w+", name, re.ASCII) for name in names)


# --- namespaces


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        ({}, {}, True),
        ({"matchLabels": {"team": "a"}}, {"team": "a", "x": "y"}, True),
        ({"matchLabels": {"team": "a"}}, {"team": "b"}, False),
        ({"matchLabels": {"team": ""}}, {}, False),
        ({"matchExpressions": [{"key": "k", "operator": "In", "values": ["1", "2"]}]}, {"k": "2"}, True),
        ({"matchExpressions": [{"key": "k", "operator": "In", "values": ["1"]}]}, {}, False),
        ({"matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["1"]}]}, {"k": "1"}, False),
        ({"matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["1"]}]}, {}, True),
        ({"matchExpressions": [{"key": "k", "operator": "Exists"}]}, {"k": ""}, True),
        ({"matchExpressions": [{"key": "k", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "k", "operator": "DoesNotExist"}]}, {"k": ""}, False),
        ({"matchExpressions": [{"key": "k", "operator": "DoesNotExist"}]}, {}, True),
        (
            {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]},
            {"a": "1"},
            False,
        ),
    ],
)
def test_namespaces_are_chosen_by_label(selector: dict[str, Any], labels: dict[str, str], selected: bool) -> None:
    assert selects(LabelSelector.parse(selector), labels) is selected
    made = asked({"allow": {"namespaces": selector}}, labels)
    assert isinstance(made, Resolved) is selected
    if isinstance(made, Violation):
        assert made.reason is Reason.NOT_ALLOWED
        assert "namespace team-a" in made.message and "spec.className" in made.message


# --- images, service accounts, conf


@pytest.mark.parametrize(
    ("image", "is_allowed"),
    [
        ("registry.example/session:1", True),
        ("registry.example/other:2", True),
        ("team.example/any:3", True),
        ("registry.example/session:2", False),
        ("registry.example/other:2-evil", False),
        ("x/team.example/any:3", False),
    ],
)
def test_session_image_is_allowed_only_if_its_class_offers_or_allows_it(image: str, is_allowed: bool) -> None:
    made = asked({"allow": {"images": ["registry.example/other:2", "team.example/*"]}}, image=image)
    if is_allowed:
        assert isinstance(made, Resolved)
        assert made.effective.image == image
    else:
        assert isinstance(made, Violation)
        assert made.reason is Reason.NOT_ALLOWED
        assert f"spec.image: {image}" in made.message
        assert_answered("image that the class does not allow", made.message)


@given(st.text(max_size=8), st.text(max_size=8))
def test_a_pattern_is_exact_or_a_prefix(pattern: str, value: str) -> None:
    assert matches(f"{value}*", value + pattern)
    assert matches(pattern, value) is (value.startswith(pattern[:-1]) if pattern[-1:] == "*" else value == pattern)


def test_service_account_is_allowed_only_if_its_class_lists_it() -> None:
    klass = {"allow": {"serviceAccounts": ["etl"]}}
    made = allowed(klass, serviceAccountName="etl").effective
    assert (made.service_account, made.create_service_account) == ("etl", False)
    assert allowed(klass, serviceAccountName="spark").effective.create_service_account
    violation = refused(klass, serviceAccountName="admin")
    assert violation.reason is Reason.NOT_ALLOWED
    assert "spec.serviceAccountName: admin" in violation.message and "etl, spark" in violation.message
    assert_answered("account that the class does not allow", violation.message)


@pytest.mark.parametrize(
    ("key", "patterns", "is_allowed"),
    [
        ("spark.sql.shuffle.partitions", ["spark.sql.*"], True),
        ("spark.executor.memoryOverhead", ["spark.executor.memoryOverhead*"], True),
        ("spark.executor.heartbeatInterval", ["spark.sql.*"], False),
        ("spark.sql.ansi.enabled", [], False),
        ("spark.kubernetes.namespace", ["*"], False),
        ("Spark.Kubernetes.Namespace", ["*"], False),
        ("spark.master", ["spark.master"], False),
        ("spark.driver.memory", ["*"], False),
    ],
)
def test_conf_key_is_allowed_only_if_its_class_lists_it(key: str, patterns: list[str], is_allowed: bool) -> None:
    made = asked({"allow": {"conf": patterns}}, conf={key: "1"})
    if is_allowed:
        assert isinstance(made, Resolved)
        assert made.effective.conf == {key: "1"}
    else:
        assert isinstance(made, Violation)
        assert made.reason is Reason.NOT_ALLOWED
        assert repr(key) in made.message


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("spark.executor.memory", "set spec.executors.memory of the session instead"),
        ("spark.master", "; remove it"),
        ("spark.sql.shufle.partitions", "did you mean 'spark.sql.shuffle.partitions'?"),
        ("spark.executor.heartbeatInterval", "; remove it"),
    ],
)
def test_refusal_of_a_conf_key_has_its_remedy(key: str, remedy: str) -> None:
    made = asked({"allow": {"conf": ["spark.sql.*"]}}, conf={key: "1"})
    assert isinstance(made, Violation)
    assert remedy in made.message


def test_the_class_is_not_held_to_its_own_policy() -> None:
    klass = {"allow": {"conf": []}, "defaults": {"conf": {"spark.ui.enabled": "false"}}}
    assert allowed(klass).effective.conf == {"spark.ui.enabled": "false"}


# --- endpoints, settings of the gateway


@pytest.mark.parametrize(
    ("klass", "spec", "on"),
    [
        ({}, {}, (True, False, False)),
        ({}, {"connect": True}, (True, True, False)),
        ({}, {"rest": False, "thrift": True}, (False, False, True)),
        ({"rest": False, "connect": True}, {"connect": False}, (False, False, False)),
    ],
)
def test_session_endpoints_are_merged_over_the_defaults_of_the_class(
    klass: dict[str, bool], spec: dict[str, bool], on: tuple[bool, bool, bool]
) -> None:
    endpoints = allowed({"defaults": {"endpoints": klass}}, endpoints=spec).effective.endpoints
    assert (endpoints.rest, endpoints.connect, endpoints.thrift) == on


MAX, LEAST, MOST = (
    f"spark.sql.gateway.{key}" for key in ("session.max-num", "worker.threads.min", "worker.threads.max")
)
WRONG = {MAX: "many"}


@pytest.mark.parametrize(
    ("klass", "spec", "field", "fits"),
    [
        ({}, WRONG, "spec.conf", "'many' is invalid; it must be a whole number"),
        ({"defaults": {"conf": WRONG}}, {}, "spec.defaults.conf of class standard", "a whole number"),
        ({"enforcedConf": WRONG}, {MAX: "1"}, "spec.enforcedConf of class standard", "a whole number"),
        ({}, {"spark.sql.gateway.session.maximum": "1"}, "spec.conf", MAX),
        ({}, {LEAST: "501"}, "spec.conf", f"{MOST}: 500 is less than 1 or than {LEAST} (501)"),
        ({"defaults": {"conf": {LEAST: "20"}}}, {MOST: "10"}, "spec.conf", f"{MOST}: 10"),
    ],
)
def test_a_setting_that_the_gateway_would_not_take_is_refused_in_the_layer_that_says_it(
    klass: dict[str, Any], spec: dict[str, str], field: str, fits: str
) -> None:
    violation = refused(klass, conf=spec)
    assert violation.reason is Reason.INVALID_SPEC
    assert violation.message.startswith(f"{field}: spark.sql.gateway.")
    assert fits in violation.message
    if fits.startswith("'many'"):
        assert_answered("conf value that does not fit", violation.message)


@pytest.mark.parametrize(
    ("klass", "spec"),
    [
        ({}, {MAX: "3", "spark.sql.gateway.session.idle-timeout": "5 min"}),
        ({"defaults": {"conf": WRONG}}, {MAX: "3"}),  # only what is in force must fit
        ({"defaults": {"conf": {LEAST: "1"}}}, {MOST: "2"}),
    ],
)
def test_settings_of_the_gateway_are_taken_as_they_are_merged(klass: dict[str, Any], spec: dict[str, str]) -> None:
    assert spec.items() <= allowed(klass, conf=spec).effective.conf.items()


# --- sizes and limits

LIMITS = {
    "limits": {"driver": {"cpu": "2", "memory": "4Gi"}, "executors": {"instances": 5, "cpu": "2", "memory": "4Gi"}}
}


@pytest.mark.parametrize(
    ("field", "spec", "limit"),
    [
        ("spec.driver.cpu", {"driver": {"cpu": "2001m"}}, "2"),
        ("spec.driver.memory", {"driver": {"memory": "4097Mi"}}, "4Gi"),
        ("spec.executors.cpu", {"executors": {"cpu": "2.5"}}, "2"),
        ("spec.executors.memory", {"executors": {"memory": "5Gi"}}, "4Gi"),
        ("spec.executors.instances", {"executors": {"instances": 6}}, "5"),
        ("spec.executors.max", {"executors": {"max": 6}}, "5"),
    ],
)
def test_a_size_beyond_its_limit_is_refused_not_cut(field: str, spec: dict[str, Any], limit: str) -> None:
    violation = refused(LIMITS, **spec)
    assert violation.reason is Reason.LIMIT_EXCEEDED
    assert violation.message.startswith(f"{field}: ")
    assert f"reduce it to {limit} or less" in violation.message
    if field == "spec.executors.memory":
        assert_answered("more memory than the class allows", violation.message)


def test_a_size_at_its_limit_is_given() -> None:
    made = allowed(
        LIMITS,
        driver={"cpu": "2000m", "memory": "4096Mi"},
        executors={"min": 0, "max": 5, "cpu": "2", "memory": "4Gi"},
    ).effective
    assert made.driver.pod_mib == 4096 + 409 + 600
    assert (made.executors.dynamic, made.executors.instances) == ((0, 5), 0)


def test_a_fixed_number_of_executors_is_not_dynamic() -> None:
    executors = allowed(executors={"instances": 3, "cpu": "1500m"}).effective.executors
    assert (executors.instances, executors.dynamic, executors.cores, executors.cpu) == (3, None, 2, "1500m")


def test_cpu_limits_reach_driver_and_executors() -> None:
    made = allowed(driver={"cpuLimit": "2"}, executors={"cpu": "1", "cpuLimit": "1500m"}).effective
    assert (made.driver.cpu_limit, made.executors.cpu_limit) == ("2", "1500m")
    made = allowed().effective
    assert (made.driver.cpu_limit, made.executors.cpu_limit) == ("", "")


@pytest.mark.parametrize("part", ["driver", "executors"])
def test_cpu_limit_below_the_request_is_refused_with_both_values(part: str) -> None:
    violation = refused(**{part: {"cpu": "2", "cpuLimit": "1500m"}})
    assert violation.reason is Reason.INVALID_SPEC
    assert violation.message == (
        f"spec.{part}.cpuLimit: 1500m is less than spec.{part}.cpu (2); raise cpuLimit, or reduce cpu"
    )


@given(st.integers(1, 100_000), st.integers(1, 64_000))
def test_a_driver_pod_has_room_for_heap_overhead_and_python(heap: int, millis: int) -> None:
    driver = allowed(driver={"memory": f"{heap}Mi", "cpu": f"{millis}m"}).effective.driver
    assert driver.heap_mib == heap
    assert driver.pod_mib == heap + max(384, heap // 10) + 600
    assert driver.cpu == f"{millis}m"
    assert driver.cores == max(1, -(-millis // 1000))
