"""Runs tests of a suite against an endpoint of HiveServer2."""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.suites.suites import Suite
from tests.conformance.target import Target

SECONDS = 7200  # of all tests of a suite, on a loaded machine
_OURS = ("DBT_", "PYTEST_", "PYTHON", "SPARK_", "COVERAGE_")


@dataclass(frozen=True)
class Outcome:
    """How a test ended. `message` is empty for one that passed or that the suite itself skips."""

    passed: bool
    message: str
    skipped: bool = False


def run(suite: Suite, work: Path, target: Target, tests: Sequence[str] = ()) -> dict[str, Outcome]:
    """Runs tests, by names as in the list of differences, all without any; returns how each ended.

    The clients' own TLS is tried elsewhere: they come by the near end of a tunnel. Raises AssertionError when pytest does not come to
    its end.
    """
    environment = suite.client.install()
    [root] = environment.glob(suite.root)
    work.mkdir(exist_ok=True)
    report = work / "report.xml"
    command = [
        environment / "bin" / "python",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        "-p",
        suite.plugin.stem,
        "-W",
        "ignore",
    ]
    command += [f"--rootdir={root}", f"--junitxml={report}", *suite.options]
    command += [f"{root}/{each}" for each in (map(suite.named, tests) if tests else suite.every)]
    done = subprocess.run(
        list(map(str, command)), cwd=work, env=_environment(suite, root, target), timeout=SECONDS, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert report.exists(), f"pytest ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return _outcomes(report, f"{suite.tests.replace('/', '.')}.")


def _environment(suite: Suite, root: Path, target: Target) -> Mapping[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_OURS)}
    port = str(target.tunnel)
    return {
        **kept,
        **suite.variables,
        "PYTHONPATH": os.pathsep.join(map(str, (suite.plugin.parent, root))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "ENDPOINT_PORT": port,
        "IMPYLA_TEST_PORT": port,
        "IMPYLA_TEST_HIVE_PORT": port,
        "DBT_ENV_SECRET_TOKEN": target.token,
        "ENDPOINT_TOKEN": target.token,
        "TZ": "UTC",
    }


def _outcomes(report: Path, prefix: str) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.attrib['classname'].removeprefix(prefix)}::{case.attrib['name']}"
        faults = [fault for kind in ("failure", "error") for fault in case.iter(kind)]
        text = "\n".join(f"{fault.attrib.get('message', '')}\n{fault.text or ''}" for fault in faults)
        earlier = found.get(name, Outcome(True, ""))  # pytest reports a failure in the teardown as a second case
        skipped = case.find("skipped") is not None
        found[name] = Outcome(earlier.passed and not faults, earlier.message + text, skipped)
    return found
