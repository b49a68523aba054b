"""What holds at every level."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# A shell that starts the tests in the background leaves SIGINT ignored, and every child would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Properties hold at any speed: what a loaded machine takes for one example says nothing of them. CI takes the same examples each
# time, so that it judges the change and not its luck; whoever develops gets others with each run.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "thorough: a further draw or combination of what another test shows in one; `make test` leaves it out",
    )
