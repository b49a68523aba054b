"""Words for the columns that only the gateway knows: where plans and states are shown, they speak of what the user wrote. Pure.

They have names that no table has, which are in the state of streams and stay what they are.
"""

from __future__ import annotations

import re

# A name that ends with an underscore is one of several, with its number behind it.
WORDS = {
    "__bits": "values_seen",
    "__change": "change",
    "__changelog_deleted": "is_deleted",
    "__changelog_order": "change_order",
    "__changelog_weight": "change_weight",
    "__corrupt": "corrupt_record",
    "__curve_begins": "begins_window",
    "__curve_end": "window_end_micros",
    "__curve_first": "first_event",
    "__curve_key_": "key_",
    "__curve_last": "last_event",
    "__curve_new": "is_new_value",
    "__curve_next": "next_step",
    "__curve_pane": "step_start",
    "__curve_pane_end": "step_end",
    "__curve_part_": "total_",
    "__curve_seen": "distinct_value",
    "__curve_start": "window_start_micros",
    "__curve_time": "descriptor",
    "__distinct_": "distinct_",
    "__had_": "has_rows_",
    "__key_": "key_",
    "__other_": "aggregate_",
    "__part_": "part_",
    "__row": "row",
    "__session_key": "session_key",
    "__session_time": "descriptor",
    "__session_window": "session",
    "__value": "value",
    "__window_begun": "first_day_by_clock",
    "__window_block": "window_first_day_by_clock",
    "__window_block_end": "window_last_day_end",
    "__window_block_start": "window_first_day_start",
    "__window_cut": "descriptor_by_clock",
    "__window_cut_end": "window_end_by_clock",
    "__window_cut_start": "window_start_by_clock",
    "__window_days_start": "days_start",
    "__window_end": "window_end_micros",
    "__window_instant": "window_time_micros",
    "__window_later": "window_end_by_slides",
    "__window_micros": "descriptor",
    "__window_passed": "slides_of_the_day",
    "__window_shown": "clock",
    "__window_shown_start": "window_start_of_clock",
    "__window_slide": "window_slide",
    "__window_start": "window_start_micros",
    "__window_step_end": "step_end",
}
_NAME = re.compile(rf"({'|'.join(sorted(WORDS, key=len, reverse=True))})((?:(?<=_)\w+)?)")


def in_words(name: str) -> str:
    """Returns the word for a column that only the gateway knows, the name of any other column itself."""
    found = _NAME.fullmatch(name)
    return name if found is None else WORDS[found[1]] + found[2]
