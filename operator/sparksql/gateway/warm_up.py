"""Makes JVM, Python and the first executor load what a first statement would wait for, while the session is Ready already.

Ready does not wait for it: a statement that needs no executor has its rows 2 to 3 s sooner, and one that needs an executor waits
for the same executor as the warm-up does, whose classes both then share.
"""

from __future__ import annotations

import logging
import threading

from sparksql.api.execution import StatementMode
from sparksql.gateway.results.collector import COLLECT_ROWS, Collector
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.sql.classifier import Classifier

# What needs an executor comes last: they start meanwhile.
STATEMENTS = ("SHOW TABLES", "SELECT id % 2 AS k, count(*) AS n FROM range(4) GROUP BY 1")
# An executor takes 2 to 8 s to register on two cores; without one the warm-up's job would never end.
MOST_SECONDS = 15

_GROUP = "warm-up"

log = logging.getLogger(__name__)


def start(driver: SparkDriver, results: str) -> None:
    """Begins to warm up in a thread of its own, which waits for an executor `MOST_SECONDS` at most.

    `results` is the folder of the session's results, whose file system is asked as well.
    """
    threading.Thread(target=warm_up, args=(driver, results), name=_GROUP, daemon=True).start()


def warm_up(driver: SparkDriver, results: str) -> None:
    """Warms up in this thread, see `start`. Never raises."""
    given_up = threading.Timer(MOST_SECONDS, _cancel, args=(driver,))
    given_up.daemon = True
    given_up.start()
    try:
        driver.context.setJobGroup(_GROUP, _GROUP, True)
        for sql in STATEMENTS:
            _run(driver, sql)
        HadoopFiles(driver.jvm, driver.context._jsc.hadoopConfiguration()).exists(results)
    except Exception as exception:
        log.warning("the warm-up did not end: %s", type(exception).__name__)
    finally:
        given_up.cancel()
        driver.release_thread()


def _run(driver: SparkDriver, sql: str) -> None:
    """Does what is done for a statement: reading, planning, a shuffle, a catalog, Arrow."""
    Classifier(driver.jvm, driver.base, driver.policy).classify(sql, (), StatementMode.EXECUTE)
    session = driver.clone()
    frame = driver.of_rows(session, session.sessionState().sqlParser().parsePlan(sql))
    collector = Collector(driver.jvm, session)
    collector.shape(frame)
    collector.collect(frame, COLLECT_ROWS)


def _cancel(driver: SparkDriver) -> None:
    log.warning("no executor has done a task within %d s", MOST_SECONDS)
    try:
        driver.context._jsc.sc().cancelJobGroupAndFutureJobs(_GROUP, "nothing waits for it")
    finally:
        driver.release_thread()
