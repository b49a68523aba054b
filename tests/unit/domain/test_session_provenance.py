"""Where each value of a session's configuration is from: the strongest layer that says it, and nothing is left out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.conf_policy import REDACTED
from sparksql.api.session import ConfigurationLayer as Layer
from sparksql.api.settings import SessionSettings
from sparksql.domain.session.configuration_layers import configuration, merge
from tests.unit.domain.test_session_configuration_layers import LAYERS

NAMES = (Layer.OPERATOR, Layer.CLASS, Layer.SESSION)


def leaves(value: Any, path: str = "") -> dict[str, str]:
    if not isinstance(value, dict):
        return {path: str(value).lower() if isinstance(value, bool) else str(value)}
    found: dict[str, str] = {}
    for name, inner in value.items():
        found |= leaves(inner, f"{path}.{name}" if path else name)
    return found


@given(st.tuples(LAYERS, LAYERS, LAYERS))
def test_every_value_in_force_is_told_with_the_last_layer_that_says_it(
    layers: tuple[SessionSettings, SessionSettings, SessionSettings],
) -> None:
    told = configuration(list(zip(NAMES, layers, strict=True)), {})
    assert {entry.name: entry.value for entry in told} == leaves(merge(*layers).to_dict())
    for entry in told:
        said_by = [
            name
            for name, layer in zip(NAMES, layers, strict=True)
            if leaves(layer.to_dict()).get(entry.name) is not None
        ]
        assert entry.layer is said_by[-1]
        assert leaves(layers[NAMES.index(entry.layer)].to_dict())[entry.name] == entry.value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net", "hush"),
        ("spark.hadoop.fs.azure.sas.container.lake", "hush"),
        ("spark.hadoop.fs.s3a.encryption.key", "hush"),
        ("spark.hadoop.fs.gs.auth.service.account.private.key", "hush"),
        ("spark.sql.catalog.pg.url", "jdbc:postgresql://db/x?user=a&password=hush"),
        ("spark.sql.catalog.k.sasl.jaas.config", "hush"),
    ],
)
def test_secrets_are_known_by_key_or_value(key: str, value: str) -> None:
    assert [entry.value for entry in configuration([(Layer.CLASS, SessionSettings(conf={key: value}))], {})] == [
        REDACTED
    ]


def test_conf_value_whose_key_only_resembles_a_secret_is_shown() -> None:
    conf = {"spark.hadoop.fs.s3a.aws.credentials.provider": "org.x.Provider", "spark.sql.keywords": "keys"}
    told = configuration([(Layer.CLASS, SessionSettings(conf=conf))], {})
    assert {entry.name.removeprefix("conf."): entry.value for entry in told} == conf


def test_enforced_conf_of_the_class_wins_and_secrets_are_redacted() -> None:
    session = SessionSettings(conf={"spark.sql.a": "1", "spark.hadoop.fs.s3a.secret.key": "hush"})
    told = configuration([(Layer.SESSION, session)], {"spark.sql.a": "2", "spark.my.Token": "hush"})
    assert [(entry.name, entry.value, entry.layer) for entry in told] == [
        ("conf.spark.hadoop.fs.s3a.secret.key", REDACTED, Layer.SESSION),
        ("conf.spark.my.Token", REDACTED, Layer.ENFORCED),
        ("conf.spark.sql.a", "2", Layer.ENFORCED),
    ]
