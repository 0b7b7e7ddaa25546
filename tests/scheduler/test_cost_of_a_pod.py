"""How many calls the scheduler makes for each pod of gangs whose placements depend on each other."""

import sys
from types import FrameType

import pytest

from bench import growth
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policy.config import DEFAULT, SchedulerConfig, parse
from volcanopy_testing import notation


def calls_per_pod(state: Snapshot, config: SchedulerConfig) -> float:
    """The calls of a cycle, C functions included, divided by its binds; what outlasts a cycle is there already."""
    pods, count = len(schedule(state, config).of(Bind)), 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        schedule(state, config)
    finally:
        sys.setprofile(None)
    return count / pods


@pytest.mark.parametrize(
    ("state", "config", "most"),
    [
        pytest.param(growth.shared_gpus(1200), growth.SHARING, 122, id="shared GPUs"),
        pytest.param(growth.gangs(120, growth.required), DEFAULT, 52, id="anti-affinity"),
        pytest.param(growth.gangs(120, growth.spread), DEFAULT, 49, id="spreading"),
    ],
)
def test_a_pod_is_placed_with_few_calls(state: Snapshot, config: str, most: int) -> None:
    assert calls_per_pod(state, parse(config, notation.all_policies())) < most
