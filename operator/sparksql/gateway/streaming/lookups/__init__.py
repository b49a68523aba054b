"""Lookups: a table in a database that a STREAM is joined with, of which each batch reads the rows with its keys and no others."""
