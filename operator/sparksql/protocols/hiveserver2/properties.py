"""What clients put into the configuration of a session: properties, and the schema to begin in. Pure.

Hive's JDBC driver writes the parts of its URL as `set:hiveconf:KEY`, `set:hivevar:KEY` and `use:database`, others write plain
keys. Keys of Hive's own mean nothing to Spark and are left out. JDBC names the schema `default` whenever the URL names none,
so that name means the schema in which the session's clients begin anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_DATABASE_KEY = "use:database"
_DEFAULT_DATABASE = "default"
_PREFIXES = ("set:hiveconf:", "set:hivevar:", "set:")
_IGNORED = ("hive.", "use:", "mapred.", "mapreduce.", "tez.")


@dataclass(frozen=True)
class Configuration:
    """`database` is None to stay where the session begins."""

    properties: Mapping[str, str]
    database: str | None = None


def read_configuration(configuration: Mapping[str, str] | None) -> Configuration:
    """Returns the configuration of an OpenSession or of a statement."""
    given = configuration or {}
    named = {_plain(key): value for key, value in given.items()}
    properties = {key: value for key, value in named.items() if not key.startswith(_IGNORED)}
    database = given.get(_DATABASE_KEY, "").strip()
    return Configuration(properties, None if database in ("", _DEFAULT_DATABASE) else database)


def use_statement(database: str) -> str:
    """Returns the statement that chooses a schema; one with a catalog in front is written `catalog.schema`."""
    return "USE " + ".".join(f"`{part.replace('`', '``')}`" for part in database.split("."))


def _plain(key: str) -> str:
    for prefix in _PREFIXES:
        if key.startswith(prefix):
            return key.removeprefix(prefix)
    return key
