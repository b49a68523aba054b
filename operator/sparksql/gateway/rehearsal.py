"""What a driver of a warm pool does before anybody has it: all that binding it, its start and a first statement do, for nobody.

What runs for the first time is loaded and interpreted; after some repetitions the JVM has compiled it. Nothing of it is left in
the base session, of which sessions are made.
"""

from __future__ import annotations

from sparksql.gateway import warm_up
from sparksql.gateway.bootstrap import DEFAULT_DATABASE, await_catalog
from sparksql.gateway.execution.session.init import enter_database
from sparksql.gateway.frontends.frontends import load_own
from sparksql.gateway.settings import Settings
from sparksql.gateway.spark.driver import SparkDriver

TIMES = 6


def rehearse(driver: SparkDriver, settings: Settings) -> None:
    """Rehearses a start and statements. Blocks; what fails in it will fail for the session, which is told."""
    load_own()
    await_catalog(driver)
    for _ in range(TIMES):
        enter_database(driver, DEFAULT_DATABASE)
        warm_up.warm_up(driver, settings.config.result_root)
