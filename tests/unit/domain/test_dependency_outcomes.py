"""What `dependsOn` allows: go on, wait, or give up; a cycle is found before a failed dependency, for each member."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.statement import StatementPhase as Phase
from sparksql.domain.statement.dependencies import Cycle, Failed, Met, Outcome, Unmet, evaluate, find_cycle

Graph = Mapping[str, Sequence[str]]
NAMES = "abcdefg"
GRAPHS = st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), unique=True, max_size=3))
PHASES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([None, *Phase]))


def outcome(graph: Graph, phases: Mapping[str, Phase | None], *, name: str = "me", met: Sequence[str] = ()) -> Outcome:
    return evaluate(name, graph.get(name, ()), met, phases.get, lambda n: graph.get(n, ()))


def reachable(graph: Graph, start: str) -> set[str]:
    """Names that a path of at least one edge leads to."""
    found: set[str] = set()
    border = set(graph.get(start, ()))
    while border:
        found |= border
        border = {n for b in border for n in graph.get(b, ())} - found
    return found


def test_statement_without_dependencies_goes_on() -> None:
    assert outcome({}, {}) == Met()


def test_finished_dependencies_count_as_met_and_are_recorded() -> None:
    assert outcome({"me": ["a", "b"]}, {"a": Phase.FINISHED, "b": Phase.FINISHED}) == Met(("a", "b"))


def test_unfinished_and_missing_dependencies_are_reported_apart() -> None:
    phases = {"a": Phase.FINISHED, "b": Phase.RUNNING, "d": Phase.INITIALIZED}
    assert outcome({"me": ["a", "b", "c", "d"]}, phases) == Unmet(("a",), ("b", "d"), ("c",))


@pytest.mark.parametrize("phase", [Phase.ERROR, Phase.CANCELED, Phase.CLOSED, Phase.TIMED_OUT])
def test_dependency_that_ends_other_than_finished_fails_its_dependant(phase: Phase) -> None:
    assert outcome({"me": ["a", "b"]}, {"a": Phase.FINISHED, "b": phase}) == Failed("b", phase)


@pytest.mark.parametrize("later", [None, Phase.ERROR, Phase.INITIALIZED])
def test_dependency_met_once_stays_met_after_its_deletion_or_another_run(later: Phase | None) -> None:
    """Deleted by its TTL, or run again: the dependant has its answer."""
    assert outcome({"me": ["a"]}, {"a": later}, met=["a"]) == Met(("a",))


def test_met_names_that_are_no_dependencies_are_dropped() -> None:
    assert outcome({"me": ["a"]}, {}, met=["a", "x"]) == Met(("a",))


def test_cycle_comes_before_failure() -> None:
    graph = {"me": ["a", "b"], "b": ["me"]}
    assert outcome(graph, {"a": Phase.ERROR}) == Cycle(("me", "b", "me"))


def test_statement_that_depends_on_itself_is_a_cycle() -> None:
    assert outcome({"me": ["me"]}, {}) == Cycle(("me", "me"))


def test_statement_that_depends_on_a_cycle_member_fails_with_it_not_as_a_cycle() -> None:
    """Members of a cycle end in DependencyCycle; who depends on a member then sees that it failed."""
    graph = {"me": ["a"], "a": ["b"], "b": ["a"]}
    assert outcome(graph, {}) == Unmet((), (), ("a",))
    assert outcome(graph, {"a": Phase.ERROR}) == Failed("a", Phase.ERROR)


def test_a_long_chain_is_no_problem() -> None:
    chain = {str(n): [str(n + 1)] for n in range(20_000)}
    assert find_cycle("0", lambda n: chain.get(n, ())) is None
    closed = {**chain, "20000": ["0"]}
    path = find_cycle("0", lambda n: closed.get(n, ()))
    assert path is not None and len(path) == 20_002


@given(GRAPHS, st.sampled_from(NAMES))
def test_dependency_cycle_is_found_if_and_only_if_the_graph_has_a_cycle(graph: Graph, name: str) -> None:
    path = find_cycle(name, lambda n: graph.get(n, ()))
    assert (path is not None) == (name in reachable(graph, name))
    if path is not None:
        assert path[0] == path[-1] == name
        assert all(after in graph[before] for before, after in itertools.pairwise(path))
        assert len(set(path)) == len(path) - 1


@given(GRAPHS, st.sampled_from(NAMES))
def test_every_member_of_a_dependency_cycle_finds_the_cycle(graph: Graph, name: str) -> None:
    path = find_cycle(name, lambda n: graph.get(n, ()))
    for member in path or ():
        assert isinstance(outcome(graph, {}, name=member), Cycle)


@given(GRAPHS, PHASES, st.sets(st.sampled_from(NAMES)), st.sampled_from(NAMES))
def test_each_dependency_has_one_place(
    graph: Graph, phases: Mapping[str, Phase | None], met: set[str], name: str
) -> None:
    wanted = graph.get(name, ())
    match outcome(graph, phases, name=name, met=sorted(met)):
        case Met(names):
            assert names == tuple(wanted)
            assert all(d in met or phases.get(d) is Phase.FINISHED for d in wanted)
        case Unmet(done, waiting, missing):
            assert sorted((*done, *waiting, *missing)) == sorted(wanted)
            assert waiting or missing
            assert all(phases.get(d) is None for d in missing)
        case Failed(dependency, phase):
            assert dependency in wanted
            assert dependency not in met
            assert phases.get(dependency) is phase
        case Cycle(path):
            assert path[0] == name


@given(GRAPHS, PHASES, st.sampled_from(NAMES))
def test_met_names_are_never_lost(graph: Graph, phases: Mapping[str, Phase | None], name: str) -> None:
    """What one evaluation keeps, the next one has, although every dependency is gone by then."""
    first = outcome(graph, phases, name=name)
    if isinstance(first, Met):
        assert outcome(graph, {}, name=name, met=first.names) == first
    if isinstance(first, Unmet):
        then = outcome(graph, {}, name=name, met=first.met)
        assert isinstance(then, Unmet)
        assert then.met == first.met
