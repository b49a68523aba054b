"""Writes findings as text, JSON, JUnit XML and SARIF."""
