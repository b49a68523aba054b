"""Names in the SQL of an upsert."""

from __future__ import annotations

# Names of our own in a batch and in tables beside the target; the target's columns have other ones, so that the user's
# expressions, which are not qualified, mean the target where they are evaluated on it.
PREFIX = "__sparksql_"
ORDER, DELETE = f"{PREFIX}order", f"{PREFIX}delete"
VIEW = f"{PREFIX}batch"


def quoted(name: str) -> str:
    """Returns a name as Spark's SQL text."""
    return f"`{name.replace('`', '``')}`"


def prefixed(name: str) -> str:
    """Returns the quoted name that a column of the target has in a batch."""
    return quoted(PREFIX + name)
