"""Which cluster is used, by what the machine has."""

import dataclasses

import pytest
from localkube.config import Paths
from localkube.provider import Surroundings, choose
from localkube.shell import ClusterError

NOTHING = Surroundings(kubeconfig="", own_kubeconfig="/own", docker=False, kind=False, linux=False, root=False)


@pytest.mark.parametrize(
    ("around", "expected"),
    [
        ({"kubeconfig": "/other"}, "existing"),
        ({"kubeconfig": "/other", "docker": True, "kind": True, "linux": True, "root": True}, "existing"),
        ({"kubeconfig": "/own:/other", "linux": True, "root": True}, "existing"),
        ({"docker": True, "kind": True}, "kind"),
        ({"docker": True, "kind": True, "linux": True, "root": True}, "kind"),
        ({"kubeconfig": "/own", "docker": True, "kind": True}, "kind"),
        ({"linux": True, "root": True}, "local"),
        ({"kubeconfig": "/own", "linux": True, "root": True}, "local"),
        ({"docker": True, "linux": True, "root": True}, "local"),
        ({"kind": True, "linux": True, "root": True}, "local"),
    ],
)
def test_cluster_choice_prefers_an_existing_cluster_then_kind_then_local(
    around: dict[str, object], expected: str
) -> None:
    assert choose(dataclasses.replace(NOTHING, **around)) == expected


@pytest.mark.parametrize(
    ("around", "words"),
    [
        ({}, ["KUBECONFIG", "no Docker daemon", "not Linux"]),
        ({"docker": True}, ["kind is not installed", "not Linux"]),
        ({"linux": True}, ["no Docker daemon", "not root"]),
    ],
)
def test_no_way_names_what_is_missing(around: dict[str, object], words: list[str]) -> None:
    with pytest.raises(ClusterError) as caught:
        choose(dataclasses.replace(NOTHING, **around))
    assert all(word in str(caught.value) for word in words), caught.value


def test_paths_follow_the_environment() -> None:
    assert str(Paths.from_environment({"HOME": "/h"}).bin) == "/h/.cache/spark-sql-operator/bin"
    assert (
        str(Paths.from_environment({"HOME": "/h"}).kubeconfig)
        == "/h/.local/state/spark-sql-operator/cluster/kubeconfig"
    )
    moved = Paths.from_environment({"HOME": "/h", "XDG_CACHE_HOME": "/c", "XDG_STATE_HOME": "/s"})
    assert str(moved.bin) == "/c/spark-sql-operator/bin"
    assert str(moved.state) == "/s/spark-sql-operator/cluster"
