"""What each answer of the API server and each word of the kubelet means for a session's start, and why.

A start that the environment refuses is repeated without end. One that the spec forbids is repeated as well, until the spec
changes: what admission refuses today may be allowed tomorrow. A driver that has ended counts towards the limit of restarts,
unless the cluster took it away.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from sparksql.api.reasons import Reason
from sparksql.controllers.session.pods import pod_snapshot
from sparksql.controllers.start_failures import violation_of
from sparksql.kube.errors import error_from
from tests.support.kubernetes_reasons import ANSWERS, ENDS, WAITS


@pytest.mark.parametrize(("reason", "status", "expected", "why"), ANSWERS)
def test_answer_of_the_api_server_has_a_reason_and_its_words(
    reason: str, status: int, expected: Reason, why: str
) -> None:
    error = error_from(status, json.dumps({"reason": reason, "message": "its own words"}).encode())
    violation = violation_of(error, "standard")
    assert (violation.reason, "its own words" in violation.message) == (expected, True), why


@pytest.mark.parametrize(("reason", "kind", "why"), WAITS)
def test_waiting_reason_of_a_container_is_a_problem_unless_it_starts_as_it_should(
    reason: str, kind: str | None, why: str
) -> None:
    found = pod_snapshot(pod({"state": {"waiting": {"reason": reason, "message": "its own words"}}}))
    problems = {"image": found.image_problem, "container": found.container_problem}
    expected = {each: f"{reason}: its own words" if each == kind else None for each in problems}
    assert problems == expected, why


@pytest.mark.parametrize(("name", "end", "expected", "why"), ENDS, ids=[name for name, *_ in ENDS])
def test_end_of_a_driver_has_the_kubelets_words_or_a_remedy(
    name: str, end: dict[str, Any], expected: str, why: str
) -> None:
    state = {"state": {"terminated": end["terminated"]}} if "terminated" in end else None
    rest = {key: value for key, value in end.items() if key != "terminated"}
    found = pod_snapshot(pod(state, phase="Failed", **rest))
    assert found.ended is not None and expected in found.ended, (found, why)


def pod(container: dict[str, Any] | None, **status: Any) -> dict[str, Any]:
    metadata = {"name": "s-1", "namespace": "team-a", "uid": "u", "creationTimestamp": "2026-01-31T08:00:00Z"}
    containers = [] if container is None else [{"name": "spark", **container}]
    return {"metadata": metadata, "spec": {}, "status": {"containerStatuses": containers, **status}}
