"""The pages that people follow step by step: their manifests, commands and links are true.

Each YAML block is a manifest that the API server accepts, values that the chart renders, or a file of another program. Each command of the
plugin is parsed by its own parser. `make docs` checks the same links in the site.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparksql.cli.main import build_parser
from tests.chart.helmchart import CHART, ROOT, helm
from tests.support.apiserver import ApiServer, binary

DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *(DOCS / name for name in ("index.md", "features.md", "repository.md")),
    *sorted(page for page in DOCS.glob("*/*.md") if page.parent.name != "decisions"),
]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
CONCEPT_WORDS = 1200
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")
OTHER_APIS = {"argoproj.io", "snapshot.storage.k8s.io"}
"""Groups of other projects, whose resource definitions are not installed here."""
OPERATORS = frozenset("|;&><()")
"""What ends a command in a shell, as `shlex` gives it."""
CLASS_CONF = "# conf of a class"
VALUES = ("# values.yaml", "# more-values.yaml")
FILES_OF_PROGRAMS = ("# profiles.yml", "# config.yaml", "# .github/workflows/manifests.yml")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    number: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}-{self.number}"

    @property
    def title(self) -> str:
        return self.text.splitlines()[0]


def blocks(*languages: str) -> list[Block]:
    return [
        Block(name, number, *found)
        for name, page in zip(NAMES, PAGES, strict=True)
        for number, found in enumerate(FENCE.findall(page.read_text()), 1)
        if found[0] in languages
    ]


def documents(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each]


def is_manifest(block: Block) -> bool:
    return all("kind" in each for each in documents(block.text))


YAML = blocks("yaml")
MANIFESTS = [block for block in YAML if is_manifest(block)]
OTHERS = [block for block in YAML if not is_manifest(block)]


PROSE = [(name, FENCE.sub("", page.read_text())) for name, page in zip(NAMES, PAGES, strict=True)]


def lines(block: Block) -> Iterator[str]:
    """Command lines of a block, continued ones as one."""
    line = ""
    for part in block.text.splitlines():
        line += part
        if line.endswith("\\"):
            line = line[:-1] + " "
            continue
        yield line
        line = ""


def words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def commands(*names: str) -> list[tuple[str, list[str]]]:
    """Calls that begin with `names`: in console blocks, in scripts within manifests, and with arguments in a sentence."""
    found = []
    texts = [(str(block), line) for block in blocks("console") for line in lines(block)]
    texts += [(str(block), script) for block in MANIFESTS for script in scripts(documents(block.text))]
    code = [(name, code) for name, text in PROSE for code in INLINE.findall(text)]
    texts += [
        (f"{name}-0", call)
        for name, call in code
        if call.startswith(" ".join(names)) and len(call.split()) > len(names) + 1
    ]
    for place, line in texts:
        parts = words(line)
        for start in range(len(parts)):
            if tuple(parts[start : start + len(names)]) == names:
                rest = parts[start + len(names) :]
                end = next((at for at, part in enumerate(rest) if part and set(part) <= OPERATORS), len(rest))
                found.append((place, rest[:end]))
    return found


def scripts(value: object) -> Iterator[str]:
    """Texts of shell scripts in a manifest: `args` behind `sh -c`."""
    if isinstance(value, dict):
        if value.get("command") == ["/bin/sh", "-c"]:
            yield value["args"][0].replace("\\\n", " ").replace("\n", " ; ")
        for each in value.values():
            yield from scripts(each)
    elif isinstance(value, list):
        for each in value:
            yield from scripts(each)


@pytest.fixture(scope="module")
def namespaces(installed: ApiServer) -> ApiServer:
    used = {each["metadata"].get("namespace") for block in MANIFESTS for each in documents(block.text)} - {None}
    there = {each["metadata"]["name"] for each in installed.request("GET", "/api/v1/namespaces").body["items"]}
    for name in sorted(used - there):
        response = installed.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        assert response.status == 201, response.message
    return installed


@pytest.mark.parametrize("block", MANIFESTS, ids=str)
def test_manifest_of_a_page_is_accepted_by_the_api_server(namespaces: ApiServer, block: Block) -> None:
    ours = [each for each in documents(block.text) if each["apiVersion"].partition("/")[0] not in OTHER_APIS]
    if not ours:
        return
    command = [str(binary("kubectl")), "--kubeconfig", str(namespaces.kubeconfig), "create"]
    created = subprocess.run(
        [*command, "--dry-run=server", "--validate=strict", "-f", "-"],
        input=yaml.safe_dump_all(ours),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    problems = [line for line in created.stderr.splitlines() if "already exists" not in line]
    assert problems == []


@pytest.mark.parametrize("block", [block for block in OTHERS if block.title in VALUES], ids=str)
def test_values_of_a_page_are_rendered_by_the_chart(tmp_path: Path, block: Block) -> None:
    """Also each key of the values is one of the chart's, by its schema."""
    (tmp_path / "values.yaml").write_text(block.text)
    rendered = helm("template", "sso", str(CHART), "--namespace", "sys", "--values", str(tmp_path / "values.yaml"))
    assert rendered.returncode == 0, rendered.stderr


@pytest.mark.parametrize("block", [block for block in OTHERS if block.title == CLASS_CONF], ids=str)
def test_configuration_of_a_class_is_flat_text(block: Block) -> None:
    (conf,) = documents(block.text)
    assert {key for key, value in conf.items() if not isinstance(value, str) or not key.startswith("spark.")} == set()


def test_yaml_that_is_no_manifest_is_named_by_its_first_line() -> None:
    known = (*VALUES, CLASS_CONF, *FILES_OF_PROGRAMS)
    assert [str(block) for block in OTHERS if block.title not in known] == []


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_of_a_page_is_parsed(block: Block) -> None:
    ast.parse(block.text)


@pytest.mark.parametrize(("place", "arguments"), commands("kubectl", "sparksql"))
def test_plugin_command_of_a_page_is_parsed_by_the_plugin(place: str, arguments: list[str]) -> None:
    build_parser().parse_args(arguments)


@pytest.mark.parametrize(("place", "arguments"), commands("make"))
def test_make_target_of_a_page_exists(place: str, arguments: list[str]) -> None:
    made = subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert made.returncode == 0, made.stderr


@pytest.mark.parametrize(
    ("place", "arguments"), [call for call in commands("helm", "install") if "values.yaml" in call[1]]
)
def test_helm_command_of_a_page_renders_the_values_beside_it(tmp_path: Path, place: str, arguments: list[str]) -> None:
    page = place.rpartition("-")[0]
    (values,) = (block for block in OTHERS if block.page == page and block.title == VALUES[0])
    (tmp_path / "values.yaml").write_text(values.text)
    paths = {"values.yaml": str(tmp_path / "values.yaml"), "charts/spark-sql-operator": str(CHART)}
    rendered = helm("template", *(paths.get(word, word) for word in arguments if word != "--wait"))
    assert rendered.returncode == 0, rendered.stderr
    (made,) = (each for each in documents(rendered.stdout) if each["kind"] == "SqlSessionClass")
    assert made["spec"]["storage"].keys() == {"warehouse", "checkpointRoot", "savepointRoot", "resultRoot"}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_file_that_a_command_of_a_page_applies_is_a_block_of_the_page(page: Path) -> None:
    name = str(page.relative_to(ROOT))
    applied = {words[-1] for place, words in commands("kubectl", "apply") if place.rpartition("-")[0] == name}
    titles = {block.title.removeprefix("# ") for block in MANIFESTS if block.page == name}
    assert applied <= titles


@cache
def anchors(page: Path) -> frozenset[str]:
    """Anchors of a page's headings, as GitHub and MkDocs make them, and those that it sets itself."""
    text = FENCE.sub("", page.read_text())
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
    return frozenset(slugs | set(re.findall(r'<a id="([^"]+)">', text)))


def broken(page: Path) -> Iterator[str]:
    for path, anchor in LINK.findall(page.read_text()):
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield path
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{path}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_and_anchors_of_a_page_exist(page: Path) -> None:
    assert list(broken(page)) == []


@pytest.mark.parametrize("page", sorted(DOCS.glob("concepts/*.md")), ids=lambda page: page.stem)
def test_page_of_a_concept_is_short_and_has_a_picture(page: Path) -> None:
    text = page.read_text()
    assert len(text.split()) < CONCEPT_WORDS
    assert "```mermaid" in text or "```text" in text


def test_every_page_of_the_docs_is_in_the_navigation_of_the_site() -> None:
    """Decision records need not be: their index may lead to them."""
    text = (ROOT / "mkdocs.yml").read_text()
    listed = re.findall(r"^ +- [^:]+: ([\w/-]+\.md)$", text, re.MULTILINE)
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert sorted(listed) == sorted({*listed} & pages)
    assert {page for page in pages - {*listed} if not page.startswith("decisions/")} == set()
