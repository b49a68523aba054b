"""Helm, the chart, and the parsed output of `helm template`."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.apiserver import binary

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "spark-sql-operator"
OBJECT_STORE = ("objectStore.enabled=true", "objectStore.accessKey=demo", "objectStore.secretKey=demo-secret")
HELM_SECONDS = 300


@dataclass(frozen=True)
class Rendered:
    """The objects that `helm template` wrote."""

    objects: tuple[dict[str, Any], ...]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.objects if each["kind"] == kind]

    def one(self, kind: str, name: str) -> dict[str, Any]:
        found = [each for each in self.of_kind(kind) if each["metadata"]["name"] == name]
        assert len(found) == 1, f"{kind}/{name}: {len(found)} of {[e['metadata']['name'] for e in self.of_kind(kind)]}"
        return found[0]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(binary("helm")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=HELM_SECONDS, check=False)


def set_flags(values: tuple[str, ...]) -> list[str]:
    return [part for value in values for part in ("--set", value)]


def render(*values: str) -> Rendered:
    """Objects of a release `sso` in namespace `sys` with `--set` values."""
    result = helm("template", "sso", str(CHART), "--namespace", "sys", *set_flags(values))
    assert result.returncode == 0, result.stderr
    return Rendered(tuple(each for each in yaml.safe_load_all(result.stdout) if each))


def release(kubeconfig: Path, *values: str) -> None:
    """Installs or upgrades the release `sso` in namespace `sys`, with the chart's own object store."""
    target = ("--namespace", "sys", "--create-namespace", "--kubeconfig", str(kubeconfig))
    result = helm("upgrade", "--install", "sso", str(CHART), *target, *set_flags((*OBJECT_STORE, *values)))
    assert result.returncode == 0, result.stderr
