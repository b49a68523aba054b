"""Parameters of tests of which `make test` takes some, and `make test-thorough` all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def thorough_but(kept: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """Returns the values for `parametrize`; those that are not among the kept ones are marked thorough.

    A value of several parameters is a tuple.
    """
    chosen = list(kept)
    every = list(values)
    unknown = [each for each in chosen if each not in every]
    assert not unknown, f"no such values: {unknown}"
    return [
        each
        if each in chosen
        else pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=pytest.mark.thorough)
        for each in every
    ]
