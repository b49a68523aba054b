"""The operator's and the object store's image: unprivileged, complete, and nothing in them that does not belong there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.images.container import Container


@pytest.fixture(scope="module")
def operator(open_image: Callable[[str], Container]) -> Container:
    return open_image("localhost/spark-sql-operator:dev")


@pytest.fixture(scope="module")
def object_store(open_image: Callable[[str], Container]) -> Container:
    return open_image("localhost/spark-sql-objectstore:dev")


def test_operator_runs_as_a_numeric_unprivileged_user(operator: Container) -> None:
    assert operator.output("id", "-u") == "65532"


def test_operator_image_imports_the_operator_and_holds_no_gateway_or_spark(operator: Container) -> None:
    operator.run("python3", "-c", "import sparksql.operator")
    code = "import importlib.util as u; print([p for p in ('sparksql.gateway', 'sparksql.cli', 'pyspark', 'pip') if u.find_spec(p)])"
    assert operator.output("python3", "-c", code) == "[]"


def test_operator_image_has_no_build_tools(operator: Container) -> None:
    assert operator.run("sh", "-c", "command -v gcc pip git", check=False).stdout == ""


def test_object_store_image_is_unprivileged_and_makes_its_buckets(object_store: Container) -> None:
    assert object_store.output("id", "-u") == "65532"
    script = "BUCKETS='one two' ROOT_ACCESS_KEY= ROOT_SECRET_KEY= timeout 5 entrypoint.sh; ls /data"
    assert object_store.run("sh", "-c", script, check=False).stdout.split()[-2:] == ["one", "two"]
