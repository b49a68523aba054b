"""Which options of Kafka's clients SQL may give: `kafka.KEY` of a table, of a view, of `WITH (...)`, of a reader or writer.

Kafka's clients load classes, read files and run a command as their configuration says, and they would do so in the driver,
with the driver's files and rights. So this is an allow-list: the keys of Kafka 3.9's consumer and producer that say how to
reach a broker and how to move data. A class gives more by naming an option in full in `allow.conf`, as
`kafka.ssl.truststore.location`; patterns give none. `${...}` in a value stands for nothing, since its providers are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sparksql.api.conf_policy import normalise

PREFIX = "kafka."
JAAS = "sasl.jaas.config"
_ALLOWED = """
    acks allow.auto.create.topics batch.size bootstrap.servers buffer.memory check.crcs client.dns.lookup client.id client.rack
    compression.gzip.level compression.lz4.level compression.type compression.zstd.level connections.max.idle.ms
    default.api.timeout.ms delivery.timeout.ms enable.idempotence enable.metrics.push exclude.internal.topics fetch.max.bytes
    fetch.max.wait.ms fetch.min.bytes group.id group.instance.id heartbeat.interval.ms isolation.level linger.ms max.block.ms
    max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms max.poll.records max.request.size
    metadata.max.age.ms metadata.max.idle.ms metadata.recovery.strategy metrics.num.samples metrics.recording.level
    metrics.sample.window.ms partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms
    partitioner.ignore.keys receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retries
    retry.backoff.max.ms retry.backoff.ms sasl.jaas.config sasl.kerberos.service.name sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms
    sasl.login.retry.backoff.ms sasl.mechanism security.protocol send.buffer.bytes session.timeout.ms
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms ssl.cipher.suites ssl.enabled.protocols
    ssl.endpoint.identification.algorithm ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain
    ssl.keystore.key ssl.keystore.password ssl.keystore.type ssl.protocol ssl.trustmanager.algorithm
    ssl.truststore.certificates ssl.truststore.password ssl.truststore.type transaction.timeout.ms
"""
ALLOWED = frozenset(_ALLOWED.split())
# One login module that knows a user and a password, and nothing else: others read files or call where their options say.
_JAAS = re.compile(
    r"\s*org\.apache\.kafka\.common\.security\.(plain\.Plain|scram\.Scram)LoginModule\s+(?i:required|requisite|sufficient|optional)"
    r'(\s+(username|password|tokenauth)\s*=\s*("([^"\\\r\n]|\\[^\r\n])*"|[A-Za-z0-9_.-]+))*\s*;\s*'
)


def problem(options: Mapping[str, str], conf_allow: Iterable[str]) -> str | None:
    """Returns why SQL may not give these options, naming the first that is not allowed; None if it may.

    Values are not told: they may be secret.
    """
    given = {normalise(pattern) for pattern in conf_allow}
    for key, value in options.items():
        name = key.strip().lower()
        if not name.startswith(PREFIX) or name in given:
            continue
        own = name.removeprefix(PREFIX)
        if own not in ALLOWED:
            return (
                f"option {key!r} is not allowed: it is not an option of the connection or the transfer; "
                "leave it out, or have the session's class name it in full in allow.conf"
            )
        if own == JAAS and not _JAAS.fullmatch(value):
            return (
                f"option {key!r} may name PlainLoginModule or ScramLoginModule with username and password alone; for another "
                "login have the session's class name the option in full in allow.conf"
            )
    return None
