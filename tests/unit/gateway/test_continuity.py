"""Ids of topics in a checkpoint, and files that were replaced after they were read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.streaming.continuity.read_files import read_times, replaced
from sparksql.gateway.streaming.continuity.topics import (
    Recreated,
    UnreadableIdsError,
    ids_from_json,
    ids_to_json,
    kept,
    recreated,
)

ids = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(("1", "2", "3")))


@given(sources=st.lists(ids))
def test_ids_survive_their_file(sources: list[dict[str, str]]) -> None:
    assert [*ids_from_json(ids_to_json(sources))] == sources


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 2, "topics": []}', '{"version": 1, "topics": [1]}'])
def test_a_file_that_holds_no_ids_is_refused(text: str) -> None:
    with pytest.raises(UnreadableIdsError):
        ids_from_json(text)


@given(before=ids, now=ids, read=st.frozensets(st.sampled_from("abcd")))
def test_a_topic_made_anew_is_found_until_its_query_may_lose_rows(
    before: dict[str, str], now: dict[str, str], read: frozenset[str]
) -> None:
    found = recreated(before, now, read)
    assert {each.topic for each in found} == {
        topic for topic in read if topic in before and topic in now and before[topic] != now[topic]
    }
    assert recreated(kept(before, now, read, may_lose=True), now, read) == ()


def test_the_id_of_a_topic_that_is_away_stays_known() -> None:
    later = kept({"a": "1"}, {}, {"a"}, may_lose=False)
    assert recreated(later, {"a": "2"}, {"a"}) == (Recreated("a", "1", "2"),)
    assert kept({"a": "1"}, {}, {"a"}, may_lose=True) == {}
    assert recreated({"a": "1"}, {"a": "2"}, set()) == (), "it is read from its first record"


@pytest.mark.parametrize(
    ("before", "now", "is_replaced"),
    [
        (1_250, 1_250, False),
        (1_250, 1_500, True),  # within one second
        (1_250, 1_000, False),  # an answer of whole seconds
        (1_000, 1_250, False),
        (1_000, 2_000, True),
        (1_999, 2_000, True),
    ],
)
def test_replaced_file_has_another_time_of_modification(before: int, now: int, is_replaced: bool) -> None:
    assert replaced({"f": before}, {"f": now}) == (["f"] if is_replaced else [])


def test_a_file_is_replaced_when_its_second_of_modification_is_another_one() -> None:
    entries = [("file:///f/a%20b", 1_500), ("file:///f/c", 2_000), ("file:///f/later", 9)]
    lines = [json.dumps({"path": path, "timestamp": time, "batchId": n}) for n, (path, time) in enumerate(entries)]
    read = read_times({"1.compact": "\n".join(["v1", *lines[:2]]), "0": "v1\nnot read", "2": f"v1\n{lines[2]}"}, 1)
    assert read == {"file:///f/a b": 1_500, "file:///f/c": 2_000}
    assert replaced(read, {"file:///f/a b": 1_000, "file:///f/c": 2_999, "file:///f/d": 5}) == []
    assert replaced(read, {"file:///f/a b": 2_000, "file:///f/c": 1_999}) == ["file:///f/a b", "file:///f/c"]
