"""Builds the Spark session of the driver, and the session that each statement runs in.

Statements run in clones of one base session, so that what one sets does not leak into another; what changes the session runs
in the base itself. Spark copies temporary views, settings and the current schema into a clone but no session variables, so
those are put in here.

Some settings are not the tenant's: they are what keeps results right (no caches that a clone would read stale, a committer
that loses nothing) and what keeps the driver shut (the UI on loopback, no kill links).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from sparksql.api.conf_policy import normalise
from sparksql.gateway.settings import Settings
from sparksql.gateway.spark.connect_conf import connect_conf
from sparksql.gateway.spark.jvm import JvmConnection
from sparksql.gateway.spark.names import REFLECTION_FUNCTIONS, JvmNames
from sparksql.gateway.spark.references import release_in_batches
from sparksql.gateway.spark.scala import elements, scala_object
from sparksql.gateway.spark.shapes import JvmSession, LogicalPlan
from sparksql.wire.driver import BLOCK_MANAGER_PORT, DRIVER_RPC_PORT, SqlPolicy

# Correctness of this gateway's own making; nothing may override these.
GUARANTEES: Mapping[str, str] = {
    # A clone must see what another one wrote: no cache of file listings by table name.
    "spark.sql.filesourceTableRelationCacheSize": "0",
    # Tasks commit straight into the table and no job removes `_temporary` under another; the gateway removes it.
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.hadoop.mapreduce.fileoutputcommitter.cleanup.skipped": "true",
    # A statement is what was read and checked, whatever `${...}` in it stands for when it runs.
    "spark.sql.variable.substitute": "false",
    "spark.ui.killEnabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# What a session may choose otherwise.
DEFAULTS: Mapping[str, str] = {
    "spark.master": "local[*]",
    "spark.log.level": "WARN",
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
    # On Kubernetes the SparkContext is else not there before 80 % of the executors are (30 s at most): catalog and
    # planner are made ready while they start.
    "spark.scheduler.minRegisteredResourcesRatio": "0.0",
    # The default as a plain number: Connect clients of Spark 4.2 cannot read the `b` that 4.1 puts behind it.
    "spark.sql.session.localRelationSizeLimit": str(3 << 30),
}
MIN_UNREAD_MIB = 32  # less would keep Spark from broadcasting tables that are small enough for it (10 MiB)
EXTENSIONS = "spark.sql.extensions"
# Of the session image; lets SQL functions work beside extensions whose parser cannot read their parameters, as Iceberg's. It
# must be the last of them. Where an image does not have it, Spark warns and goes on without.
FUNCTION_PARAMETERS = "dev.sparksql.functions.FunctionParameters"
# Of the session image, too; leaves the views of Spark's own catalog to Spark. It must come before Iceberg's extension.
SESSION_VIEWS = "dev.sparksql.views.SessionViews"
# Of the session image, too; keeps conditions on the bounds of a session above the aggregation that merges sessions.
MERGED_SESSIONS = "dev.sparksql.windows.MergedSessions"
# Read by the session image (Databases.java): what of databases a class allows beyond the options that are understood.
DATABASES = "spark.sparksql.jdbc.allowed"
_DATABASE_OPTION = re.compile(r"jdbc\.[^*,]+")
_OF_CLUSTER = (
    "spark.kubernetes.",
    "spark.authenticate",
    "spark.dynamicAllocation.",
    "spark.executor.instances",
    "spark.driver.port",
    "spark.blockManager.port",
    "spark.driver.blockManager.port",
)
_SESSION_CATALOG = "spark.sql.catalog.spark_catalog"
_ICEBERG_SESSION_CATALOG = "org.apache.iceberg.spark.SparkSessionCatalog"
_CATALOG = re.compile(r"spark\.sql\.catalog\.([^.]+)")
_CATALOGS = re.compile(r"spark\.sql\.catalog(\.|Impl)")


def build_conf(settings: Settings) -> dict[str, str]:
    """Returns the whole Spark configuration: defaults, the session's, the class's enforced, the pod's, the guarantees."""
    config, pod = settings.config, settings.pod
    conf = {**DEFAULTS, "spark.app.name": f"{config.namespace}.{config.session}", **config.spark_conf}
    conf.update(config.policy.enforced_conf)
    conf.update(_address_conf(settings))
    if settings.local_master is not None:
        conf = {**_without_cluster(conf), "spark.master": settings.local_master}
    if config.endpoints.connect:
        conf.update(connect_conf())
        conf.setdefault("spark.driver.maxResultSize", f"{_unread_mib(settings)}m")
    if conf["spark.master"].startswith("k8s"):
        conf["spark.driver.port"] = str(DRIVER_RPC_PORT)
        conf["spark.blockManager.port"] = str(BLOCK_MANAGER_PORT)
        if pod.namespace:
            conf["spark.kubernetes.namespace"] = pod.namespace
        if settings.executor_template is not None:
            conf["spark.kubernetes.executor.podTemplateFile"] = str(settings.executor_template)
    conf.update(GUARANTEES)
    conf[DATABASES] = ",".join(filter(_DATABASE_OPTION.fullmatch, map(normalise, config.policy.conf_allow)))
    conf[EXTENSIONS] = ",".join(_extensions(conf))
    for key, value in tuple(conf.items()):
        if _CATALOG.fullmatch(key) and "iceberg" in value.lower():
            conf[f"{key}.cache-enabled"] = "false"
    return conf


def _extensions(conf: Mapping[str, str]) -> list[str]:
    """The extensions of Spark, in their order: those of the class among those of the session image."""
    named = conf.get(EXTENSIONS, "").strip()
    if not named:
        return [MERGED_SESSIONS]
    first = [SESSION_VIEWS] if _shares_metastore_with_iceberg(conf) else []
    return [MERGED_SESSIONS, *first, named, FUNCTION_PARAMETERS]


def _shares_metastore_with_iceberg(conf: Mapping[str, str]) -> bool:
    """Whether Iceberg stands before Spark's own catalog and has its tables in the same Hive metastore."""
    return (
        conf.get(_SESSION_CATALOG) == _ICEBERG_SESSION_CATALOG
        and f"{_SESSION_CATALOG}.catalog-impl" not in conf
        and conf.get(f"{_SESSION_CATALOG}.type", "hive").lower() == "hive"
    )


def _unread_mib(settings: Settings) -> int:
    """Returns the MiB that one Connect statement's result may have.

    Rows wait in the heap until they are read, and each statement holds a slot meanwhile, so that all together fill half
    of the heap at most.
    """
    return max(MIN_UNREAD_MIB, settings.config.heap_mib // (2 * settings.config.max_concurrent_statements))


def _without_cluster(conf: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings that a driver without executors can use.

    Ports, executors and the secret that they share with the driver belong to a cluster; so do all of `spark.kubernetes.`.
    """
    return {key: value for key, value in conf.items() if not key.startswith(_OF_CLUSTER)}


def _address_conf(settings: Settings) -> dict[str, str]:
    if settings.pod.ip is None:
        return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {"spark.driver.host": settings.pod.ip, "spark.driver.bindAddress": settings.listen_address}


class SparkDriver:
    """The JVM's Spark and its base session. All calls block; py4j gives each Python thread its own JVM thread.

    `policy` is what SQL may ask for in this driver.
    """

    def __init__(self, session: SparkSession, policy: SqlPolicy) -> None:
        self.policy = policy
        self.context: SparkContext = session.sparkContext
        self.jvm: Any = JvmNames(session._jvm)
        self.base: Any = session._jsparkSession
        self._base_variables = self._variables(self.base)

    @property
    def can_run_jobs(self) -> bool:
        """Returns whether Spark's context and the thread of its job scheduler are alive. Blocks.

        An OutOfMemoryError or StackOverflowError in a thread of the scheduler stops the context, or ends the thread alone: then
        each later job would fail, or wait without end.
        """
        context = self.context._jsc.sc()
        return not context.isStopped() and bool(context.dagScheduler().eventProcessLoop().isActive())

    @property
    def version(self) -> tuple[int, int]:
        """Returns the major and minor version of Spark."""
        major, minor, *_ = str(self.context.version).split(".")
        return int(major), int(minor)

    @property
    def has_metastore(self) -> bool:
        """Returns whether tables are in a Hive metastore, and not in the memory of this driver."""
        return str(self.context.getConf().get("spark.sql.catalogImplementation", "in-memory")) == "hive"

    @classmethod
    def connect(cls, connection: JvmConnection, settings: Settings) -> SparkDriver:
        """Starts Spark in a running JVM. Raises what Spark raises for a configuration that it refuses.

        The executors' secret is gone from the disk then: Spark's SecurityManager reads it once, when its context starts.
        """
        os.environ["PYSPARK_GATEWAY_PORT"] = str(connection.port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = connection.secret
        conf = SparkConf(loadDefaults=False)
        values = build_conf(settings)
        for key, value in values.items():
            conf.set(key, value)
        builder = SparkSession.builder.config(conf=conf)
        if values.get("spark.sql.catalogImplementation") == "hive":
            builder = builder.enableHiveSupport()
        try:
            driver = cls(builder.getOrCreate(), settings.config.policy)
        finally:
            # Both: a child process that inherits the port alone cannot start a Spark of its own.
            del os.environ["PYSPARK_GATEWAY_SECRET"], os.environ["PYSPARK_GATEWAY_PORT"]
            if settings.executor_secret is not None:
                settings.executor_secret.unlink(missing_ok=True)
        release_in_batches(driver.jvm._gateway_client)
        driver._forbid_reflection()
        driver._silence("org.apache.spark.scheduler.DAGScheduler")  # warns of each cancel that finds no job
        return driver

    def rebind(self, before: Settings, now: Settings) -> tuple[str, ...]:
        """Makes this driver as if it had been started with other settings.

        Returns the keys that Spark has fixed at its start to another value; nothing is changed then. Connect's service may be
        there and not be asked for.
        """
        if before.config.endpoints.connect:
            endpoints = now.config.endpoints.model_copy(update={"connect": True})
            compared = replace(now, config=now.config.model_copy(update={"endpoints": endpoints}))
        else:
            compared = now
        had, wanted = build_conf(before), build_conf(compared)
        differing = sorted(key for key in had.keys() | wanted.keys() if had.get(key) != wanted.get(key))
        conf, known = self.base.conf(), self.jvm.org.apache.spark.sql.internal.SQLConf
        fixed = tuple(
            key
            for key in differing
            if not key.startswith("spark.sql.") or known.isStaticConfigKey(key) or _CATALOGS.match(key)
        )
        if not fixed:
            for key in differing:
                if key in wanted:
                    conf.set(key, wanted[key])
                else:
                    conf.unset(key)
            self.policy = now.config.policy
        return fixed

    def clone(self) -> Any:
        """Makes a session with the base's views, settings, current schema and variables."""
        clone = self.base.cloneSession()
        variables = self._base_variables
        if not variables.isEmpty():
            self._copy_variables(variables, self._variables(clone))
        return clone

    def clone_without_views(self) -> Any:
        """Makes a session with the base's settings and current schema only."""
        clone = self.base.cloneSession()
        catalog = clone.sessionState().catalog()
        for identifier in elements(catalog.listTempViews("", "*")):
            catalog.dropTempView(identifier.identifier().table())
        return clone

    def close_session(self, session: JvmSession) -> None:
        """Frees what a session that nobody uses any more has on disk."""
        session.artifactManager().cleanUpResources()

    def activate(self, session: JvmSession) -> None:
        """Makes a session the one whose settings Spark's parser and planner use in this thread."""
        self.jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session)

    def deactivate(self) -> None:
        """Takes the active session from this thread, whose next statement may be another session's."""
        self.jvm.org.apache.spark.sql.classic.SparkSession.clearActiveSession()

    def of_rows(self, session: JvmSession, plan: LogicalPlan) -> Any:
        """Makes a Dataset of a plan; a command is executed by this."""
        return self.jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan)

    def analyse(self, session: JvmSession, plan: LogicalPlan) -> Any:
        """Returns the QueryExecution of a plan whose commands are not executed."""
        skip = scala_object(self.jvm.org.apache.spark.sql.execution, "CommandExecutionMode").SKIP()
        execution = session.sessionState().executePlan(plan, skip)
        execution.assertAnalyzed()
        return execution

    def fingerprint(self) -> str:
        """Returns a text that is equal for the base session in equal states.

        A state is made of the settings, the current schema, the temporary views and functions, and the variables.
        """
        state = self.base.sessionState()
        catalog = state.catalog()
        return "\n".join(
            (
                _sorted_conf(state),
                str(state.catalogManager().currentCatalog().name()),
                ".".join(state.catalogManager().currentNamespace()),
                str(catalog.listTempViews("", "*").mkString("\n")),
                *self._temporary_functions(state),
                str(self._variable_map(self._base_variables).toString()),
            )
        )

    def _temporary_functions(self, state: Any) -> list[str]:
        """Names and, of those in SQL, what they are: the registry has that as their usage, in JSON."""
        names = state.catalog().listTemporaryFunctions()
        identifiers = [names.apply(i) for i in range(names.length())]
        found = ((str(each), state.functionRegistry().lookupFunction(each)) for each in identifiers)
        return sorted(f"{name} {_body(info.get().getUsage()) if info.isDefined() else ''}" for name, info in found)

    def release_thread(self) -> None:
        """Ends this Python thread's JVM thread. To be called last in a thread that will not come back."""
        connection = self.jvm._gateway_client.get_thread_connection()
        if connection is not None:
            connection.close()

    def stop(self) -> None:
        """Stops Spark, executors included."""
        self.context.stop()

    def _forbid_reflection(self) -> None:
        """Spark 4.1 registers its own functions by their names alone, later ones as `system.builtin.name`."""
        identifier, some = self.jvm.org.apache.spark.sql.catalyst.FunctionIdentifier, self.jvm.scala.Some
        is_qualified = self.version >= (4, 2)
        for name in sorted(REFLECTION_FUNCTIONS):
            known = identifier(name, some("builtin"), some("system")) if is_qualified else identifier(name)
            self.base.sessionState().functionRegistry().dropFunction(known)

    def _silence(self, logger: str) -> None:
        log4j = self.jvm.org.apache.logging.log4j
        log4j.core.config.Configurator.setLevel(logger, log4j.Level.ERROR)

    def _variables(self, session: JvmSession) -> Any:
        return session.sessionState().catalogManager().tempVariableManager()

    def _variable_map(self, manager: Any) -> Any:
        field = manager.getClass().getDeclaredField("variables")
        field.setAccessible(True)
        return field.get(manager)

    def _copy_variables(self, source: Any, target: Any) -> None:
        definitions = self._variable_map(source).valuesIterator()
        while definitions.hasNext():
            definition = definitions.next()
            name = self.jvm.PythonUtils.toSeq([definition.identifier().name()])
            target.create(name, definition, True)


def _body(usage: str) -> str:
    """A function's usage without the time at which it was made."""
    return re.sub(r'"sqlFunction\.createTime":"\d+",?', "", usage)


def _sorted_conf(state: Any) -> str:
    settings = str(state.conf().getAllConfs().mkString("\n"))
    return "\n".join(sorted(settings.split("\n")))
