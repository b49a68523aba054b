"""Which Spark configuration keys a session or a statement may ask for: a fixed deny-list, then the class's allow-list.

Both sides use it: the operator for `spec.conf`, the driver for SET and RESET in statements, scripts and init. Invariants:

- A denied key is refused whatever the allow-list says, in any spelling: keys are compared in their normalised form.
- A key with anything but visible ASCII characters is denied: no Spark key has them, and look-alikes are not worth the risk.

Why a key is denied: it would give a tenant another identity (`spark.kubernetes.*`, `spark.submit.*`, `spark.master`), code
that the platform did not choose (jars, plugins, listeners, agents through Java options, class names of committers), sizes
beyond the class's limits, sight of what is redacted, open endpoints, or would break what the driver guarantees (committer
and cache settings). The names are those of Spark 4.1's configuration reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

REDACTED = "*********(redacted)"
# The default of spark.redaction.regex, which Spark looks for in keys and values, and what Hadoop calls sensitive besides
# (hadoop.security.sensitive-config-keys): account, encryption and private keys, SAS, JAAS.
_SECRET = re.compile("(?i)secret|password|token|access[.]?key")
_SECRET_KEY = re.compile(r"(?i)passphrase|[.]pass$|credential$|jaas|(^|[.])(key|sas)([.]|$)")

DENIED_PREFIXES = (
    "spark.kubernetes.",
    "spark.submit.",
    "spark.deploy.",
    "spark.driver.extra",
    "spark.driver.defaultextra",
    "spark.executor.extra",
    "spark.executor.defaultextra",
    "spark.executorenv.",
    "spark.jars",
    "spark.files",
    "spark.archives",
    "spark.plugins",
    "spark.extralisteners",
    "spark.python.",
    "spark.pyspark.",
    "spark.repl.",
    "spark.authenticate",
    "spark.network.crypto.",
    "spark.io.encryption.",
    "spark.ssl.",
    "spark.ui.",
    "spark.acls.",
    "spark.admin.acls",
    "spark.modify.acls",
    "spark.connect.",
    "spark.kerberos.",
    "spark.security.",
    "spark.metrics.conf",
    "spark.redaction.",
    "spark.sql.redaction.",
    "spark.hadoop.hadoop.security.",
    "spark.hadoop.mapreduce.fileoutputcommitter.",
    "mapreduce.fileoutputcommitter.",
    "hadoop.security.",
)

DENIED_KEYS = frozenset(
    {
        "spark.master",
        "spark.app.id",
        "spark.app.name",
        "spark.home",
        "spark.local.dir",
        "spark.logconf",
        "spark.driver.host",
        "spark.driver.port",
        "spark.driver.bindaddress",
        "spark.driver.pod.name",
        "spark.driver.blockmanager.port",
        "spark.blockmanager.port",
        "spark.driver.libraryclasspath",
        "spark.driver.userclasspathfirst",
        "spark.executor.userclasspathfirst",
        "spark.driver.memory",
        "spark.driver.cores",
        "spark.executor.instances",
        "spark.executor.cores",
        "spark.executor.memory",
        "spark.cores.max",
        "spark.dynamicallocation.enabled",
        "spark.dynamicallocation.initialexecutors",
        "spark.dynamicallocation.minexecutors",
        "spark.dynamicallocation.maxexecutors",
        "spark.shuffle.manager",
        "spark.shuffle.sort.io.plugin.class",
        "spark.sql.streaming.streamingquerylisteners",
        "spark.sql.queryexecutionlisteners",
        "spark.sql.sources.commitprotocolclass",
        "spark.sql.sources.outputcommitterclass",
        "spark.sql.parquet.output.committer.class",
        "spark.sql.filesourcetablerelationcachesize",
        # With these a statement would not be what the gateway has read and checked.
        "spark.sql.variable.substitute",
        "spark.sql.maxplanstringlength",
    }
)

# An Iceberg catalog that caches tables answers a session's clones with old snapshots.
DENIED_PATTERNS = ("spark.sql.catalog.*.cache-enabled",)

_VISIBLE_ASCII = re.compile(r"[\x21-\x7e]+")


def normalise(key: str) -> str:
    """The form in which keys are compared: without surrounding blanks or quotes, in lower case."""
    return key.strip().strip("`'\"").strip().lower()


def matches(key: str, pattern: str) -> bool:
    """Whether a key matches a pattern in which `*` stands for any characters and everything else for itself."""
    expression = ".*".join(re.escape(part) for part in normalise(pattern).split("*"))
    return re.fullmatch(expression, normalise(key)) is not None


def is_denied(key: str) -> bool:
    """Whether the fixed deny-list refuses this key, whatever any allow-list says."""
    name = normalise(key)
    return (
        _VISIBLE_ASCII.fullmatch(name) is None
        or name in DENIED_KEYS
        or name.startswith(DENIED_PREFIXES)
        or any(matches(name, pattern) for pattern in DENIED_PATTERNS)
    )


def is_allowed(key: str, patterns: Iterable[str]) -> bool:
    """Whether this key may be set by a tenant: not denied, and matched by one of the class's `allow.conf` patterns."""
    return not is_denied(key) and any(matches(key, pattern) for pattern in patterns)


def redacted(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings as they may be shown: what looks like a secret, by its key or by its value, is hidden."""
    return {key: REDACTED if _is_secret(key, value) else value for key, value in conf.items()}


def _is_secret(key: str, value: str) -> bool:
    return bool(_SECRET.search(key) or _SECRET.search(value) or _SECRET_KEY.search(key))
