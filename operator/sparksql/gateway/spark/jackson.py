"""Brings plain values of the JVM over in one call: as JSON, which the JVM writes."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import scala_object
from sparksql.gateway.spark.shapes import Jvm

# Of a CatalogTable; they are long, secret, or nothing that Jackson can write.
_NOT_BROUGHT_OVER = frozenset(
    {"storage", "schema", "stats", "properties", "ignoredProperties", "viewText", "viewOriginalText", "bucketSpec"}
)


def read_json(driver: SparkDriver, value: Any) -> Any:
    """Reads a JVM collection or array of plain values and case classes, in one call."""
    return json.loads(_mapper(driver.jvm).writeValueAsString(value))


@lru_cache(maxsize=1)
def _mapper(jvm: Jvm) -> Any:
    """Jackson as Spark brings it. Making one costs more than what it is used for here; it may be shared by threads."""
    jackson = jvm.com.fasterxml.jackson
    mapper = jackson.databind.ObjectMapper()
    mapper.registerModule(scala_object(jackson.module.scala, "DefaultScalaModule"))
    catalog_table = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.catalog.CatalogTable")
    ignored = jackson.annotation.JsonIgnoreProperties.Value.forIgnoredProperties(_NOT_BROUGHT_OVER)
    mapper.configOverride(catalog_table).setIgnorals(ignored)
    return mapper
