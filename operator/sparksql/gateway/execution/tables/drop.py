"""Makes DROP TABLE remove a managed table's files where Iceberg stands before Spark's own catalog.

Iceberg's SparkSessionCatalog (1.12.0, measured) drops any table of the Hive metastore as if it were its own: the entry goes, the
files stay, and a table of the same name cannot be made again. With PURGE it looks first whether the table is an Iceberg one
and hands others to Spark's catalog. So a table that is not Iceberg's is dropped with PURGE; Iceberg's own are left as asked.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import simple_name
from sparksql.gateway.spark.shapes import JvmSession, LogicalPlan

_CATALOG = "org.apache.iceberg.spark.SparkSessionCatalog"
_SPARKS_TABLE = "V1Table"


def with_files(driver: SparkDriver, session: JvmSession, plan: LogicalPlan) -> Any:
    """Returns a parsed DROP TABLE as one that will remove the files of a table that is not Iceberg's; any other plan as it is."""
    if simple_name(plan) != "DropTable" or plan.purge():
        return plan
    try:
        if not _is_sparks_own(driver, session, plan):
            return plan
    except (Py4JError, PySparkException):
        return plan  # Spark tells what is wrong with it
    logical = driver.jvm.org.apache.spark.sql.catalyst.plans.logical
    return logical.DropTable(plan.child(), plan.ifExists(), True)


def _is_sparks_own(driver: SparkDriver, session: JvmSession, plan: LogicalPlan) -> bool:
    catalog = session.sessionState().catalogManager().v2SessionCatalog()
    if str(catalog.getClass().getName()) != _CATALOG:
        return False
    target = driver.analyse(session, plan).analyzed()
    if simple_name(target) != "DropTable" or simple_name(target.child()) != "ResolvedIdentifier":
        return False  # a temporary view
    named = target.child()
    if not named.catalog().equals(catalog) or not catalog.tableExists(named.identifier()):
        return False
    return simple_name(catalog.loadTable(named.identifier())) == _SPARKS_TABLE
