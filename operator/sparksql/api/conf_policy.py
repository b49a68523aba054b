"""Which Spark configuration keys a session or a statement may ask for: a fixed deny-list, then the class's allow-list.

Both sides use it: the operator for `spec.conf`, the driver for SET and RESET in statements, scripts and init. Invariants:

- A denied key is refused whatever the allow-list says, in any spelling: keys are compared in their normalised form.
- A key with anything but visible ASCII characters is denied: no Spark key has them, and look-alikes are not worth the risk.
- A pattern with `*` gives reviewed keys only, those of `conf_keys.txt`: a list of known bad keys is never whole, and a new
  version's keys are nobody's until they were read. A class may name any key that is not denied in full. Below a first word
  that is nobody's in the image, `my.*`, there is nothing to review.
- A key that was not reviewed and whose name says that it names a class, a jar, a file, a place or a command is denied.
- `spark.hadoop.x` is judged as `x`, and `spark.hive.x` as `hive.x`: so Spark hands them to Hadoop.

Why a key is denied: it would give a tenant another identity (`spark.kubernetes.*`, `spark.submit.*`, `spark.master`), code
that the platform did not choose (jars, plugins, listeners, catalogs, agents through Java options, class names of committers),
sizes beyond the class's limits, sight of what is redacted, open endpoints, or would break what the driver guarantees
(committer and cache settings). The names are those of Spark 4.1's configuration reference.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from sparksql.api import gateway_settings

REDACTED = "*********(redacted)"
KEYS_FILE = Path(__file__).with_name("conf_keys.txt")
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
    "spark.yarn.",  # other names of Spark's own keys, spark.yarn.executor.memoryOverhead among them
    "spark.history.",
    "spark.eventlog.",
    "spark.worker.",
    "spark.resources.",
    "spark.kryo.",
    "spark.storage.replication.",
    "spark.driver.resource.",
    "spark.executor.resource.",  # devices of the pod, and a script that finds them
    "spark.sql.artifact.",
    # A catalog is a class with its places and credentials, which the session class makes; an Iceberg one that caches tables would
    # answer a session's clones with old snapshots.
    "spark.sql.catalog.",
    "spark.sql.extensions",
    "spark.sql.hive.metastore.",
    "spark.sql.maven.",
    "spark.sql.redaction.",
    "spark.sql.udt.",
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
        # Sizes of the driver's pod, which the operator makes from spec.driver: Spark asks for them nowhere.
        "spark.driver.memoryoverhead",
        "spark.driver.memoryoverheadfactor",
        "spark.driver.minmemoryoverhead",
        "spark.driver.cores",
        "spark.executor.instances",
        "spark.executor.cores",
        "spark.executor.memory",
        "spark.unsafe.offheap",  # the old name of spark.memory.offHeap.enabled, which is counted
        "spark.cores.max",
        "spark.dynamicallocation.enabled",
        "spark.dynamicallocation.initialexecutors",
        "spark.dynamicallocation.minexecutors",
        "spark.dynamicallocation.maxexecutors",
        "fs.default.name",
        "fs.defaultfs",
        "spark.shuffle.manager",
        "spark.shuffle.sort.io.plugin.class",
        "spark.sql.adaptive.customcostevaluatorclass",
        "spark.sql.cache.serializer",
        "spark.sql.catalogimplementation",
        "spark.sql.execution.pyspark.python",
        "spark.sql.extendedexplainproviders",
        "spark.sql.hive.version",
        "spark.sql.parquet.output.committer.class",
        "spark.sql.queryexecutionlisteners",
        "spark.sql.sources.commitprotocolclass",
        "spark.sql.sources.outputcommitterclass",
        "spark.sql.streaming.checkpointfilemanagerclass",
        "spark.sql.streaming.checkpointlocation",
        "spark.sql.streaming.commitprotocolclass",
        "spark.sql.streaming.streamingquerylisteners",
        "spark.sql.warehouse.dir",
        "spark.sql.filesourcetablerelationcachesize",
        # With these a statement would not be what the gateway has read and checked.
        "spark.sql.variable.substitute",
        "spark.sql.maxplanstringlength",
    }
)

# Fields of a session's spec that stand for keys which the operator itself sets.
FIELDS: Mapping[str, str] = {
    "spark.driver.memory": "spec.driver.memory",
    "spark.driver.cores": "spec.driver.cpu",
    "spark.executor.memory": "spec.executors.memory",
    "spark.executor.cores": "spec.executors.cpu",
    "spark.kubernetes.driver.limit.cores": "spec.driver.cpuLimit",
    "spark.kubernetes.executor.limit.cores": "spec.executors.cpuLimit",
    "spark.executor.instances": "spec.executors.instances",
    "spark.dynamicallocation.enabled": "spec.executors.max",
    "spark.dynamicallocation.minexecutors": "spec.executors.min",
    "spark.dynamicallocation.maxexecutors": "spec.executors.max",
}
_MIN_LIKENESS = 0.9  # keys share long prefixes

# What a part of a key ends with that names code, a place, a command or whoever answers for them.
_NAME = re.compile(
    "(class|jar|impl|implementation|provider|plugin|listener|interceptor|extension|factory|loader|resolver"
    "|serializer|serialization|serde|codec|coder|mapper|committer|handler|manager|hook|filter|reporter|package|repository"
    "|uri|url|dir|directory|scratchdir|path|classpath|file|folder|location|root|host|address|endpoint|port|proxy"
    "|command|cmd|executable|script|opts|options|env|principal|keytab|credential|user|library)(names?|es|s)?$"
)
# Where classes and places stand behind names that do not tell.
_CLOSED = (
    "datanucleus.",
    "ha.",
    "hadoop.",
    "hive.",
    "java.",
    "javax.",
    "yarn.",
    "spark.databricks.delta.skipping.partitionlike",
)
# Values of keys that would take a class's name as well.
_CODECS = frozenset({"lz4", "lzf", "snappy", "zstd"})
_STATE_STORES = "org.apache.spark.sql.execution.streaming.state."
VALUES: Mapping[str, frozenset[str]] = {
    "spark.sql.streaming.statestore.compression.codec": _CODECS,
    "spark.sql.streaming.statestore.providerclass": frozenset(
        {f"{_STATE_STORES}HDFSBackedStateStoreProvider", f"{_STATE_STORES}RocksDBStateStoreProvider"}
    ),
}
# First words of the keys of what is in the image: Spark, Hadoop, Hive, the file and table formats, their clients.
_FIRST_WORDS = (
    "adl avro aws calcite datanucleus delta dfs dynamodb file fs ftp ha hadoop hbase hdfs hfile hive http https iceberg io ipc"
    " java javax jdk jute kafka log4j map mapred mapreduce native net netty nfs nfs3 orc org parquet rpc s3 s3a s3native security"
    " seq spark ssl stream sun task tez tfile yarn zk-dt-secret-manager zlib zookeeper"
)
NAMESPACES = frozenset(_FIRST_WORDS.split())

_VISIBLE_ASCII = re.compile(r"[\x21-\x7e]+")


def normalise(key: str) -> str:
    """The form in which keys are compared: without surrounding blanks or quotes, in lower case."""
    return key.strip().strip("`'\"").strip().lower()


def matches(key: str, pattern: str) -> bool:
    """Tells whether a key matches a pattern in which `*` stands for any characters and everything else for itself."""
    first, *others = normalise(pattern).split("*")
    name = normalise(key)
    if not others:
        return name == first
    *middle, last = others
    at = len(first)
    for part in middle:  # where one occurs first leaves the most to those behind it
        found = name.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return name.startswith(first) and name.endswith(last) and len(name) - len(last) >= at


def is_reviewed(key: str) -> bool:
    """Tells whether a pattern with `*` may give this key."""
    name = _judged(key)
    return name in REVIEWED or name.startswith(gateway_settings.PREFIX)


def is_denied(key: str) -> bool:
    """Tells whether the fixed deny-list refuses this key, whatever any allow-list says."""
    name = _judged(key)
    return (
        _VISIBLE_ASCII.fullmatch(name) is None
        or name in DENIED_KEYS
        or name.startswith(DENIED_PREFIXES)
        or (_is_anothers(name) and not is_reviewed(key) and _names_code_or_place(name))
    )


def is_allowed(key: str, patterns: Iterable[str]) -> bool:
    """Tells whether a tenant may set this key: not denied, and given by one of the class's `allow.conf` patterns."""
    return not is_denied(key) and any(matches(key, pattern) and _gives(pattern, key) for pattern in patterns)


def _gives(pattern: str, key: str) -> bool:
    before = normalise(pattern).partition("*")[0]
    return "*" not in pattern or is_reviewed(key) or ("." in before and not _is_anothers(before))


def _is_anothers(name: str) -> bool:
    """Whether a key is, by its first word, one that a program of the image may read."""
    return name.partition(".")[0] in NAMESPACES


def wrong_value(key: str, value: str) -> str | None:
    """Returns what a tenant may give an allowed key, if `value` is something else; None if it may be given."""
    allowed = VALUES.get(_judged(key))
    return None if allowed is None or value.strip() in allowed else f"one of {', '.join(sorted(allowed))}"


def _names_code_or_place(name: str) -> bool:
    return name.startswith(_CLOSED) or any(_NAME.search(part) for part in re.split("[._-]", name))


def _judged(key: str) -> str:
    """The normalised key that Spark makes of this one."""
    name = normalise(key)
    if name.startswith("spark.hive."):
        return name.removeprefix("spark.")
    return name.removeprefix("spark.hadoop.")


def field_of(key: str) -> str | None:
    """Returns the field of a session's spec to set instead of a denied key, None if there is none."""
    return FIELDS.get(_judged(key))


def similar_key(key: str, patterns: Iterable[str]) -> str | None:
    """Returns the allowed key, as Spark spells it, that a key is most likely a misspelling of; None if it resembles none."""
    if is_reviewed(key):
        return None
    allowed = tuple(patterns)
    names = difflib.get_close_matches(normalise(key), _SPELLINGS, cutoff=_MIN_LIKENESS)
    return next((_SPELLINGS[name] for name in names if is_allowed(name, allowed)), None)


def _reviewed() -> dict[str, str]:
    """Returns the reviewed keys as Spark spells them, by their normalised form."""
    lines = (line.partition("#")[0].strip() for line in KEYS_FILE.read_text(encoding="utf-8").splitlines())
    return {normalise(line): line for line in lines if line and not line.startswith("-")}


def redacted(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings as they may be shown: what looks like a secret, by its key or by its value, is hidden."""
    return {key: REDACTED if _is_secret(key, value) else value for key, value in conf.items()}


_SPELLINGS = _reviewed()
REVIEWED = frozenset(_SPELLINGS)
STATIC_KEYS = frozenset(
    normalise(key)
    for key in (
        "spark.sql.broadcastExchange.maxThreadThreshold",
        "spark.sql.codegen.cache.maxEntries",
        "spark.sql.resultQueryStage.maxThreadThreshold",
        "spark.sql.shuffleExchange.maxThreadThreshold",
        "spark.sql.sources.schemaStringLengthThreshold",
        "spark.sql.subquery.maxThreadThreshold",
    )
)
"""Reviewed keys of Spark SQL that a session has from its start on, by Spark's StaticSQLConf; a test asks Spark."""


def _is_secret(key: str, value: str) -> bool:
    """Tells whether a setting looks like a secret. `key` or `sas` in a name means one only where the image's programs read it."""
    is_secret_key = _is_anothers(normalise(key)) and _SECRET_KEY.search(key)
    return bool(_SECRET.search(key) or _SECRET.search(value) or is_secret_key)
