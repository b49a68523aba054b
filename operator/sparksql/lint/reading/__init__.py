"""Reads YAML and JSON as kubectl does, and keeps where each value stands."""
