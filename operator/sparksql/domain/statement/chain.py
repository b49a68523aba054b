"""Chains of rules: what is decided in one situation, as an ordered tuple of named functions.

A rule answers for what its name says, or leaves it to those behind it; the first answer is the decision. The tuple is
the documentation: read from above, each rule may take for granted what those before it have made sure of.
"""

from __future__ import annotations

from collections.abc import Callable

from sparksql.domain.statement.decision import Decision, NeedsInputs
from sparksql.domain.statement.snapshot import Snapshot
from sparksql.domain.statement.stream.facts import StreamFacts

Rule = Callable[[Snapshot, StreamFacts], Decision | NeedsInputs | None]
Chain = tuple[Rule, ...]


def first_answer(chain: Chain, s: Snapshot, facts: StreamFacts) -> Decision | NeedsInputs:
    """Returns the first answer of a rule of `chain`, whose last rule always has one.

    Raises:
        ValueError: no rule has answered.
    """
    for rule in chain:
        answer = rule(s, facts)
        if answer is not None:
            return answer
    raise ValueError("the last rule of a chain must have an answer")
