"""Spark SQL sessions and SQL statements as Kubernetes resources."""

__version__ = "0.1.0"
