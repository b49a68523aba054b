"""Relations of a parsed plan: what the session catalog knows of the table or temporary view that one names."""

from __future__ import annotations

from typing import Any

from sparksql.gateway.spark.scala import elements, option, text_map
from sparksql.gateway.spark.shapes import Jvm, JvmSession, LogicalPlan

SESSION_CATALOG = "spark_catalog"
_INTERNAL_OPTION = "__"  # Spark's own marks among the options of a relation


def metadata_of(jvm: Jvm, session: JvmSession, relation: LogicalPlan) -> Any | None:
    """Returns the CatalogTable of the session catalog's table, or of the temporary view, that an UnresolvedRelation names.

    None for views of the catalog, other catalogs, and what is not there.
    """
    parts = [str(part) for part in elements(relation.multipartIdentifier())]
    catalog, manager = session.sessionState().catalog(), session.sessionState().catalogManager()
    if len(parts) == 1 and (view := option(catalog.getRawTempView(parts[0]))) is not None:
        return view.tableMeta()
    if len(parts) == 3 and parts[0].lower() == SESSION_CATALOG:
        parts = parts[1:]
    elif len(parts) > 2 or str(manager.currentCatalog().name()).lower() != SESSION_CATALOG:
        return None
    identifier = jvm.org.apache.spark.sql.catalyst.TableIdentifier(
        parts[-1], jvm.scala.Option.apply(parts[0] if len(parts) == 2 else None)
    )
    if catalog.isTempView(identifier) or not catalog.tableExists(identifier):
        return None
    return catalog.getTableMetadata(identifier)


def provider_of(metadata: Any) -> str:
    """Returns the source of a CatalogTable in lower case, empty for a view."""
    return str(option(metadata.provider()) or "").lower()


def is_view(metadata: Any) -> bool:
    """Returns whether a CatalogTable is a view."""
    return str(metadata.tableType().name()) == "VIEW"


def given_options(relation: LogicalPlan) -> dict[str, str]:
    """Returns the options that the text gives a relation: `t WITH (...)`."""
    given = text_map(relation.options().asCaseSensitiveMap())
    return {key: value for key, value in given.items() if not key.startswith(_INTERNAL_OPTION)}
