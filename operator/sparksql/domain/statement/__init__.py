"""Decisions about a SqlStatement."""
