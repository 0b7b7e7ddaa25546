"""Amounts on a named axis."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanopy.scheduler.model.queue_shares import fair_shares_by_weight
from volcanopy.scheduler.model.resources import Axis, Resources

AXIS = Axis.of(["nvidia.com/gpu", "cpu", "ephemeral-storage"])


def amounts(**units: int) -> Resources:
    return Resources(AXIS, AXIS.vector({name.replace("_", "-"): value for name, value in units.items()}))


def test_an_axis_begins_with_cpu_memory_and_pods_and_goes_on_by_name() -> None:
    assert AXIS.names == ("cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu")


def test_amounts_are_read_by_name_and_print_as_quantities() -> None:
    assert str(amounts(cpu=1500, memory=2**31)) == "cpu 1500m, memory 2Gi"
    assert amounts(cpu=1500)["cpu"] == 1500
    assert amounts()["unknown"] == 0


def test_a_dominant_share_is_the_largest_ratio_and_one_without_a_total() -> None:
    assert amounts(cpu=1, memory=3).share_of(amounts(cpu=4, memory=4)) == 0.75
    assert amounts(pods=1).share_of(amounts(cpu=4)) == 1.0


@given(
    st.lists(st.integers(0, 10**12), min_size=5, max_size=5), st.lists(st.integers(0, 10**12), min_size=5, max_size=5)
)
def test_fitting_amounts_leave_no_negative_rest(small: list[int], large: list[int]) -> None:
    part, room = Resources(AXIS, np.array(small)), Resources(AXIS, np.array(large))
    assert part.fits_in(room) == bool(((room - part).values >= 0).all())


@pytest.mark.parametrize(
    ("total", "queues", "deserved"),
    [
        (8, [(1, 8, 0), (3, 2, 0)], [6000, 2000]),
        (10, [(1, 10, 4), (1, 10, 0), (2, 1, 0)], [4500, 4500, 1000]),
        (10, [(1, 10, 0), (1, 10, 0)], [5000, 5000]),
        (10, [(1, 3, 0), (1, 3, 0)], [3000, 3000]),
        (10, [(1, 10, 0, 2), (1, 10, 0)], [2000, 8000]),
    ],
)
def test_fair_shares_by_water_filling(total: int, queues: list[tuple[int, ...]], deserved: list[int]) -> None:
    """Weight, request, guarantee and (if given) capability of each queue, in cores."""
    weight = np.array([queue[0] for queue in queues])
    requested = np.array([[queue[1] * 1000 for queue in queues]])
    guarantee = np.array([[queue[2] * 1000 for queue in queues]])
    capability = np.array([[queue[3] * 1000 if len(queue) > 3 else 2**60 for queue in queues]])
    limit = np.minimum(np.maximum(total * 1000 - guarantee.sum(), 0) + guarantee, capability)
    active = np.ones(len(queues), dtype=np.bool_)
    shares = fair_shares_by_weight(np.array([total * 1000]), weight, requested, guarantee, limit, active)
    assert shares[0].tolist() == deserved
