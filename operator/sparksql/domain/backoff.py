"""Backoff as a pure function of the number of failures."""

from __future__ import annotations


def exponential(failures: int, first: float, most: float) -> float:
    """Returns the seconds to wait after `failures` (1 or more) failures in a row: `first`, doubled each time, at most `most`."""
    return float(min(most, first * 2 ** min(max(failures, 1) - 1, 30)))
