"""How many calls the scheduler makes for each pod of gangs whose placements depend on each other."""

import pytest

from bench import growth
from tests.call_counts import calls
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, Plan
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policy.config import DEFAULT, SchedulerConfig, parse
from volcanopy_testing import notation


def calls_per_pod(state: Snapshot, config: SchedulerConfig) -> float:
    """The calls of a cycle, divided by its binds; what outlasts a cycle is there already."""
    pods = len(schedule(state, config).of(Bind))
    return calls(lambda: schedule(state, config)) / pods


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


def test_the_check_of_a_start_costs_the_same_beside_more_running_gangs() -> None:
    def cost(running: int) -> int:
        gangs = "\n".join(f"job r{number} min=2: 2 x cpu=1 on=n1" for number in range(running))
        state = notation.snapshot(f"node n1 cpu=999\nnode n2 cpu=1\njob single: 1 x cpu=1\n{gangs}")
        plan = Plan((Bind("default/single-0", "n2"),))
        assert violations(state, plan) == []
        return calls(lambda: violations(state, plan))

    assert cost(200) == cost(20)
