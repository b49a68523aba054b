"""Settings of the gateway: what each key takes, and a refusal that names key, value and what fits."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.gateway_settings import KEYS, PREFIX, GatewaySettings, InvalidSetting, parse


def test_defaults_without_any_key_and_with_keys_of_spark() -> None:
    assert parse({}) == parse({"spark.sql.shuffle.partitions": "many"}) == GatewaySettings()


@pytest.mark.parametrize(
    ("key", "text", "field", "value"),
    [
        ("session.max-num", " 7 ", "session_max_num", 7),
        ("session.idle-timeout", "0", "session_idle_timeout", 0.0),
        ("session.idle-timeout", "10 min", "session_idle_timeout", 600.0),
        ("session.check-interval", "1500ms", "session_check_interval", 1.5),
        ("session.share-views", "TRUE", "session_share_views", True),
        ("session.result.max-size", "1g", "session_result_max_size", 1 << 30),
        ("result.max-size", "512", "result_max_size", 512),
        ("worker.threads.keepalive-time", "2h", "worker_threads_keepalive_time", 7200.0),
        ("rest.versions", "v2, V1", "rest_versions", ("V1", "V2")),
    ],
)
def test_gateway_setting_with_a_fitting_value_is_taken(key: str, text: str, field: str, value: object) -> None:
    assert asdict(parse({PREFIX + key: text}))[field] == value


@pytest.mark.parametrize(
    ("key", "text", "fits"),
    [
        ("session.max-num", "-1", "a whole number"),
        ("session.max-num", "1.5", "a whole number"),
        ("session.idle-timeout", "10", "a number with a unit"),
        ("session.idle-timeout", "10 fortnights", "a number with a unit"),
        ("session.check-interval", "0", "at least 1s"),
        ("session.share-views", "yes", "true or false"),
        ("result.max-size", "big", "a number of bytes"),
        ("rest.versions", "V9", "V1,V2,V3,V4"),
        ("rest.versions", "", "V1,V2,V3,V4"),
        ("worker.threads.max", "0", "is less than 1"),
        ("session.maximum", "1", "no such setting"),
    ],
)
def test_gateway_setting_with_an_unfit_value_is_named(key: str, text: str, fits: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        parse({PREFIX + key: text})
    assert PREFIX + key in refused.value.keys
    assert str(refused.value).startswith(f"{PREFIX}{key}: ")
    assert fits in str(refused.value)


@given(st.dictionaries(st.sampled_from(KEYS), st.text(max_size=12)))
def test_any_text_is_taken_or_refused(conf: dict[str, str]) -> None:
    try:
        settings = parse(conf)
    except InvalidSetting as refused:
        named = set(refused.keys)
    else:
        assert 1 <= settings.worker_threads_max >= settings.worker_threads_min
        return
    assert named & conf.keys()
