"""What a driver is given at its start: one file `config.json` beside `token`, `tls.crt` and `tls.key` in one folder.

The folder is `$SPARKSQL_CONFIG_DIR` (default `/etc/sparksql`). In a pod it is memory that an init container of the
image (argument `configure`) fills from the session's Secret, which it alone mounts: SQL reaches files of its driver, so
the driver reads these and removes them before anything can ask for them.

`$SPARKSQL_CONFIG_HASH` is the hash that the pod was made for: a mounted Secret may lag behind its object, and a driver
must not run with the configuration of an earlier incarnation. `$POD_IP`, `$POD_NAME`, `$POD_UID` and `$POD_NAMESPACE`
come from the downward API; without them (tests, a laptop) the driver binds to loopback.
"""

from __future__ import annotations

import hashlib

from pydantic import Field

from sparksql.wire.model import SqlText, WireModel
from sparksql.wire.session_state import SessionState

CONFIG_DIR_ENV = "SPARKSQL_CONFIG_DIR"
CONFIG_HASH_ENV = "SPARKSQL_CONFIG_HASH"
DEFAULT_CONFIG_DIR = "/etc/sparksql"
CONFIG_FILE = "config.json"
TOKEN_FILE = "token"  # noqa: S105 - a file name
TLS_CERT_FILE = "tls.crt"
TLS_KEY_FILE = "tls.key"
EXECUTOR_TEMPLATE_FILE = "executor.json"
# What driver and executors prove to each other that they are of one incarnation; Spark's spark.authenticate.secret.
EXECUTOR_SECRET_FILE = "executor-secret"  # noqa: S105 - a file name
EXECUTOR_SECRET_DIR = "/etc/sparksql-executor"  # noqa: S105 - in an executor; images/session/entrypoint.sh reads it there
# Spark's master of a driver that is a process of one machine and has no executors, see `sparksql.local`.
LOCAL_MASTER_ENV = "SPARKSQL_LOCAL_MASTER"
FILE_ROOTS_ENV = "SPARKSQL_FILE_ROOTS"  # local folders that SQL may use, see images/session/java
GATEWAY_PORT = 8443
DRIVER_RPC_PORT = 7078
BLOCK_MANAGER_PORT = 7079
CONNECT_PORT = 15002  # Spark Connect's default
THRIFT_PORT = 10000  # HiveServer2's default


class InitStatement(WireModel):
    """Holds a statement of the init list with its text resolved; `origin` names its field, e.g. `init[1].sqlFrom`."""

    sql: SqlText = Field(repr=False)
    origin: str


class SqlPolicy(WireModel):
    """Bounds what SQL inside the driver may ask for (SET in scripts and init, ADD JAR).

    Holds the class's allow-lists and enforced conf.
    """

    conf_allow: tuple[str, ...] = ("spark.sql.*",)
    enforced_conf: dict[str, str] = Field(default_factory=dict)
    jar_prefixes: tuple[str, ...] = ()


class FrontendPort(WireModel):
    """Names a frontend that the class adds, an entry point in the group `sparksql.frontends`, and where it listens."""

    name: str
    port: int


class OpenEndpoints(WireModel):
    """Says which protocols are open to clients besides the operator's own API, and where two of them listen."""

    rest: bool = True
    connect: bool = False
    thrift: bool = False
    connect_port: int = CONNECT_PORT
    thrift_port: int = THRIFT_PORT
    frontends: tuple[FrontendPort, ...] = ()


class ClientLimits(WireModel):
    """Bounds statements that come from clients. 0 means no limit.

    One may wait `queue_seconds` for its turn. It may run `execution_seconds` when the client names no time, and
    `max_execution_seconds` whatever the client names. `max_queued` statements may wait at a time.
    """

    queue_seconds: int = 0
    execution_seconds: int = 0
    max_execution_seconds: int = 0
    max_queued: int = 1000


class DriverConfig(WireModel):
    """Holds all that a driver needs to start.

    `spark_conf` is the merged static configuration, without what only the pod knows. `database` is made if need be and
    is the current one before `init` runs; empty leaves Spark's own. The statements of `restore` run after `init`, as they did
    in the driver before this one. A driver that is `warm` waits to be bound to a session, see `sparksql.wire.binding`.
    """

    namespace: str
    session: str
    session_uid: str
    incarnation: int
    heap_mib: int = 1024
    spark_conf: dict[str, str] = Field(default_factory=dict)
    database: str = ""
    init: tuple[InitStatement, ...] = ()
    restore: SessionState | None = None
    policy: SqlPolicy = SqlPolicy()
    max_concurrent_statements: int = 4
    max_preview_rows: int = 100
    result_root: str = "file:///tmp/sparksql-results"
    drain_seconds: int = 20
    warm: bool = False
    port: int = GATEWAY_PORT
    endpoints: OpenEndpoints = OpenEndpoints()
    clients: ClientLimits = ClientLimits()

    def to_file(self) -> str:
        """Returns the canonical text of `config.json`."""
        return self.model_dump_json(by_alias=True)


def config_hash(text: str) -> str:
    """Returns the hash of a `config.json` text, as in `$SPARKSQL_CONFIG_HASH`."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
