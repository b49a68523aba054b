"""Decisions about a SqlSession."""
