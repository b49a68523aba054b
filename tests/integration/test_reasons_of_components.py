"""The tables of what Kubernetes and an object store answer have all that the sources of the tests' versions name."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.failure_tables import S3_CODES
from tests.support.kubernetes_reasons import ANSWERS, ENDS, WAITS

MODULES = Path(__file__).parents[1] / "cluster/modules"
_S3 = "github.com/versity/versitygw"
_ANSWER_OF_S3 = r'Code:\s*"([A-Z]\w+)",\s*(?:Description:.*\s*)?HTTPStatusCode:\s*http\.Status(\w+)'
_OF_ITS_ADMINISTRATION = "XAdmin"
_TEXT = r'"([\w() \'-]*)"'
_KUBELET = "pkg/kubelet"
_WORDS_OF_ERRORS = r'errors\.New\("([A-Z]\w+)"\)'  # the kubelet's errors whose texts are reasons
# The names of the constants by which the kubelet refuses a pod are in one list, here of its package.
_REFUSALS = re.compile(r"admissionRejectionReasons = sets\.New\[string\]\((.*?)\n\t\)", re.DOTALL)
# The reasons that container runtimes give an end: those of containerd and CRI-O.
_OF_RUNTIMES = {"Completed", "Error", "OOMKilled", "ContainerCannotRun", "StartError"}
# A pod that is rejected for its node's affinity has the name of the scheduler's plugin.
_OF_PLUGINS = {"NodeAffinity"}
_EXIT_CODES = {"heap of Spark", "executors failed", "SIGTERM", "SIGSEGV", "no reason"}
_LATER = {"ReasonOfALaterVersion"}


@cache
def folder_of(module: str) -> Path:
    """The sources of a module, in the version that the tests' Kubernetes is built from."""
    listed = ["go", "list", "-m", "-f", "{{.Dir}}", module]
    folder = MODULES / ("versitygw" if module == _S3 else "kubernetes")
    subprocess.run(["go", "mod", "download", module], cwd=folder, check=True, capture_output=True)
    return Path(subprocess.run(listed, cwd=folder, check=True, capture_output=True, text=True).stdout.strip())


def sources(module: str, path: str) -> Iterator[str]:
    found = folder_of(module) / path
    files = [found] if found.is_file() else sorted(found.rglob("*.go"))
    for file in files:
        if not file.name.endswith("_test.go"):
            yield file.read_text()


def found_in(module: str, path: str, pattern: str) -> set[str]:
    found = {word for text in sources(module, path) for word in re.findall(pattern, text, re.MULTILINE)}
    assert found, f"{module}/{path} has nothing of {pattern}"
    return found


def constant(name: str) -> str:
    """A pattern of a constant of Go with this name."""
    return rf"^\s*(?:const )?{name}\s*(?:string\s*)?=\s*{_TEXT}"


def refusals() -> set[str]:
    """The reasons with which the kubelet refuses a pod, by its own list of them."""
    (names,) = found_in(
        "k8s.io/kubernetes", f"{_KUBELET}/kubelet.go", _REFUSALS.pattern.replace("(.*?)", "([\\s\\S]*?)")
    )
    found = set()
    for package, name in re.findall(r"(\w+)\.(\w+),", names):
        where = "pkg/scheduler" if package == "tainttoleration" else _KUBELET
        (value,) = found_in("k8s.io/kubernetes", where, constant(name)) if name != "Reason" else {"Evicted"}
        found.add(value)
    return found


def ends() -> set[str]:
    kubelet = {
        *found_in("k8s.io/kubernetes", f"{_KUBELET}/eviction/helpers.go", constant("Reason")),
        *found_in("k8s.io/kubernetes", f"{_KUBELET}/active_deadline.go", constant("reason")),
        *found_in("k8s.io/kubernetes", f"{_KUBELET}/nodeshutdown", constant("nodeShutdownReason")),
        *found_in("k8s.io/kubernetes", f"{_KUBELET}/events/event.go", constant("PreemptContainer")),
        *found_in("k8s.io/kubernetes", f"{_KUBELET}/container/runtime.go", constant("ContainerReasonStatusUnknown")),
        *found_in("k8s.io/kubernetes", "pkg/util/node/node.go", constant("NodeUnreachablePodReason")),
    }
    return kubelet | refusals() | _OF_RUNTIMES | _OF_PLUGINS


def waits() -> set[str]:
    starting = "|".join(("ContainerCreating", "PodInitializing"))
    return {
        *found_in("k8s.io/kubernetes", _KUBELET, _WORDS_OF_ERRORS),
        *found_in("k8s.io/kubernetes", _KUBELET, rf'=\s*"({starting})"'),
        *found_in("k8s.io/cri-api", "pkg/errors", _WORDS_OF_ERRORS),
    }


def answers() -> set[str]:
    return found_in("k8s.io/apimachinery", "pkg/apis/meta/v1/types.go", r'^\s*StatusReason\w+ StatusReason = "(\w*)"')


@pytest.mark.parametrize(
    ("table", "named"),
    [
        pytest.param({name for name, *_ in ANSWERS}, answers, id="answers of the API server"),
        pytest.param({name for name, *_ in WAITS} - _LATER, waits, id="waiting reasons"),
        pytest.param({name for name, *_ in ENDS} - _LATER - _EXIT_CODES, ends, id="ends"),
    ],
)
def test_table_of_reasons_is_the_list_of_kubernetes(table: set[str], named: object) -> None:
    assert callable(named) and table == named()


def test_each_reason_has_a_justification() -> None:
    assert all(why for *_, why in (*ANSWERS, *WAITS, *ENDS))


def test_table_of_the_object_store_has_all_answers_of_the_source() -> None:
    text = "".join(sources(_S3, "s3err"))
    found = {(code, status.lower()) for code, status in re.findall(_ANSWER_OF_S3, text)}
    listed = {(code, status.name.lower().replace("_", "")) for status, codes in S3_CODES.items() for code in codes}
    assert len(found) > 50
    assert {each for each in found if not each[0].startswith(_OF_ITS_ADMINISTRATION)} <= listed
