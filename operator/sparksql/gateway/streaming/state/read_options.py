"""Options that a table is read with: those that say what its rows are, by a digest of their values.

The lists below are what is understood not to be among them. Any other option counts, also one that nobody has thought of.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from sparksql.gateway.spark.scala import elements

# All names in lower case. Where a table lies is told by its identity.
_PLACE = frozenset({"path", "paths"})
# Who reads: credentials of the connectors in the images, and of JDBC.
_CREDENTIALS = frozenset({"user", "password", "token", "username"})
# How much of a stream a batch takes, from where on it begins, and what becomes of files that are read.
_PACE = frozenset(
    {
        *("maxfilespertrigger", "maxbytespertrigger", "maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay"),
        *("maxrecordspertrigger", "streaming-max-files-per-micro-batch", "streaming-max-rows-per-micro-batch"),
        *("latestfirst", "maxfileage", "maxcachedfiles", "discardcachedinputratio", "cleansource", "sourcearchivedir"),
        *("startingoffsets", "startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy", "startingtimestamp"),
        *("startingversion", "stream-from-timestamp", "minpartitions", "maxrecordsperpartition", "groupidprefix"),
        *("kafka.group.id", "fetchoffset.numretries", "fetchoffset.retryintervalms", "kafkaconsumer.polltimeoutms"),
    }
)  # fmt: skip
# How a client of Kafka reaches its brokers, proves who it is, and how much it fetches at once. Not what it reads there, such as
# kafka.isolation.level. Names of Kafka's ConsumerConfig.
_KAFKA = frozenset(
    f"kafka.{name}"
    for name in (
        *("bootstrap.servers", "client.dns.lookup", "client.id", "client.rack", "security.protocol", "security.providers"),
        *("sasl.mechanism", "sasl.jaas.config", "sasl.client.callback.handler.class", "sasl.login.callback.handler.class"),
        *("sasl.login.class", "sasl.kerberos.service.name", "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin"),
        *("sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor", "sasl.login.connect.timeout.ms"),
        *("sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds"),
        *("sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.max.ms"),
        *("sasl.login.retry.backoff.ms", "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope.claim.name"),
        *("sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.expected.audience"),
        *("sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.clock.skew.seconds", "sasl.token.auth"),
        *("ssl.protocol", "ssl.provider", "ssl.cipher.suites", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm"),
        *("ssl.key.password", "ssl.keymanager.algorithm", "ssl.keystore.certificate.chain", "ssl.keystore.key"),
        *("ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.secure.random.implementation"),
        *("ssl.trustmanager.algorithm", "ssl.truststore.certificates", "ssl.truststore.location"),
        *("ssl.truststore.password", "ssl.truststore.type", "ssl.engine.factory.class"),
        *("connections.max.idle.ms", "default.api.timeout.ms", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes"),
        *("heartbeat.interval.ms", "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records"),
        *("metadata.max.age.ms", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms"),
        *("request.timeout.ms", "retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes", "session.timeout.ms"),
        *("socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms", "check.crcs"),
    )
)  # fmt: skip
# How a client of an object store proves who it is, and how many connections it holds; the store itself is in the path. With
# the prefix of Hadoop's settings or without, and for one bucket or for all.
_STORE = re.compile(
    r"(?:spark\.hadoop\.)?fs\.s3a\.(?:bucket\.[a-z0-9.-]+\.)?(?:access\.key|secret\.key|session\.token|aws\.credentials\.provider"
    r"|connection\.maximum|connection\.timeout|connection\.establish\.timeout|connection\.request\.timeout|threads\.max"
    r"|attempts\.maximum|retry\.limit|retry\.interval|path\.style\.access|connection\.ssl\.enabled|readahead\.range)"
    r"|(?:spark\.hadoop\.)?fs\.azure\.account\.(?:key|auth\.type|oauth\.provider\.type|oauth2\.client\.(?:id|secret|endpoint))"
    r"(?:\.[a-z0-9.-]+)?"
)
_OF_STREAMS = _PLACE | _CREDENTIALS | _PACE | _KAFKA
_OF_TABLES = _PLACE | _CREDENTIALS | _KAFKA


def read_by_stream(options: Mapping[str, str]) -> str:
    """Returns the options of a stream that say what its rows are; from where on it reads is known by its checkpoint."""
    return _told(options, _OF_STREAMS)


def read_by_table(options: Mapping[str, str]) -> str:
    """Returns the options of a table that is read whole."""
    return _told(options, _OF_TABLES)


def of_scala(options: Any) -> dict[str, str]:
    """Returns a Scala map as a dict."""
    return {str(pair._1()): str(pair._2()) for pair in elements(options)}


def _told(options: Mapping[str, str], untold: frozenset[str]) -> str:
    given = {key.lower(): value for key, value in options.items()}
    return "".join(
        f" {key}={_short(given[key])}" for key in sorted(given) if key not in untold and not _STORE.fullmatch(key)
    )


def _short(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()[:8]
