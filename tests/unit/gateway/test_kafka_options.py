"""What of Kafka's client configuration SQL may give."""

from __future__ import annotations

import pytest

from sparksql.gateway.sql.kafka_options import problem
from sparksql.gateway.streaming.kafka.options import KafkaTable

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    "options",
    [
        {"kafka.bootstrap.servers": "b:9092", "subscribe": "t", "value.format": "json", "path": "x"},
        {"kafka.bootstrap.servers": "${p:/etc/sparksql:token}"},  # nobody reads it without a provider
        {"KAFKA.Security.Protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"},
        {"kafka.sasl.jaas.config": f'{PLAIN} required username="a b" password="x\\"y;";'},
        {"kafka.sasl.jaas.config": f"  {SCRAM} REQUIRED username=a\n password=b tokenauth=true ; "},
        {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----"},
    ],
)
def test_harmless_kafka_options_are_allowed_without_the_class_naming_them(options: dict[str, str]) -> None:
    assert problem(options, ["spark.sql.*"]) is None


@pytest.mark.parametrize(
    "key",
    [
        "kafka.config.providers",
        "kafka.config.providers.p.class",
        "KAFKA.Config.Providers",
        " kafka.config.providers ",
        "kafka.interceptor.classes",
        "kafka.key.deserializer",
        "kafka.metric.reporters",
        "kafka.partitioner.class",
        "kafka.partition.assignment.strategy",
        "kafka.sasl.client.callback.handler.class",
        "kafka.sasl.kerberos.kinit.cmd",
        "kafka.sasl.login.class",
        "kafka.sasl.oauthbearer.token.endpoint.url",
        "kafka.security.providers",
        "kafka.ssl.engine.factory.class",
        "kafka.ssl.keystore.location",
        "kafka.ssl.provider",
        "kafka.ssl.secure.random.implementation",
        "kafka.ssl.truststore.location",
        "kafka.",
        "kafka.a.key.of.a.later.version",
    ],
)
def test_a_dangerous_kafka_option_is_refused_unless_the_class_names_it(key: str) -> None:
    for allow in ([], ["*"], ["kafka.*"], ["spark.sql.*", key.strip() + "*"]):
        told = problem({"kafka.bootstrap.servers": "b", key: "hidden"}, allow)
        assert told is not None and repr(key) in told and "allow.conf" in told and "hidden" not in told
    if key.strip() != "kafka.":
        assert problem({key: "x"}, [key.strip()]) is None


@pytest.mark.parametrize(
    "jaas",
    [
        "",
        PLAIN,
        f"{PLAIN} required",
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab=/etc/sparksql/token;",
        "com.sun.security.auth.module.JndiLoginModule required user.provider.url=ldap://x group.provider.url=ldap://x;",
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
        f"{PLAIN} required username=a; com.sun.security.auth.module.JndiLoginModule required;",
        f"{PLAIN}X required;",
        f"{PLAIN} required other=a;",
        f'{PLAIN} required username="a\nb";',
        f"/* */ {PLAIN} required;",
        f"{PLAIN} required // \n;",
    ],
)
def test_only_logins_with_user_and_password(jaas: str) -> None:
    told = problem({"kafka.sasl.jaas.config": jaas}, ["*"])
    assert told is not None and "PlainLoginModule or ScramLoginModule" in told
    assert problem({"kafka.sasl.jaas.config": jaas}, ["kafka.sasl.jaas.config"]) is None


@pytest.mark.parametrize(
    ("options", "requests", "bytes_"),
    [
        ({}, "1", "131072"),
        ({"kafka.Max.In.Flight.Requests.Per.Connection": "5"}, "5", "131072"),
        ({"kafka.batch.size": "16384"}, "1", "16384"),
    ],
)
def test_a_producer_sends_one_large_batch_at_a_time_unless_the_table_says_otherwise(
    options: dict[str, str], requests: str, bytes_: str
) -> None:
    servers = {"kafka.bootstrap.servers": "b:9092"}
    table = KafkaTable("t", (), {**servers, **options, "subscribe": "t", "value.format": "json"})
    written = {key.lower(): value for key, value in table.writing().items()}
    expected = {**servers, "kafka.max.in.flight.requests.per.connection": requests, "kafka.batch.size": bytes_}
    assert (len(table.writing()), written) == (len(expected), expected)


@pytest.mark.parametrize(
    ("options", "wait"),
    [({}, "20"), ({"kafka.fetch.max.wait.ms": "200"}, "200"), ({"Kafka.Fetch.Max.Wait.Ms": "0"}, "0")],
)
def test_consumers_do_not_wait_for_records_that_a_batch_does_not_read(options: dict[str, str], wait: str) -> None:
    given = {"kafka.bootstrap.servers": "b:9092", "subscribe": "t", **options}
    read = {
        key.lower(): value for key, value in KafkaTable("t", (), {**given, "value.format": "json"}).reading().items()
    }
    assert read == {"kafka.bootstrap.servers": "b:9092", "subscribe": "t", "kafka.fetch.max.wait.ms": wait}
