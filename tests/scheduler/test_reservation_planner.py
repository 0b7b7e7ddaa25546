"""Planning of reservations: a gang that fits now needs no ends of tasks, and what is lent does not put it off."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from volcanopy.scheduler.engine.reservation_planner import Leaving, Part, hold, lacking_of_quota
from volcanopy.scheduler.model.messages import QuotaMessage
from volcanopy.scheduler.model.resources import Axis

NOW = 1000.0


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_a_gang_is_not_put_off_by_tasks_that_leave_what_is_reserved_and_ends_that_are_kept(seed: int) -> None:
    """With known ends, whatever others take of what is free and not reserved, for ever: the start is no later, nor at the next cycle."""
    dice = np.random.default_rng(seed)
    resources, nodes, tasks = 2, int(dice.integers(1, 6)), int(dice.integers(1, 9))
    free = dice.integers(0, 5, (resources, nodes))
    parts = [Part(dice.integers(0, 4, resources), int(dice.integers(1, 5)), dice.random(nodes) < 0.9)]
    leaving = Leaving(
        dice.integers(0, nodes, tasks),
        dice.integers(0, 4, (resources, tasks)),
        NOW + 10 * dice.integers(1, 4, tasks).astype(np.float64),
        np.ones(tasks, dtype=np.bool_),
        np.zeros(tasks, dtype=np.bool_),
    )
    planned = hold(free, parts, leaving, NOW)
    if planned is None:
        return
    assert planned.certain
    left = free - dice.integers(0, np.maximum(free - planned.least, 0) + 1)
    assert (planned.least <= planned.kept).all()
    later = hold(left, parts, leaving, NOW)
    assert later is not None
    assert later.start <= planned.start
    soon = NOW + 10
    over = leaving.pick(leaving.end <= soon)
    for place, node in enumerate(over.node.tolist()):
        left[:, node] += over.request[:, place]
    next_cycle = hold(left, parts, leaving.pick(leaving.end > soon), soon)
    assert next_cycle is not None
    assert next_cycle.start <= max(planned.start, soon)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_a_gang_is_delayed_until_each_of_its_nodes_can_be_ready(seed: int) -> None:
    """The reference adds the known ends of one node after the other; tasks without a known end may be gone at once."""
    dice = np.random.default_rng(seed)
    resources, nodes, tasks = 2, int(dice.integers(1, 6)), int(dice.integers(1, 12))
    free = dice.integers(0, 5, (resources, nodes))
    part = Part(dice.integers(0, 4, resources), int(dice.integers(1, 5)), np.ones(nodes, dtype=np.bool_))
    ends = NOW + np.sort(dice.integers(1, 9, tasks)).astype(np.float64)
    node, request = dice.integers(0, nodes, tasks), dice.integers(0, 4, (resources, tasks))
    leaving = Leaving(node, request, ends, dice.random(tasks) < 0.7, dice.random(tasks) < 0.3)
    planned = hold(free, [part], leaving, NOW)
    if planned is None:
        return
    for latest, counted in ((planned.until, leaving.known), (planned.likely, leaving.known | leaving.earlier)):
        ready_at = [NOW]
        for row in planned.nodes.tolist():
            room = free[:, row] + request[:, (node == row) & ~counted].sum(axis=1)
            for task in np.flatnonzero((node == row) & counted).tolist():
                if (room >= planned.needed[:, row]).all():
                    break
                room += request[:, task]
                if (room >= planned.needed[:, row]).all():
                    ready_at.append(float(ends[task]))
        assert latest == max(ready_at)


def test_a_limit_on_some_resources_lacks_nothing_of_the_others() -> None:
    axis = Axis.of(("cpu", "memory", "pods", "gpu"))
    quota = QuotaMessage("limits", "q", names=("gpu",), requested=(3,), allocated=(2,), limit=(4,))
    missing, short = lacking_of_quota(axis, quota)
    place = axis.index["gpu"]
    assert (missing.tolist(), short.tolist()) == ([int(index == place) for index in range(len(axis))], [place])
