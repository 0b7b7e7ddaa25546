"""Assignment of cpus: lists of cpus, hints of NUMA nodes, and the choice of cpus."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.reference import numa
from volcanopy.scheduler.nodes.cpus import cpu_assignment
from volcanopy.scheduler.nodes.cpus.cpu_assignment import Layout


def layout(numas: int, cores: int, threads: int, sockets: int | None = None) -> Layout:
    """Cpus numbered core by core; NUMA nodes are spread over the sockets, as many as there are unless said otherwise."""
    where = [(node, core) for node in range(numas) for core in range(cores) for _ in range(threads)]
    places = tuple(
        (cpu, (node, node * (sockets or numas) // numas, node * cores + core)) for cpu, (node, core) in enumerate(where)
    )
    return cpu_assignment.build_layout(places)


@given(st.sets(st.integers(0, 200)))
def test_cpu_list_round_trip(cpus: set[int]) -> None:
    written = cpu_assignment.format_cpus(sum(1 << cpu for cpu in cpus))
    assert set(cpu_assignment.members(cpu_assignment.parse_cpus(written))) == cpus


def test_consecutive_cpus_are_formatted_as_ranges() -> None:
    assert cpu_assignment.format_cpus(0b1_0000_1111) == "0-3,8"


@pytest.mark.parametrize("text", ["a", "3-1", "-1", "0-99999999", "1-2-3"])
def test_invalid_cpu_lists_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        cpu_assignment.parse_cpus(text)


LAYOUTS = st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 2), st.integers(1, 2)).map(
    lambda sizes: layout(sizes[0], sizes[1], sizes[2], min(sizes[3], sizes[0]))
)


@given(LAYOUTS, st.integers(0, 2**40), st.integers(1, 24), st.sampled_from(cpu_assignment.POLICIES))
def test_best_hint_equals_the_reference(where: Layout, bits: int, count: int, policy: str) -> None:
    free = bits & where.all
    hint, admitted = numa.merged(where, free, count, policy)
    best = cpu_assignment.best_hint(where, free, count)
    assert cpu_assignment.admits(policy, best) == admitted
    if admitted:
        assert best == hint


@given(LAYOUTS, st.integers(0, 2**40), st.integers(1, 24))
def test_take_returns_the_requested_number_of_free_cpus_or_none(where: Layout, bits: int, count: int) -> None:
    free = bits & where.all
    taken = cpu_assignment.take(where, free, count)
    assert (taken is None) == (free.bit_count() < count)
    if taken is not None:
        assert taken.bit_count() == count
        assert taken & ~free == 0


@given(
    LAYOUTS,
    st.integers(0, 2**40),
    st.lists(st.integers(0, 6), min_size=1, max_size=3),
    st.sampled_from(cpu_assignment.POLICIES),
)
def test_containers_of_a_pod_get_disjoint_cpus(where: Layout, bits: int, counts: list[int], policy: str) -> None:
    free = bits & where.all
    given_ = cpu_assignment.assign(where, free, tuple(counts), policy)
    if given_ is not None:
        assert [item.bit_count() for item in given_] == counts
        assert cpu_assignment.union(given_).bit_count() == sum(counts)
        assert cpu_assignment.union(given_) & ~free == 0
        if policy == cpu_assignment.SINGLE:
            assert all(len(where.used(item)) <= 1 for item in given_)


def test_whole_sockets_are_taken_first() -> None:
    assert (
        cpu_assignment.format_cpus(cpu_assignment.take(layout(2, 4, 1), cpu_assignment.parse_cpus("2-7"), 4) or 0)
        == "4-7"
    )


def test_a_whole_core_is_preferred_to_threads_of_two_cores() -> None:
    assert (
        cpu_assignment.format_cpus(cpu_assignment.take(layout(1, 4, 2), cpu_assignment.parse_cpus("1,3,4-5"), 2) or 0)
        == "4-5"
    )


def test_a_single_thread_is_taken_from_a_core_in_use() -> None:
    assert (
        cpu_assignment.format_cpus(cpu_assignment.take(layout(1, 4, 2), cpu_assignment.parse_cpus("0-1,3"), 1) or 0)
        == "3"
    )


def test_two_numa_nodes_are_preferred_only_if_one_is_never_enough() -> None:
    where = layout(2, 4, 1)
    assert cpu_assignment.best_hint(where, where.all, 6) == cpu_assignment.Hint((0, 1), True)
    assert cpu_assignment.best_hint(where, cpu_assignment.parse_cpus("0-1,4-5"), 4) == cpu_assignment.Hint(
        (0, 1), False
    )
