"""Walks in graphs give what slow and obvious ones give."""

import cProfile
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanopy.api import graphs

NAMES = "abcdef"
EDGES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=12)
ORDERED = EDGES.map(lambda edges: [(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]])
"""Edges without a cycle."""
SOME = st.sets(st.sampled_from(NAMES))


def paths(edges: list[tuple[str, str]], start: str) -> list[list[str]]:
    """All paths from a node in a graph without cycles."""
    return [[start], *([start, *path] for tail, head in set(edges) if tail == start for path in paths(edges, head))]


def heads(edges: list[tuple[str, str]]) -> dict[str, list[str]]:
    """The nodes to which edges lead, by the node from which they do."""
    return {name: [head for tail, head in edges if tail == name] for name in NAMES}


@given(EDGES)
def test_a_cycle_is_named_by_edges_that_exist(edges: list[tuple[str, str]]) -> None:
    path = graphs.dependency_cycle(edges).split(" -> ")
    if path == [""]:
        reached = {name: set(graphs.distances(heads(edges), name)) for name in NAMES}
        assert all(tail != head and tail not in reached[head] for tail, head in edges)
    else:
        assert path[0] == path[-1]
        assert set(pairwise(path)) <= set(edges)


@given(EDGES, st.sampled_from(NAMES))
def test_ancestors_are_those_up_to_one_that_was_met_before(edges: list[tuple[str, str]], name: str) -> None:
    parents = dict(edges)
    steps = [name]
    for _ in NAMES:
        steps.append(parents.get(steps[-1], ""))
    expected = [above for above in dict.fromkeys(steps) if above not in {"", name}]
    assert graphs.ancestors(lambda node: parents.get(node, ""), name) == expected


@given(ORDERED, SOME, SOME)
def test_what_is_lost_spreads_through_what_waits(
    edges: list[tuple[str, str]], lost: set[str], waiting: set[str]
) -> None:
    gone = set(lost)
    for _ in NAMES:
        gone |= {head for tail, head in edges if tail in gone and head in waiting}
    assert graphs.unreachable_after(graphs.graph(edges, NAMES), lost, waiting) == gone


def calls(work: Callable[[], object]) -> int:
    """The calls of functions that it takes, the second time."""
    work()
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize("ends", [[], [("0", "1")]])
def test_a_cycle_and_what_is_lost_are_found_in_linear_time(ends: list[tuple[str, str]]) -> None:
    """A user may write the longest chain: each reconcile of the flow takes that time."""

    def chain(size: int) -> list[tuple[str, str]]:
        return [*((str(number + 1), str(number)) for number in range(size)), *ends]

    def search(size: int) -> tuple[int, int]:
        edges, names = chain(size), list(map(str, range(size)))
        whole = graphs.graph(edges)
        return (
            calls(lambda: graphs.dependency_cycle(edges)),
            calls(lambda: graphs.unreachable_after(whole, names, names)),
        )

    assert all(large < 5 * small for small, large in zip(search(100), search(400), strict=True))


@given(ORDERED)
def test_distances_are_those_of_the_shortest_paths(edges: list[tuple[str, str]]) -> None:
    shortest: dict[str, int] = {}
    for path in paths(edges, "a")[1:]:
        shortest[path[-1]] = min(len(path) - 1, shortest.get(path[-1], len(path)))
    found = graphs.distances(heads(edges), "a")
    assert found == shortest
    assert list(found.values()) == sorted(found.values())


@given(ORDERED)
def test_levels_are_those_of_the_longest_paths(edges: list[tuple[str, str]]) -> None:
    longest = {
        name: max(len(path) for start in NAMES for path in paths(edges, start) if path[-1] == name) for name in NAMES
    }
    assert graphs.levels(graphs.graph(edges, NAMES)) == longest


@given(ORDERED, st.lists(st.integers(0, 9), min_size=6, max_size=6))
def test_the_critical_path_is_the_longest(edges: list[tuple[str, str]], numbers: list[int]) -> None:
    seconds = dict(zip(NAMES, map(float, numbers), strict=True))
    path = graphs.critical_path(graphs.graph(edges, NAMES), seconds)
    assert set(pairwise(path)) <= set(edges)
    longest = max(sum(map(seconds.__getitem__, known)) for start in NAMES for known in paths(edges, start))
    assert sum(map(seconds.__getitem__, path)) == longest


def test_unknown_nodes_have_no_neighbours() -> None:
    empty = graphs.graph(())
    assert (graphs.parents(empty, "a"), graphs.distances({}, "a")) == ([], {})
    assert graphs.critical_path(empty, {}) == []
