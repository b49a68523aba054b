"""Rows of results: collected, kept, paged and shown."""
