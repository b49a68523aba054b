"""Writes the layers of CONTRIBUTING.md and the import graph of docs/architecture.md from the code and its contracts."""
