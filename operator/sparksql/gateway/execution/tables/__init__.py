"""Statements about tables whose format stands in a catalog before Spark's own."""
