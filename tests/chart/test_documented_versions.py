"""The versions and sizes that the docs name are those of the images, the pins, the tests' cluster and the operator."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from sparksql.domain.session.memory import DEFAULT_MIN_OVERHEAD_MIB
from sparksql.domain.session.resolve import MIN_OVERHEAD_MIB, OVERHEAD_FACTOR, PYTHON_OVERHEAD_MIB
from tests.chart.helmchart import CHART, ROOT
from tests.chart.test_guides import blocks, words

OPERATIONS = ROOT / "docs" / "operations"
MODULES = ROOT / "tests" / "cluster" / "modules"
CLIENT_PIN = re.compile(r"^[\w-]+(?:\[\w+\])?==[\d.]+$")


def table(page: Path, section: str) -> dict[str, list[str]]:
    """Rows of the last table of a section by their first cells."""
    text = page.read_text()
    part = text[text.index(f"## {section}\n") :].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in rows}


def jar(artifact: str, profile: str = "4.1") -> str:
    """Version of an artifact of the session image, for one line of Spark."""
    pom = (ROOT / "images/session/jars/pom.xml").read_text()
    common, _, profiles = pom.partition("<profiles>")
    chosen = next(each for each in profiles.split("<profile>") if f"<id>spark-{profile}</id>" in each)
    found = re.search(rf"<artifactId>{artifact}[^<]*</artifactId>\s*<version>([^<]+)<", chosen + common)
    assert found is not None, artifact
    name = found[1].removeprefix("${").removesuffix("}")
    value = re.search(rf"<{re.escape(name)}>([^<]+)<", chosen + common)
    return value[1] if value is not None else name


def module(name: str, path: str) -> str:
    found = re.search(rf"{re.escape(path)} v(\S+)", (MODULES / name / "go.mod").read_text())
    assert found is not None
    return found[1]


def extra(package: str) -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins: list[str] = [pin for group in project["optional-dependencies"].values() for pin in group]
    return next(pin for pin in pins if pin.startswith(f"{package}==")).partition("==")[2]


def java() -> str:
    found = re.search(r"openjdk-(\d+)-jre", (ROOT / "images/session/Dockerfile").read_text())
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("part", "version"),
    [
        ("kopf", extra("kopf")),
        ("Spark", extra("pyspark")),
        ("Java in the session image", java()),
        ("Iceberg", jar("iceberg-spark-runtime")),
        ("Delta", jar("delta-spark")),
        ("Kafka client in the session image", jar("kafka-clients")),
        ("PostgreSQL driver", jar("postgresql")),
        ("Hadoop, with `s3a`", jar("hadoop-aws")),
    ],
)
def test_version_of_a_part_is_the_one_that_is_built(part: str, version: str) -> None:
    assert table(OPERATIONS / "compatibility.md", "The parts")[part][0] == version


@pytest.mark.parametrize(
    ("part", "version"),
    [
        ("Kubernetes", module("kubernetes", "k8s.io/kubernetes")),
        ("Helm", module("helm", "helm.sh/helm/v4")),
    ],
)
def test_version_of_the_cluster_is_the_one_that_the_tests_build(part: str, version: str) -> None:
    assert table(OPERATIONS / "compatibility.md", "The parts")[part][1] == version


def test_oldest_kubernetes_of_the_page_is_the_one_that_the_chart_takes() -> None:
    oldest = yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"]
    assert oldest == ">=1.30.0-0"
    assert table(OPERATIONS / "compatibility.md", "The parts")["Kubernetes"][0].startswith("1.30 or later")


def test_lines_of_spark_of_the_page_are_those_of_the_images() -> None:
    rows = (line for line in (ROOT / "images/README.md").read_text().splitlines() if re.match(r"\| 4\.\d \|", line))
    images = {cells[0]: cells[1:] for line in rows for cells in [[cell.strip() for cell in line.strip("|").split("|")]]}
    page = table(OPERATIONS / "compatibility.md", "Spark versions")
    assert {line: [cell.replace("no", "-") for cell in page[line]] for line in images} == images


def test_clients_of_the_page_are_those_that_the_tests_run() -> None:
    """Each number of a version in the tests' table is in the page's table, and the other way round."""
    numbers = re.compile(r"\d+\.\d+\.\d+")
    tested = [line for line in (ROOT / "tests/conformance/README.md").read_text().splitlines() if line.startswith("| ")]
    table_of_clients = tested[: next(i for i, line in enumerate(tested) if line.startswith("| file"))]
    rows = table(OPERATIONS / "compatibility.md", "Clients").values()
    assert set(numbers.findall(" ".join(map(" ".join, rows)))) == set(numbers.findall(" ".join(table_of_clients)))


def test_clients_that_pages_install_are_those_that_the_tests_run() -> None:
    tested = set(re.findall(r"\d+\.\d+\.\d+", (ROOT / "tests/conformance/README.md").read_text())) | {extra("pyspark")}
    lines = [words(line) for block in blocks("console") for line in block.text.splitlines() if "pip install" in line]
    pinned = [word for line in lines for word in line if CLIENT_PIN.match(word)]
    assert pinned
    assert [word for word in pinned if word.partition("==")[2] not in tested] == []


@pytest.mark.parametrize("heap", ["1Gi", "2Gi", "4Gi", "8Gi"])
def test_memory_of_pods_of_the_page_is_what_the_operator_requests(heap: str) -> None:
    mib = int(heap.removesuffix("Gi")) * 1024
    overhead = int(mib * OVERHEAD_FACTOR)
    driver = mib + max(MIN_OVERHEAD_MIB, overhead) + PYTHON_OVERHEAD_MIB
    executor = mib + max(DEFAULT_MIN_OVERHEAD_MIB, overhead)
    assert table(OPERATIONS / "sizing.md", "Memory of a pod")[heap] == [f"{driver}Mi", f"{executor}Mi"]
