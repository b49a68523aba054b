"""The two ways a step may fail to finish. What follows from each is decided by the controller and the loop alone.

Any other exception that leaves a reconcile is a defect and is retried as `Transient` is.
"""

from __future__ import annotations


class Waiting(Exception):
    """Nothing is wrong, something is not there yet: look again after `after` seconds."""

    def __init__(self, after: float) -> None:
        super().__init__(f"look again after {after:g} s")
        self.after = after


class Transient(Exception):
    """The outside failed and may recover: retry with backoff. `cause` is the error as caught, fit to be logged.

    `at_least` is the seconds that the outside asks to be left alone; the loop bounds them.
    """

    def __init__(self, cause: BaseException, at_least: float = 0.0) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.cause = cause
        self.at_least = at_least
