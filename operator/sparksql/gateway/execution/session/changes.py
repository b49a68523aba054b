"""What statements of manifests have changed in the base session since `init`, and what would bring it back in another driver.

A change is brought back by running its statement again. Kept is what `init` accepts as well: such statements prepare a session
and touch no rows. Any other that changes the session (a script block, EXECUTE IMMEDIATE, a statement with a value from a
Secret) is an obstacle, which is told: a state is brought back whole or not at all.

Statements that change the session run alone, each in its own thread; the event loop reads what is kept. Hence tuples that are
replaced, never changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.sql.classifier import Statement
from sparksql.gateway.sql.kinds import Effect
from sparksql.wire.control import SubmitRequest
from sparksql.wire.session_state import SessionState

MAX_STATEMENTS = 500  # of a script, by the contract; they all run again at each wake
MAX_CHARS = 262_144  # of a statement's text, by the contract; a Secret of the driver's takes four times as much

# Types of statements that change nothing when they fail. ADD takes one resource after the other.
_WHOLE_OR_NOT = frozenset(
    {"SET", "RESET", "USE", "DECLARE", "CREATE TEMPORARY VIEW", "DROP VARIABLE", "DROP TEMPORARY FUNCTION"}
)


class SessionChanges:
    """Notes the changes of one driver's base session."""

    def __init__(self, driver: SparkDriver) -> None:
        self._driver = driver
        self._clean: frozenset[str] = frozenset()
        self._last: str | None = ""  # the fingerprint, None if a statement has changed it since
        self._is_changed = False
        self._kept: tuple[SubmitRequest, ...] = ()
        self._obstacle: str | None = None

    @property
    def is_changed(self) -> bool:
        """Returns whether a statement has changed the session in a way that `init` would not bring back."""
        return self._is_changed

    @property
    def kept(self) -> tuple[SubmitRequest, ...]:
        """Returns the statements that bring the changes back, in order."""
        return self._kept

    @property
    def obstacle(self) -> str | None:
        """Says why they would not, None if they would."""
        return self._obstacle

    def begin(self) -> None:
        """Remembers the session as `init` has left it."""
        self._last = self._driver.fingerprint()
        self._clean = _lines(self._last)

    @contextmanager
    def of(self, request: SubmitRequest, statement: Statement) -> Iterator[None]:
        """Notes what a statement changes that runs in the base session meanwhile. Blocks.

        A statement that is known to change the session is kept without a look at it: that takes 5 ms.
        """
        is_known = statement.kind.effect is Effect.SESSION
        if not is_known and self._last is None:
            self._last = self._driver.fingerprint()
        try:
            yield
        except BaseException:
            if self._has_changed(is_known and statement.kind.type not in _WHOLE_OR_NOT):
                self._changed(f"statement {request.name} ({statement.kind.type}) failed halfway")
            raise
        if self._has_changed(is_known):
            self._changed(_obstacle(request, statement) or self._no_room(statement))
            if self._obstacle is None:
                self._kept = (*self._kept, _alone(request, statement))

    def _has_changed(self, is_known: bool) -> bool:
        if is_known or self._last is None:
            self._last = None  # not looked at
            return is_known
        before, self._last = self._last, self._driver.fingerprint()
        return self._last != before

    def _changed(self, obstacle: str | None) -> None:
        self._is_changed = True
        self._obstacle = self._obstacle or obstacle

    def state(self) -> SessionState:
        """Returns what brings the changes back. Blocks."""
        return SessionState(statements=self._kept, digest=self.digest())

    def digest(self) -> str:
        """Returns a text that is equal for sessions that differ from what `init` leaves in the same way. Blocks."""
        now = _lines(self._driver.fingerprint())
        difference = (sorted(now - self._clean), sorted(self._clean - now))
        return hashlib.sha256(repr(difference).encode()).hexdigest()[:32]

    def _no_room(self, statement: Statement) -> str | None:
        chars = sum(len(request.sql) for request in self._kept) + len(statement.fragment.text)
        if len(self._kept) < MAX_STATEMENTS and chars <= MAX_CHARS:
            return None
        return f"more than {MAX_STATEMENTS} statements, or {MAX_CHARS} characters, have changed the session"


def _lines(fingerprint: str) -> frozenset[str]:
    """What of a fingerprint is the same in the next driver: not when a view was made."""
    return frozenset(line for line in fingerprint.splitlines() if not line.startswith("Created Time:"))


def _alone(request: SubmitRequest, statement: Statement) -> SubmitRequest:
    """The statement as one that could have been submitted by itself."""
    parameters = tuple(p for p in request.parameters if p.name in statement.names)
    return request.model_copy(update={"sql": statement.fragment.text, "parameters": parameters})


def _obstacle(request: SubmitRequest, statement: Statement) -> str | None:
    who = f"statement {request.name}"
    if any(p.secret and p.name in statement.names for p in request.parameters):
        return f"{who} has a value from a Secret, which is not stored"
    if statement.kind.dynamic or not statement.kind.in_init:
        return f"{who} ({statement.kind.type}) is not one that can be run again"
    return None
