"""A driver pod counts as ended once its container was seen to have ended, whatever its phase says."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.cache import pod_ends as terminations
from sparksql.cache.pod_ends import PodTerminations
from sparksql.domain.session.snapshot import PodEnd

ENDED = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}


def pod(uid: str, state: dict[str, Any], phase: str = "Running", container: str = "spark") -> dict[str, Any]:
    containers = [{"name": container, "state": state}]
    return {"metadata": {"uid": uid, "name": uid}, "status": {"phase": phase, "containerStatuses": containers}}


@pytest.mark.parametrize(
    ("seen", "is_over"),
    [
        (pod("u", ENDED, "Failed"), True),
        (pod("u", ENDED), True),
        (pod("u", {"running": {}}), False),
        (pod("u", {"running": {}}, "Failed"), False),  # as of a lost node, by the pod collector
        (pod("u", ENDED, container="sidecar"), False),
        ({"metadata": {"uid": "u"}, "status": {"phase": "Failed", "reason": "Evicted"}}, False),
        ({"metadata": {"uid": "u"}}, False),
    ],
)
def test_driver_pod_counts_as_ended_only_when_the_driver_container_has_ended(
    seen: dict[str, Any], is_over: bool
) -> None:
    ends = PodTerminations()
    ends.observe(seen)
    assert (ends.end_of("u") is not None) is is_over


def test_an_end_stays_known_and_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminations, "_REMEMBERED", 2)
    ends = PodTerminations()
    for uid in ("a", "b", "c"):
        ends.observe(pod(uid, ENDED))
        ends.observe(pod(uid, {"running": {}}))  # an event that comes late
    assert [ends.end_of(uid) for uid in ("a", "b", "c")] == [None, PodEnd(), PodEnd()]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("EvictionByEvictionAPI", "EvictionByEvictionAPI"),
        ("PreemptionByScheduler", "PreemptionByScheduler"),
        ("DeletionByTaintManager", "DeletionByTaintManager"),
        ("DeletionByPodGC", "DeletionByPodGC"),  # its node does not exist any more
        ("TerminationByKubelet", None),  # also of a pod that used more than it may
    ],
)
def test_the_clusters_own_reasons_are_told_apart(reason: str, told: str | None) -> None:
    ends, taken = PodTerminations(), pod("u", ENDED, "Failed")
    taken["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": reason}]
    ends.observe(taken)
    assert ends.end_of("u") == PodEnd(told)
    assert ends.disruption_of("u") == told


def test_pod_whose_node_is_gone_is_a_disruption_without_an_end() -> None:
    ends, lost = PodTerminations(), pod("u", {"running": {}}, "Failed")
    lost["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}]
    ends.observe(lost)
    assert (ends.end_of("u"), ends.disruption_of("u")) == (None, "DeletionByPodGC")


def test_disruption_is_known_before_the_pod_has_ended() -> None:
    ends, taken = PodTerminations(), pod("u", {"running": {}})
    taken["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    ends.observe(taken)
    assert (ends.end_of("u"), ends.disruption_of("u")) == (None, "EvictionByEvictionAPI")


DELETED = {"deletionTimestamp": "2026-01-01T12:00:30Z", "deletionGracePeriodSeconds": 30}  # asked for at 12:00:00


def ended_at(time: str) -> dict[str, Any]:
    return {"terminated": {"exitCode": 143, "finishedAt": time}}


@pytest.mark.parametrize(
    ("states", "deleted"),
    [
        ([({"running": {}}, {}), ({"running": {}}, DELETED), (ended_at("2026-01-01T12:00:05Z"), DELETED)], True),
        ([({"running": {}}, DELETED)], True),
        ([(ended_at("2026-01-01T12:00:05Z"), DELETED)], True),  # the first look at it comes late
        ([(ended_at("2026-01-01T11:59:58Z"), DELETED)], False),  # it had ended before
        ([(ended_at("2026-01-01T12:00:05Z"), {}), (ended_at("2026-01-01T12:00:05Z"), DELETED)], False),
        ([(ended_at("2026-01-01T12:00:05Z"), {})], False),
        ([({"running": {}}, {})], False),
    ],
)
def test_driver_pod_that_is_deleted_before_its_driver_ends_is_known(
    states: list[tuple[dict[str, Any], dict[str, Any]]], deleted: bool
) -> None:
    ends = PodTerminations()
    for state, metadata in states:
        seen = pod("u", state)
        seen["metadata"] |= metadata
        ends.observe(seen)
    assert ends.was_deleted("u") is deleted
