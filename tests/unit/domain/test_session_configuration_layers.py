"""Configuration layers: later wins, field by field and key by key; what a layer does not say never hides the one below."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.settings import SessionSettings
from sparksql.domain.session.configuration_layers import OPERATOR_DEFAULTS, merge

SMALL = st.integers(1, 5)
EXECUTORS = st.one_of(
    st.fixed_dictionaries({}, optional={"cpu": st.sampled_from(["1", "2"]), "instances": SMALL}),
    st.fixed_dictionaries({"max": st.integers(5, 9)}, optional={"min": SMALL}),
)
LAYERS = st.fixed_dictionaries(
    {},
    optional={
        "driver": st.fixed_dictionaries(
            {}, optional={"cpu": st.sampled_from(["1", "2"]), "memory": st.sampled_from(["1Gi", "2Gi"])}
        ),
        "executors": EXECUTORS,
        "conf": st.dictionaries(
            st.sampled_from(["spark.sql.a", "spark.sql.b", "spark.sql.c"]), st.text("xy", max_size=2)
        ),
        "idle": st.fixed_dictionaries(
            {}, optional={"timeoutSeconds": st.integers(0, 9), "action": st.sampled_from(["Hibernate", "Close"])}
        ),
        "statementTimeouts": st.fixed_dictionaries(
            {}, optional={"queueSeconds": st.integers(0, 9), "executionSeconds": st.integers(0, 9)}
        ),
        "database": st.sampled_from(["", "{namespace}", "sales"]),
        "maxLifetimeSeconds": st.integers(0, 9),
        "maxConcurrentStatements": SMALL,
        "maxQueuedStatements": st.integers(0, 9),
        "endpoints": st.fixed_dictionaries({}, optional={"rest": st.booleans(), "thrift": st.booleans()}),
    },
).map(SessionSettings.parse)


def merged(*layers: dict[str, Any]) -> dict[str, Any]:
    return merge(*(SessionSettings.parse(layer) for layer in layers)).to_dict()


def said(layer: SessionSettings) -> dict[tuple[str, str], Any]:
    """Each value that the layer sets, by its path; executors' number and range are one choice and left out."""
    values = {}
    for field, value in layer.to_dict().items():
        for key, inner in value.items() if isinstance(value, dict) else [("", value)]:
            if key not in ("instances", "min", "max"):
                values[field, key] = inner
    return values


@given(LAYERS)
def test_a_silent_layer_changes_nothing(layer: SessionSettings) -> None:
    silent = SessionSettings()
    assert merge(layer, silent).to_dict() == merge(silent, layer).to_dict() == merge(layer).to_dict()
    assert said(merge(layer)) == said(layer)


@given(LAYERS, LAYERS, LAYERS)
def test_layers_may_be_merged_in_groups(one: SessionSettings, two: SessionSettings, three: SessionSettings) -> None:
    assert said(merge(merge(one, two), three)) == said(merge(one, two, three)) == said(merge(one, merge(two, three)))


@given(st.lists(LAYERS, min_size=1, max_size=4))
def test_the_last_word_on_each_value_holds(layers: list[SessionSettings]) -> None:
    last: dict[tuple[str, str], Any] = {}
    for layer in layers:
        last |= said(layer)
    assert said(merge(*layers)) == last


@given(st.lists(LAYERS, min_size=1, max_size=4))
def test_a_number_of_executors_is_never_mixed_with_a_range(layers: list[SessionSettings]) -> None:
    executors = merge(OPERATOR_DEFAULTS, *layers).executors
    assert executors is not None
    assert (executors.instances is None) != (executors.max is None and executors.min is None)


def test_number_and_range_of_executors_replace_each_other() -> None:
    fixed, ranged = {"executors": {"instances": 2, "cpu": "2"}}, {"executors": {"min": 1, "max": 4}}
    assert merged(fixed, ranged)["executors"] == {"min": 1, "max": 4, "cpu": "2"}
    assert merged(ranged, fixed)["executors"] == {"instances": 2, "cpu": "2"}
    assert merged(ranged, {"executors": {"max": 9}})["executors"] == {"min": 1, "max": 9}


def test_zero_and_false_are_words_too() -> None:
    below = {"idle": {"timeoutSeconds": 9}, "maxLifetimeSeconds": 9, "endpoints": {"rest": True}}
    above = {"idle": {"timeoutSeconds": 0}, "maxLifetimeSeconds": 0, "endpoints": {"rest": False}}
    assert merged(below, above) == merged(above)


def test_operator_defaults_leave_nothing_open() -> None:
    defaults = OPERATOR_DEFAULTS.to_dict()
    assert set(defaults) | {"conf"} == set(SessionSettings().model_dump(by_alias=True))
    assert defaults["idle"] == {"timeoutSeconds": 300, "action": "Hibernate", "restoreState": False}
    assert defaults["statementTimeouts"] == {"queueSeconds": 0, "executionSeconds": 0}
