"""The README's install and first session, as written: its targets, chart values, images and manifests fit each other."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.chart.helmchart import ROOT, helm
from tests.support.apiserver import ApiServer, binary

README = (ROOT / "README.md").read_text()
APP_VERSION = yaml.safe_load((ROOT / "charts/spark-sql-operator/Chart.yaml").read_text())["appVersion"]
BLOCK = re.compile(r"^```(console|yaml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def blocks(section: str, language: str) -> list[str]:
    """Code blocks of one section of the README."""
    titles = [*SECTION.finditer(README)]
    position = next(index for index, title in enumerate(titles) if title[1] == section)
    end = titles[position + 1].start() if position + 1 < len(titles) else len(README)
    return [text for kind, text in BLOCK.findall(README[titles[position].end() : end]) if kind == language]


def commands(section: str) -> list[list[str]]:
    """Commands of a section's blocks as words, without comments."""
    text = "\n".join(blocks(section, "console")).replace("\\\n", " ")
    return [words for line in text.splitlines() if (words := shlex.split(line, comments=True))]


MAKES = [words for section in ("Try it", "Install it") for words in commands(section) if words[0] == "make"]


@pytest.mark.parametrize("words", MAKES, ids=" ".join)
def test_targets_of_make_in_the_readme_exist(words: list[str]) -> None:
    made = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert made.returncode == 0, made.stderr


def install() -> list[dict[str, object]]:
    """Objects that the README's `helm install` makes."""
    words = next(words for words in commands("Install it") if words[0] == "helm")
    assert words[:2] == ["helm", "install"]
    rest = [word for word in words[2:] if word not in ("--wait", "--create-namespace")]
    rendered = helm("template", *(str(ROOT / word) if word.startswith("charts/") else word for word in rest))
    assert rendered.returncode == 0, rendered.stderr
    return [each for each in yaml.safe_load_all(rendered.stdout) if each]


def pushed(tmp_path: Path) -> set[str]:
    """Images that the README's `make push-images` pushes, by a builder that only notes its calls."""
    words = next(words for words in MAKES if words[1] == "push-images")
    made = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    line = next(line for line in made.stdout.splitlines() if "images/build.py" in line)
    calls = tmp_path / "calls"
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {calls}\n')
    docker.chmod(0o755)
    command = shlex.split(line.partition("images/build.py")[2])
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path)}
    script = [sys.executable, str(ROOT / "images/build.py"), *command]
    ran = subprocess.run(script, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    return {call.removeprefix("push ") for call in calls.read_text().splitlines() if call.startswith("push ")}


def test_images_of_the_installation_are_those_that_are_pushed(tmp_path: Path) -> None:
    used = set(re.findall(r"registry\.example/[\w./:-]+", json.dumps(install())))
    assert used == pushed(tmp_path)
    assert all(name.endswith(f":{APP_VERSION}") for name in used)


def test_push_without_a_registry_is_refused_with_the_argument_it_needs() -> None:
    made = subprocess.run(["make", "push-images"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert made.returncode == 2
    assert "make push-images REGISTRY=registry.example/team" in made.stderr


def test_class_of_the_installation_has_a_place_for_streams() -> None:
    spec = next(each["spec"] for each in install() if each["kind"] == "SqlSessionClass")
    assert isinstance(spec, dict)
    assert spec["storage"].keys() >= {"warehouse", "checkpointRoot", "savepointRoot"}
    assert all(str(root).startswith("s3a://lake/") for root in spec["storage"].values())


def test_first_session_of_the_readme_is_applied_without_a_further_step(installed: ApiServer) -> None:
    """The statement at the README's top fits into the same namespace."""
    kubectl = [str(binary("kubectl")), "--kubeconfig", str(installed.kubeconfig), "apply", "-f", "-"]
    top = BLOCK.search(README)
    assert top is not None
    for text in (*blocks("A first session, a first statement", "yaml"), top[2]):
        applied = subprocess.run(kubectl, input=text, capture_output=True, text=True, timeout=60, check=False)
        assert applied.returncode == 0, applied.stderr


def test_kubectl_commands_of_the_first_session_name_objects_of_its_manifest(installed: ApiServer) -> None:
    manifests = [*yaml.safe_load_all("\n".join(blocks("A first session, a first statement", "yaml")))]
    statements = {each["metadata"]["name"] for each in manifests if each["kind"] == "SqlStatement"}
    namespaces = {each["metadata"]["name"] for each in manifests if each["kind"] == "Namespace"}
    asked = [words for words in commands("A first session, a first statement") if "apply" not in words]
    assert asked
    for words in asked:
        assert words[:2] == ["kubectl", "-n"] and words[2] in namespaces, words
        named = {word.partition("/")[2] for word in words if word.startswith("sqlstmt/")} | {*words} & statements
        assert named and named <= statements, words
