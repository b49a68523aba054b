"""Changes beside the text: how a query is run, and where it writes."""

from __future__ import annotations

from sparksql.api.execution import OutputMode

from .texts import (
    BASE_OPTIONS,
    KEYED_GROUPS,
    Accepted,
    Case,
    Parked,
    merged,
    upserts,
    windows,
    windows_of,
)

SETTINGS: tuple[Case, ...] = (
    Case(
        "setting: other trigger and limit of a batch",
        "windows",
        windows(),
        Accepted(windows_of()),
        {"max_files_per_trigger": 1},
    ),
    Case(
        "setting: another number of shuffle partitions, which the checkpoint's overrules",
        "windows",
        windows(),
        Accepted(windows_of()),
        conf={"spark.sql.shuffle.partitions": "5"},
    ),
    Case(
        "setting: another time zone, where nothing depends on it",
        "windows",
        windows(),
        Accepted(windows_of()),
        conf={"spark.sql.session.timeZone": "Asia/Tokyo"},
    ),
    Case(
        "setting: `upsert` where rows were appended",
        "appended",
        upserts("appended"),
        Accepted(windows_of()),
        {**BASE_OPTIONS["appended"], "upsert": KEYED_GROUPS},
    ),
    Case(
        "setting: `outputMode` from Update to Append",
        "upserts",
        upserts(),
        Accepted(windows_of()),
        {**BASE_OPTIONS["upserts"], "output_mode": OutputMode.APPEND},
    ),
    Case(
        "setting: `outputMode` from Append to Update, over groups",
        "appended",
        upserts("appended"),
        Parked("output mode was append, is update"),
        {"output_mode": OutputMode.UPDATE, "upsert": KEYED_GROUPS},
    ),
    Case(
        "setting: `outputMode` from Append to Update, without state",
        "merged",
        merged(),
        Accepted("SELECT country, city, amount, price, ts FROM $.src WHERE amount > 1"),
        {**BASE_OPTIONS["merged"], "output_mode": OutputMode.UPDATE},
    ),
    Case(
        "setting: `outputMode` from Append to Complete",
        "appended",
        upserts("appended"),
        Parked("output mode was append, is complete"),
        {"output_mode": OutputMode.COMPLETE},
    ),
    Case(
        "target: another table of Delta, which gets what comes from now on",
        "appended",
        upserts("appended"),
        Accepted(windows_of(having="window.end > TIMESTAMP '2026-01-01 00:01:00'")),
        BASE_OPTIONS["appended"],
        other_target=True,
    ),
)
