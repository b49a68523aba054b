"""One reason why state does not fit a text: what changed, where, from what to what."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DifferenceKind(StrEnum):
    """Names the kinds of differences between two descriptions."""

    SOURCE_ADDED = "SourceAdded"
    SOURCE_REMOVED = "SourceRemoved"
    SOURCE_CHANGED = "SourceChanged"
    SOURCES_REORDERED = "SourcesReordered"
    OPERATOR_ADDED = "OperatorAdded"
    OPERATOR_REMOVED = "OperatorRemoved"
    OPERATOR_CHANGED = "OperatorChanged"  # another type of join, another condition, another limit
    INPUT_CHANGED = "InputChanged"  # what the rows of an operator go through before it
    KEY_ADDED = "KeyAdded"
    KEY_REMOVED = "KeyRemoved"
    KEY_CHANGED = "KeyChanged"
    KEYS_REORDERED = "KeysReordered"
    AGGREGATE_ADDED = "AggregateAdded"
    AGGREGATE_REMOVED = "AggregateRemoved"
    AGGREGATE_CHANGED = "AggregateChanged"
    AGGREGATES_REORDERED = "AggregatesReordered"
    COLUMN_ADDED = "ColumnAdded"  # columns of rows that a join keeps
    COLUMN_REMOVED = "ColumnRemoved"
    COLUMN_CHANGED = "ColumnChanged"
    COLUMNS_REORDERED = "ColumnsReordered"
    WATERMARK_CHANGED = "WatermarkChanged"
    OUTPUT_MODE_CHANGED = "OutputModeChanged"
    SETTING_CHANGED = "SettingChanged"  # of the session
    GROUP_FILTER_CHANGED = "GroupFilterChanged"  # a condition on keys above an aggregation
    NOT_COMPARABLE = "NotComparable"  # it cannot be told whether something is the same


@dataclass(frozen=True)
class Difference:
    """Describes one reason why state does not fit. `operator` and `column` are for people; empty where there is none."""

    change: DifferenceKind
    operator: str = ""
    column: str = ""
    before: str = ""
    after: str = ""
