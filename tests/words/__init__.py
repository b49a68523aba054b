"""Counts listed words, long sentences and long lines of the repository. The counts may only fall."""
