"""Spark's own tests of SQL through the protocols of a driver: what their golden files have, but for the differences that are listed.

`make test` takes a sample, `make test-thorough` all files through all protocols.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sqlsuite import page, suite
from tests.sqlsuite.comparing import ProtocolName
from tests.sqlsuite.listing import parse
from tests.sqlsuite.place import Place
from tests.sqlsuite.reasons import REASONS
from tests.sqlsuite.running import differences
from tests.support.thorough import thorough_but

LISTING = parse(page.LIST.read_text())
SAMPLE = {
    ProtocolName.REST: ["cte.sql", "describe-query.sql", "map.sql", "udf/udf-count.sql"],
    ProtocolName.CONTROL: ["literals.sql", "change-column.sql", "postgreSQL/limit.sql"],
    ProtocolName.THRIFT: ["binary_hex.sql", "timestamp-ntz.sql"],
    ProtocolName.CONNECT: ["typeCoercion/native/mapZipWith.sql", "variant-field-extractions.sql"],
}
RUNS = [(protocol, name) for protocol in ProtocolName for name in LISTING]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("sqlsuite"))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("protocol", "name"), thorough_but([(p, name) for p, names in SAMPLE.items() for name in names], RUNS)
)
async def test_file_of_spark_differs_in_what_is_listed_alone(place: Place, protocol: ProtocolName, name: str) -> None:
    found = await differences(place, protocol, name)
    listed = {(each.number, each.kind) for each in LISTING[name].differences.get(protocol, ())}
    unlisted = [each for each in found if (each.number, each.kind) not in listed]
    gone = listed - {(each.number, each.kind) for each in found}
    assert not unlisted, "\n\n".join(each.shown for each in unlisted)
    assert not gone, f"listed, but as Spark's now: {sorted(gone)}; python -m tests.sqlsuite.generate {name}"


def test_every_file_of_spark_is_listed_with_its_statements() -> None:
    assert {name: file.statements for name, file in LISTING.items()} == {
        name: len(suite.read(name).statements) for name in suite.names()
    }


def test_every_difference_has_a_reason_and_the_page_shows_it() -> None:
    given = {each.reason for file in LISTING.values() for found in file.differences.values() for each in found}
    assert given - REASONS.keys() == set()
    assert page.rendered(page.PAGE.read_text(), LISTING) == page.PAGE.read_text()
