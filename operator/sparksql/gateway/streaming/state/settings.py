"""Settings of a session that may say what a query means.

Spark's plans have most of what a setting means, but not all: how a text is read as a time, how a struct becomes text, how files
are read, is asked of the session while the query runs, and Hadoop's file formats ask settings of their own. So every setting
counts that is given and that a program of the image may read, but those of harmless_settings.py, and Spark's own that are not
of SQL: they say what drivers and executors are. A name that is only a user's own (`SET my.day = ...`) stands for its value in
the text, and the plan has that.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sparksql.api.conf_policy import NAMESPACES
from sparksql.gateway.spark.shapes import Jvm, JvmSession
from sparksql.gateway.streaming.state.description import Setting
from sparksql.gateway.streaming.state.harmless_settings import HARMLESS, OPEN

ZONE = "spark.sql.session.timeZone"
_COUNTED = ("spark.sql.", "spark.databricks.")  # the latter are Delta's
_HADOOP = re.compile(r"spark\.hadoop\.(?=.)|spark\.(?=hive\.)")  # so Spark hands settings to Hadoop
_BETWEEN = "\u0001"


def of_session(jvm: Jvm, session: JvmSession, *, zone_counts: bool) -> tuple[Setting, ...]:
    """Returns the settings of a session that may say what its queries mean, by name.

    `zone_counts`: the time zone does, too; where it counts in an expression, the plan has it.
    """
    entries = jvm.org.apache.spark.internal.config.ConfigEntry
    found = [_told(entries, name, value) for name, value in _given(session) if counts(name)]
    if zone_counts:
        zone = str(session.conf().get(ZONE))
        found.append(Setting(ZONE, zone, zone))
    return tuple(sorted(found, key=lambda each: each.name))


def counts(name: str) -> bool:
    """Returns whether a setting may say what a query means. Of the time zone see `of_session`."""
    plain = _HADOOP.sub("", name, count=1)
    if plain == ZONE or plain in HARMLESS or plain.startswith(OPEN):
        return False
    first = plain.partition(".")[0]
    return plain.startswith(_COUNTED) or (first != "spark" and first in NAMESPACES)


def changed(old: Mapping[str, Setting], new: Mapping[str, Setting]) -> Iterator[tuple[str, str, str]]:
    """Returns name and both values of each setting that differs; what is not given has its default."""
    for name in sorted({*old, *new}):
        was, now = old.get(name), new.get(name)
        before = was.value if was is not None else now.default if now is not None else ""
        after = now.value if now is not None else was.default if was is not None else ""
        if before.lower() != after.lower():
            yield name, before, after


def _told(entries: Any, name: str, value: str) -> Setting:
    """A setting that Spark does not know may be a secret: it is told by a digest."""
    entry = entries.findEntry(name)
    if entry is None:
        return Setting(name, f"#{hashlib.sha256(value.encode()).hexdigest()[:8]}", "")
    return Setting(name, value, str(entry.defaultValueString()))


def _given(session: JvmSession) -> Iterator[tuple[str, str]]:
    """All settings in one call: there are many, and each call of the JVM takes its time."""
    pairs = str(session.sessionState().conf().getAllConfs().mkString(_BETWEEN))
    for pair in pairs.split(_BETWEEN):
        name, _, value = pair.partition(" -> ")
        yield name, value
