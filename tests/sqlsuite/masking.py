"""What a golden file does not say because it differs from run to run: ids, times, places, owners. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LEFT_OUT = "[not included in comparison]"
_WAREHOUSE = f"{_LEFT_OUT}/{{warehouse_dir}}"
# Numbers of a plan, by what stands around them.
_NUMBERS = (
    (r"#\d+", "#x"),
    (r"plan_id=\d+", "plan_id=x"),
    (r"(CTERelation(?:Def|Ref)|cterelation(?:def|ref)) \d+,", r"\1 xxxx,"),
    (r"(UnionLoop|UnionLoopRef|Loop id:) \d+(?=\b)", r"\1 xxxx"),
    (r"@\w*,", "@xxxxxxxx,"),
    (r"\*\(\d+\) ", "*"),
)
# Properties of a table as DESCRIBE shows them: each takes the rest of its line.
_LINES = ("Created By", "Created Time", "Last Access")
# The same in DESCRIBE ... AS JSON, whose key gets the mark and whose value goes.
_KEYS = ("created_by", "created_time", "transient_lastDdlTime", "last_access")


class Masks:
    """Masks of runs whose tables lie below these folders."""

    def __init__(self, warehouses: Iterable[str] = ()) -> None:
        self._rules = [(re.compile(pattern), shown) for pattern, shown in _NUMBERS]
        for folder in map(re.escape, warehouses):
            self._rule(rf"Location.*{folder}/", f"Location {_WAREHOUSE}/")
            self._rule(rf"file:[^\s,]*{folder}", f"file:{_WAREHOUSE}")
        for line in _LINES:
            self._rule(f"{line}.*", f"{line} {_LEFT_OUT}")
        self._rule(r"Owner\t.*", f"Owner\t{_LEFT_OUT}")
        self._rule(r"Partition Statistics\t\d+", f"Partition Statistics\t{_LEFT_OUT}")
        self._rule(r"transient_lastDdlTime=\d+", f"transient_lastDdlTime={_LEFT_OUT}")
        for key in _KEYS:
            self._rule(rf'"{key}":"[^"]*"', f'"{key} {_LEFT_OUT}":"None"')

    def masked(self, text: str) -> str:
        """Returns a row's text without what differs from run to run."""
        for pattern, shown in self._rules:
            text = pattern.sub(shown, text)
        return text

    def _rule(self, pattern: str, shown: str) -> None:
        self._rules.append((re.compile(pattern), shown.replace("\\", "\\\\")))
