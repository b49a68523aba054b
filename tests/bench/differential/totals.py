"""Outcomes of pairs, trips and histories, in numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of one."""

    RIGHT = "right"
    REWRITTEN = "right, state rewritten"
    WRONG = "WRONG"
    REFUSED = "refused by Spark's own check"
    FAILED = "failed"
    PARKED = "refused"
    NEEDLESS = "refused without need"
    UNRUNNABLE = "not a query that runs"


@dataclass(frozen=True)
class Verdict:
    """The outcome of one, with what was found and what was expected, or the words of a refusal."""

    outcome: Outcome
    words: str = ""
    found: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()


@dataclass
class Totals:
    """How many had which outcome; `harmless` are those that may not be refused."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    harmless: int = 0
    wrong: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def add(self, name: str, outcome: Outcome, *, is_harmless: bool = False) -> None:
        """Counts one."""
        self.outcomes[outcome] += 1
        self.harmless += is_harmless and outcome is not Outcome.UNRUNNABLE
        if outcome is Outcome.WRONG:
            self.wrong.append(name)
        if outcome is Outcome.FAILED:
            self.failed.append(name)

    def counts(self) -> dict[str, object]:
        """Returns the totals for a line of JSON."""
        return {
            **{outcome.value: self.outcomes[outcome] for outcome in Outcome},
            "harmless": self.harmless,
            "needless share": round(self.outcomes[Outcome.NEEDLESS] / max(self.harmless, 1), 4),
            "wrong ones": self.wrong,
            "failed ones": self.failed,
        }
