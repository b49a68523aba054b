"""Which suites there are, and how pytest runs each in the environment of its client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.conformance.clients import install
from tests.conformance.clients.install import Client

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Suite:
    """A client's tests.

    `tests` is their folder below `root`, a pattern below the environment of the client, and `plugin` a file of ours that says where the
    endpoint is. Without `modules` all are run.
    """

    client: Client
    root: str
    tests: str
    plugin: Path
    modules: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def every(self) -> tuple[str, ...]:
        """Returns pytest's arguments for all tests, below the root."""
        return tuple(f"{self.tests}/test_{module}.py" for module in self.modules) or (self.tests,)

    def named(self, test: str) -> str:
        """Returns pytest's argument for a test `folder.test_module.Class::test_x`, below the root."""
        place, _, name = test.partition("::")
        parts = place.split(".")
        module = next(index for index, part in enumerate(parts, 1) if part.startswith("test_"))
        return "::".join((f"{self.tests}/{'/'.join(parts[:module])}.py", *parts[module:], name))


def area(test: str) -> str:
    """Returns what a test belongs to: the first folder, or the module."""
    return test.partition("::")[0].partition(".")[0].removeprefix("test_")


SUITES: Mapping[str, Suite] = {
    "dbt-spark": Suite(
        client=install.DBT_TESTS,
        root="source/dbt_spark-*",
        tests="tests/functional/adapter",
        plugin=HERE / "dbt" / "endpoint.py",
        variables={
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
            **{f"DBT_TEST_USER_{n}": f"user{n}" for n in (1, 2, 3)},
            **{f"DBT_DATABRICKS_{name}": "" for name in ("HOST_NAME", "CLUSTER_NAME", "TOKEN")},  # read though not used
        },
    ),
    "impyla": Suite(
        client=install.IMPYLA_TESTS,
        root="lib/python*/site-packages",
        tests="impala/tests",
        plugin=HERE / "impyla" / "password.py",
        modules=(
            "data_types", "dbapi_compliance", "dbapi_connect", "hive", "hive_dict_cursor", "impala", "query_parameters",
            "thrift_api", "util",
        ),
        options=("--connect",),
        variables={"IMPYLA_TEST_HOST": "127.0.0.1", "IMPYLA_TEST_AUTH_MECH": "PLAIN"},
    ),
}  # fmt: skip
