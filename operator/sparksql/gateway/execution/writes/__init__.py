"""Statements that write rows: the tables that they write, and how many rows."""
