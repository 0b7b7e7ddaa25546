"""Hierarchical fair shares: the scaled share of each part of the tree."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from volcanopy.scheduler.engine.shares.hierarchical_drf import Path, Tree, path
from volcanopy_testing.notation import snapshot

TOTAL = np.array([20, 20, 40])


def tree(paths: Sequence[Path], jobs: Sequence[tuple[int, list[int]]], held: Sequence[list[int]]) -> Tree:
    """Jobs as (queue, request) with allocations; a cluster of 20, 20 and 40."""
    request = np.array([asked for _, asked in jobs]).T
    return Tree(paths, np.array([queue for queue, _ in jobs]), request, np.array(held).T, TOTAL, np.zeros(3, np.int64))


def test_unsaturated_children_are_scaled_to_the_smallest_sibling() -> None:
    """One job has half of the cpus, the other a quarter of the memory: together they count as a quarter of each."""
    paths: list[Path] = [(("eng", 1), ("dev", 1)), (("eng", 1), ("prod", 1))]
    made = tree(paths, [(0, [20, 0, 0]), (1, [0, 20, 0])], [[10, 0, 0], [0, 5, 0]])
    assert made.share_path(0) == ((False, 0.25), (False, 0.5))
    assert made.share_path(1) == ((False, 0.25), (False, 0.25))


def test_saturated_children_are_not_scaled() -> None:
    """The second job has its full request: it does not limit the first."""
    paths: list[Path] = [(("eng", 1), ("dev", 1)), (("eng", 1), ("prod", 1))]
    made = tree(paths, [(0, [20, 0, 0]), (1, [0, 5, 0])], [[10, 0, 0], [0, 5, 0]])
    assert made.share_path(0) == ((False, 0.5), (False, 0.5))
    assert made.share_path(1) == ((False, 0.5), (True, 0.25))


def test_a_job_is_saturated_if_a_requested_resource_is_used_up() -> None:
    paths: list[Path] = [(("a", 1),), (("b", 1),)]
    made = tree(paths, [(0, [20, 0, 0]), (1, [20, 20, 0])], [[15, 0, 0], [5, 5, 0]])
    assert [saturated for queue in (0, 1) for saturated, _ in made.share_path(queue)] == [True, True]


def test_a_job_saturated_in_one_resource_can_grow_in_another() -> None:
    """Its pod with a large request is placed, the small pods are pending."""
    made = tree([(("a", 1),), (("b", 1),)], [(0, [20, 2, 0]), (1, [20, 20, 0])], [[3, 2, 0], [0, 18, 0]])
    assert made.share_path(0) == ((False, 0.15),)


def test_shares_are_divided_by_weight() -> None:
    made = tree([(("a", 4),), (("b", 1),)], [(0, [20, 0, 0]), (1, [20, 0, 0])], [[8, 0, 0], [4, 0, 0]])
    assert (made.share_path(0), made.share_path(1)) == (((False, 0.1),), ((False, 0.2),))
    assert made.is_before(0, 1)


def test_queues_of_one_path_are_equal() -> None:
    made = tree([(("a", 1),), (("a", 1),)], [(0, [20, 0, 0]), (1, [20, 0, 0])], [[8, 0, 0], [4, 0, 0]])
    assert not made.is_before(0, 1)
    assert not made.is_before(1, 0)


def test_the_jobs_of_a_queue_with_queues_below_it_compete_with_those() -> None:
    made = tree([(("a", 1),), (("a", 1), ("b", 1))], [(0, [20, 0, 0]), (1, [20, 0, 0])], [[2, 0, 0], [4, 0, 0]])
    assert made.is_before(0, 1)
    made.add(np.array([0]), np.array([[3], [0], [0]]))
    assert made.is_before(1, 0)


def test_fair_shares_are_by_weight_among_queues_with_requests() -> None:
    paths: list[Path] = [(("a", 3),), (("b", 1), ("c", 1)), (("b", 1), ("d", 2)), (("idle", 4),)]
    jobs = [(0, [1, 0, 0]), (1, [1, 0, 0]), (2, [1, 0, 0])]
    made = tree(paths, jobs, [[0, 0, 0]] * 3)
    assert [made.fair_share(queue) for queue in range(4)] == pytest.approx([0.75, 0.25 / 3, 0.5 / 3, 0.5])


PATHS = "note.volcanopy.io/hierarchy=root/eng/dev"


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (f"{PATHS} note.volcanopy.io/hierarchy-weights=1/2/8", (("eng", 2), ("dev", 8))),
        (f"{PATHS} note.volcanopy.io/hierarchy-weights=1/2", (("eng", 2), ("dev", 1))),
        (f"{PATHS} note.volcanopy.io/hierarchy-weights=1/0/x", (("eng", 1), ("dev", 1))),
        (f"{PATHS} weight=7 parent=p", (("eng", 1), ("dev", 1))),
        ("weight=7 parent=p", (("p", 3), ("q", 7))),
        ("weight=7 parent=gone", (("q", 7),)),
        ("weight=7", (("q", 7),)),
    ],
)
def test_the_path_of_a_queue_is_its_annotation_or_below_its_parents(words: str, steps: Path) -> None:
    queues = snapshot(f"queue root\nqueue p weight=3\nqueue q {words}").queues
    assert path(queues, queues.index["q"]) == steps


# Beside the slow twin


@dataclass
class Part:
    """A part of the tree, computed from the definition."""

    weight: int = 1
    below: dict[str, "Part"] = field(default_factory=dict)
    jobs: list[tuple[list[int], list[int]]] = field(default_factory=list)

    def weigh(self, grows: list[bool]) -> tuple[list[float], bool]:
        """Return the scaled allocation as fractions of the cluster, and whether the part is saturated."""
        children = [(*part.weigh(grows), part.weight) for part in self.below.values()]
        for request, units in self.jobs:
            lacks = [asked > has for asked, has in zip(request, units, strict=True)]
            blocked = any(lack and has and not more for lack, has, more in zip(lacks, units, grows, strict=True))
            fractions = [has / whole for has, whole in zip(units, TOTAL.tolist(), strict=True)]
            children.append((fractions, blocked or not any(lacks), 1))
        smallest = min([1.0, *(max(held) / weight for held, full, weight in children if max(held) and not full)])
        together = [0.0] * 3
        for held, saturated, weight in children:
            scale = 1.0 if saturated or not max(held) else smallest * weight / max(held)
            together = [one + scale * other for one, other in zip(together, held, strict=True)]
        return together, all(saturated for _, saturated, _ in children)


def expected(
    paths: Sequence[Path], jobs: Sequence[tuple[int, list[int]]], held: Sequence[list[int]]
) -> Iterator[object]:
    root = Part()
    for queue, steps in enumerate(paths):
        part = root
        for name, weight in steps:
            part = part.below.setdefault(name, Part())
            part.weight = max(part.weight, weight)
        part.jobs += [(asked, held[job]) for job, (of, asked) in enumerate(jobs) if of == queue]
    grows = [sum(condition[dim] for condition in held) < TOTAL[dim] for dim in range(3)]
    for steps in paths:
        part, result = root, []
        for name, _ in steps:
            part = part.below[name]
            whole, saturated = part.weigh(grows)
            result.append((saturated, pytest.approx(max(whole) / part.weight, abs=1e-8)))
        yield tuple(result)


LEAVES: list[Path] = [
    (("a", 2), ("x", 1)),
    (("a", 2), ("y", 3)),
    (("b", 1),),
    (("c", 1), ("x", 2), ("z", 1)),
    (("c", 1), ("x", 2), ("y", 1)),
]
AMOUNTS = st.lists(st.integers(0, 6), min_size=3, max_size=3)
JOBS = st.lists(st.tuples(st.integers(0, len(LEAVES) - 1), AMOUNTS, AMOUNTS), min_size=1, max_size=8)


@given(JOBS, st.lists(st.tuples(st.integers(0, 7), AMOUNTS), max_size=6))
@examples(100)
def test_shares_equal_the_definition_and_changes_are_undone(
    jobs: list[tuple[int, list[int], list[int]]], changes: list[tuple[int, list[int]]]
) -> None:
    asked = [(queue, [want + has for want, has in zip(more, held, strict=True)]) for queue, more, held in jobs]
    held = [list(has) for _, _, has in jobs]
    made = tree(LEAVES, asked, held)
    before = [made.share_path(queue) for queue in range(len(LEAVES))]
    assert before == list(expected(LEAVES, asked, held))
    moves = [(np.array([job % len(jobs)]), np.array(amount)[:, None]) for job, amount in changes]
    for job, amount in moves:
        made.add(job, amount)
    assert [made.share_path(queue) for queue in range(len(LEAVES))] == list(
        expected(LEAVES, asked, made.allocated.T.tolist())
    )
    for job, amount in reversed(moves):
        made.add(job, -amount)
    assert [made.share_path(queue) for queue in range(len(LEAVES))] == before
