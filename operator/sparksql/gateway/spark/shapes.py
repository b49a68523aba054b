"""Names for what py4j gives: shapes of the JVM that Python's types cannot tell apart, so that signatures say what they mean."""

from __future__ import annotations

from typing import Any, TypeAlias

Jvm: TypeAlias = Any  # the view of all packages and classes
JvmSession: TypeAlias = Any  # org.apache.spark.sql.classic.SparkSession
Dataset: TypeAlias = Any  # org.apache.spark.sql.classic.Dataset
LogicalPlan: TypeAlias = Any  # catalyst.plans.logical.LogicalPlan: a plan, or a node or leaf of one
Expression: TypeAlias = Any  # catalyst.expressions.Expression
StreamingQuery: TypeAlias = Any  # org.apache.spark.sql.streaming.StreamingQuery
Throwable: TypeAlias = Any  # java.lang.Throwable
