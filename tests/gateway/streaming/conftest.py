"""One Kafka broker for all modules whose tests ask for it; each test names topics of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .kafka_broker import Broker, running_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("kafka")) as started:
        yield started
