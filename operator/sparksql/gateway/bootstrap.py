"""Makes a new Spark session fit for statements, and puts the parts of the gateway together."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sparksql.gateway import warm_up
from sparksql.gateway.execution.executor import SparkExecutor
from sparksql.gateway.execution.savepoint_queries import SavepointQueries
from sparksql.gateway.execution.session.init import enter_database, run_init
from sparksql.gateway.lifecycle import Spark
from sparksql.gateway.operations.manager import OperationManager
from sparksql.gateway.operations.register import OperationRegister
from sparksql.gateway.operations.thread_pools import ThreadPools
from sparksql.gateway.operations.threads import Workers
from sparksql.gateway.results.store import ResultReader, ResultStore
from sparksql.gateway.settings import Settings
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.metastore import await_metastore
from sparksql.gateway.sql.masking import LogMask
from sparksql.gateway.streaming.checkpoints.savepoint import Savepoints
from sparksql.gateway.streaming.checkpoints.savepoint_jobs import SavepointAttempts
from sparksql.gateway.streaming.state_tables.maker import StateMaker
from sparksql.wire.control import InitFailure

DEFAULT_DATABASE = "default"  # of Spark's own catalog, which always has it

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StartedSpark:
    """Spark with its init statements run, or the one that failed."""

    driver: SparkDriver
    settings: Settings
    clock: Callable[[], datetime]
    init_failure: InitFailure | None

    def assemble(self, register: OperationRegister, log_mask: LogMask) -> Spark:
        """Makes the parts that need Spark. Must be called on the event loop that the operations will belong to."""
        config = self.settings.config
        hadoop_conf, version = self.driver.context._jsc.hadoopConfiguration(), str(self.driver.context.version)
        files = HadoopFiles(self.driver.jvm, hadoop_conf)
        store = ResultStore(files, self.clock)
        reader = ResultReader(files)
        executor = SparkExecutor(self.driver, config.policy, store, files, _result_folder(self.settings))
        executor.changes.begin()
        threads = ThreadPools()
        operations = OperationManager(
            executor=executor,
            register=register,
            store=store,
            reader=reader,
            log_mask=log_mask,
            clock=self.clock,
            slots=config.max_concurrent_statements,
            workers=Workers(
                self.settings.gateway.worker_threads_min,
                self.settings.gateway.worker_threads_max,
                self.settings.gateway.worker_threads_keepalive_time,
                self.driver.release_thread,
            ),
            threads=threads,
            max_preview_rows=config.max_preview_rows,
        )
        return Spark(
            executor=executor,
            operations=operations,
            threads=threads,
            store=store,
            reader=reader,
            savepoints=SavepointAttempts(
                Savepoints(self.driver.jvm, hadoop_conf, version),
                register.boot_id,
                self.driver.release_thread,
                SavepointQueries(executor, StateMaker(self.driver, files), operations, register),
            ),
            version=version,
            application_id=str(self.driver.context.applicationId),
        )


def start_spark(
    driver: SparkDriver, settings: Settings, clock: Callable[[], datetime], *, is_warm: bool = False
) -> StartedSpark:
    """Waits for the metastore, chooses the database and runs init; results of earlier incarnations are gone when it returns.

    `is_warm` tells that the driver has done all of it before, for nobody.
    """
    config = settings.config
    await_catalog(driver)
    failure = enter_database(driver, config.database) or run_init(driver, config.policy, config.init)
    if failure is None:
        if not is_warm:
            warm_up.start(driver, _session_folder(settings))
        if config.incarnation > 1:
            _remove_old_results(driver, settings)
    return StartedSpark(driver, settings, clock, failure)


def await_catalog(driver: SparkDriver) -> None:
    """Waits until the metastore answers, if there is one."""
    if driver.has_metastore:
        catalog = driver.base.sessionState().catalog().externalCatalog()
        await_metastore(lambda: catalog.databaseExists(DEFAULT_DATABASE))


def _result_folder(settings: Settings) -> str:
    """Results of one incarnation of one session; the whole session's are its parent."""
    return f"{_session_folder(settings)}/{settings.config.incarnation}"


def _session_folder(settings: Settings) -> str:
    config = settings.config
    return f"{config.result_root.rstrip('/')}/{config.namespace}/{config.session}-{config.session_uid}"


def _remove_old_results(driver: SparkDriver, settings: Settings) -> None:
    """Results of earlier incarnations: their drivers are gone, so nobody can ask for them any more."""
    files = HadoopFiles(driver.jvm, driver.context._jsc.hadoopConfiguration())
    try:
        files.delete(_session_folder(settings))
    except Exception as exception:
        log.warning("results of earlier incarnations could not be removed: %s", type(exception).__name__)
