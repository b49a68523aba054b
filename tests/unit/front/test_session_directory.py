"""What the front knows of sessions and classes, by what watches tell."""

from __future__ import annotations

from typing import Any

from sparksql.api.session_class import Share
from sparksql.front.directory import CLASS, SESSION, Directory
from sparksql.front.model import SessionKey
from sparksql.wire.control import ClientProtocol
from sparksql.wire.front import new_handle

KEY = SessionKey("team-a", "main")


def session(uid: str = "u1", phase: str = "Ready", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "team-a", "name": "main", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {},
        "status": {"phase": phase, **status},
    }


def session_class(name: str, created: str, default: str = "true", **front: Any) -> dict[str, Any]:
    annotations = {"sparksql.dev/is-default-class": default}
    metadata = {"name": name, "creationTimestamp": created, "annotations": annotations}
    return {"metadata": metadata, "spec": {"front": front} if front else {}}


def test_a_session_is_found_by_name_and_by_handles_of_its_driver() -> None:
    directory = Directory()
    driver = {"podIP": "10.0.0.1", "certificate": "PEM"}
    directory.take(SESSION, "ADDED", session(endpoints={"rest": "https://x"}, driver=driver))
    found = directory.find(KEY)
    assert found is not None and found.protocols == {ClientProtocol.REST} and found.host == "10.0.0.1"
    assert directory.by_handle(new_handle("u1")) == found
    assert directory.by_handle(new_handle("u2")) is None


def test_a_successor_of_the_name_is_another_session() -> None:
    directory = Directory()
    directory.take(SESSION, "ADDED", session("u1"))
    directory.take(SESSION, "ADDED", session("u2"))
    directory.take(SESSION, "DELETED", session("u1"))  # late
    assert directory.by_handle(new_handle("u1")) is None
    found = directory.find(KEY)
    assert found is not None and found.uid == "u2" and directory.by_handle(new_handle("u2")) == found
    directory.drop([KEY])
    assert directory.find(KEY) is None and directory.by_handle(new_handle("u2")) is None


def test_an_older_word_of_a_session_changes_nothing() -> None:
    directory = Directory()
    for version, phase in (("7", "Ready"), ("5", "Starting"), ("8", "Hibernated")):
        obj = session(phase=phase)
        obj["metadata"]["resourceVersion"] = version
        directory.take(SESSION, None, obj)
        found = directory.find(KEY)
        assert found is not None and found.phase == ("Hibernated" if version == "8" else "Ready")


async def test_whoever_waits_for_a_session_is_told_of_each_change() -> None:
    directory = Directory()
    with directory.watching(KEY) as changed:
        directory.take(SESSION, "ADDED", session())
        assert changed.is_set()
        changed.clear()
        directory.take(SESSION, "DELETED", session())
        assert changed.is_set()


def test_the_newest_default_class_says_how_sessions_are_shared() -> None:
    directory = Directory()
    assert (directory.policy.class_name, directory.policy.share) == (None, Share.USER)
    directory.take(CLASS, None, session_class("z", "2026-01-01T00:00:00Z", share="Named"))
    directory.take(CLASS, None, session_class("a", "2026-01-02T00:00:00Z", share="Connection", maxSessionsPerUser=3))
    directory.take(CLASS, None, session_class("other", "2026-01-03T00:00:00Z", default="false", share="Named"))
    policy = directory.policy
    assert (policy.class_name, policy.share, policy.max_sessions_per_user) == ("a", Share.CONNECTION, 3)
    directory.take(CLASS, "MODIFIED", session_class("a", "2026-01-02T00:00:00Z", default="false"))
    assert directory.policy.share is Share.NAMED
    directory.take(CLASS, "DELETED", session_class("z", "2026-01-01T00:00:00Z"))
    assert directory.policy.class_name is None
