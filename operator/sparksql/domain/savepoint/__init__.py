"""Decisions about a SqlSavepoint."""
