"""Weighted shares of queues equal the reference implementation."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from tests.scheduler.reference.weighted_shares import QueueNode, level, shares_of
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.model.queue_shares import divided
from volcanopy.scheduler.policies.quota.proportion import Proportion
from volcanopy.scheduler.policy.plugin import NoArguments
from volcanopy_testing.notation import snapshot


@st.composite
def portions(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, int]]]:
    """Return a total, and weights, minimums and maximums."""
    largest = draw(st.sampled_from([7, 1000, 2**50]))
    count = draw(st.integers(1, 6))
    ones = []
    for _ in range(count):
        least = draw(st.integers(0, largest // 2))
        ones.append((draw(st.integers(1, draw(st.sampled_from([3, 65535])))), least, draw(st.integers(least, largest))))
    return draw(st.integers(0, 2 * largest)), ones


@given(portions())
@examples(200)
def test_a_total_is_divided_by_weight_between_the_least_and_the_most(
    case: tuple[int, list[tuple[int, int, int]]],
) -> None:
    total, ones = case
    weight, least, most = (np.array(column, dtype=np.int64) for column in zip(*ones, strict=True))
    shares = divided(total, weight, least, most).tolist()
    low, high = ([Fraction(queue_node[place]) for queue_node in ones] for place in (1, 2))
    exact = level([queue_node[0] for queue_node in ones], low, high, Fraction(total))
    assert all(abs(Fraction(share) - true) < 1 for share, true in zip(shares, exact, strict=True))
    assert sum(shares) == max(int(least.sum()), min(total, int(most.sum())))


def test_left_over_units_go_to_the_largest_fractions() -> None:
    ones, none, many = np.ones(3, np.int64), np.zeros(3, np.int64), np.full(3, 100)
    assert divided(8, ones, none, many, "cab").tolist() == [2, 3, 3]
    assert divided(7, np.array([1, 1, 3]), none, many).tolist() == [2, 1, 4]
    assert divided(7, np.array([1, 1, 2]), none, many).tolist() == [2, 2, 3]


@st.composite
def trees(draw: st.DrawFn) -> tuple[int, list[QueueNode], str]:
    """Return the cpus of a cluster, a tree of queues, and the same as a world."""
    total = draw(st.integers(1, 40))
    lines, tops, parents = (
        [f"node n1 cpu={total} memory=900Gi pods=900"],
        list[QueueNode](),
        [("root", list[QueueNode]())],
    )
    tops = parents[0][1]
    if draw(st.booleans()):
        lines.append("queue root")
    for number in range(draw(st.integers(1, 7))):
        above, children = draw(st.sampled_from(parents))
        queue_node = QueueNode(f"q{number}", draw(st.integers(1, 5)))
        words = [f"queue {queue_node.name} weight={queue_node.weight} parent={above}"]
        if draw(st.integers(0, 3)) == 0:
            queue_node.guarantee = draw(st.integers(1, 4)) * 1000
            words.append(f"guarantee.cpu={queue_node.guarantee // 1000}")
        if draw(st.integers(0, 3)) == 0:
            queue_node.ceiling = draw(st.integers(1, 20)) * 1000
            words.append(f"capability.cpu={queue_node.ceiling // 1000}")
        children.append(queue_node)
        lines.append(" ".join(words))
        if draw(st.booleans()):
            parents.append((queue_node.name, queue_node.below))
        asks = draw(st.integers(0, 20))
        if asks:
            queue_node.asks = asks * 1000
            lines.append(f"job j{number} queue={queue_node.name}: {asks} x cpu=1")
    for top in tops:
        reduce_guarantees(top, total * 1000)
    return total, tops, "\n".join(lines)


def reduce_guarantees(queue: QueueNode, total: int) -> int:
    """A guarantee above the cluster reserves what the queue and those below request. Returns that request."""
    requested = queue.asks + sum(reduce_guarantees(below, total) for below in queue.below)
    if queue.guarantee > total:
        queue.guarantee = min(requested, total)
    return requested


@given(trees())
@examples(150)
def test_fair_shares_are_exact_at_every_level(case: tuple[int, list[QueueNode], str]) -> None:
    """Each level is rounded to whole milli-cpus, so a queue may differ by the number of its ancestors."""
    total, tops, text = case
    cluster = Cluster(Ledger(snapshot(text)))
    plugin, index = Proportion(NoArguments(), cluster), cluster.snapshot.queues.index
    exact = dict(shares_of(Fraction(total * 1000), tops))
    levels = [tops]
    while levels[-1]:
        levels.append([below for level in levels[-1] for below in level.below])
    for depth, vessels in enumerate(levels, 1):
        for vessel in vessels:
            assert abs(Fraction(int(plugin.fair_share[0, index[vessel.name]])) - exact[vessel.name]) < depth, (
                vessel.name,
                text,
            )
