"""Queries over changelogs: histories drawn, run, and computed by plain Python."""
