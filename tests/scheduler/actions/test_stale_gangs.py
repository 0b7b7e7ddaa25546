"""Tests of stalegangeviction: the rest of a gang that runs below its minimum is evicted, and the gang starts whole."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, Evict, Plan
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import NOW, world

STALE = """
    node n1 cpu=2
    node n2 cpu=2
    job a: 1 x cpu=1 on=n1{}, 1 x cpu=2
    job b min=0: 1 x cpu=1 on=n2
"""


def config(after: str = "5m") -> SchedulerConfig:
    return parse(
        f"""
actions: "enqueue, allocate, backfill, stalegangeviction"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}, {{name: pdb}}]
- plugins: [{{name: predicates}}, {{name: nodeorder}}]
configurations:
- name: stalegangeviction
  arguments: {{after: {after}}}
""",
        builtin(),
    )


def simulation(text: str, minutes: int = 10) -> Simulation:
    """A world in which the pod groups have been unschedulable for some minutes."""
    since = NOW - timedelta(minutes=minutes)
    condition = core.Condition(type="Unschedulable", status="True", last_transition_time=since)
    objects = [
        replace(item, status=replace(item.status, conditions=(condition,))) if isinstance(item, core.PodGroup) else item
        for item in world(text)
    ]
    return Simulation(objects, config())


def evicted(stale: Simulation) -> list[str]:
    seen, plan = stale.snapshot(), stale.cycle()
    assert violations(seen, plan, enforced_invariants(stale.config)) == []
    return [effect.pod.removeprefix("default/") for effect in plan.of(Evict)]


def test_the_rest_of_a_stale_gang_is_evicted_and_the_gang_starts_whole() -> None:
    """Its running pod was in the way of the other one, which no other node can take."""
    stale = simulation(STALE.format(""))
    assert evicted(stale) == ["a-0"]
    assert sorted(str(effect) for effect in stale.cycle().of(Bind)) == ["bind a-0 -> n2", "bind a-1 -> n1"]
    assert not stale.cycle().of(Evict, Bind)


def test_the_message_names_the_counts() -> None:
    (effect,) = simulation(STALE.format("")).cycle().of(Evict)
    assert effect.message == "stalegangeviction: gang ran with 1/2 required pods for more than 5m"


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        (STALE.format(""), 4),
        (STALE.format(" note.volcanopy.io/preemptable=false"), 10),
        (STALE.format("").replace("job a:", "job a namespace=kube-system:"), 10),
        (STALE.format("").replace("job a:", "job a min=1:"), 10),
        (STALE.format("").replace("job a:", "job a min=3:"), 10),
        (STALE.format("").replace(", 1 x cpu=2", ", 1 x cpu=1"), 10),
    ],
    ids=["young", "not preemptable", "critical", "minimum", "pods are missing", "the other member fits"],
)
def test_nothing_is_evicted(text: str, minutes: int) -> None:
    assert evicted(simulation(text, minutes)) == []


def test_a_wrong_eviction_is_found() -> None:
    eviction = Plan((Evict("default/a-0", "stalegangeviction"),))
    whole = simulation(STALE.format("").replace("job a:", "job a min=1:")).snapshot()
    assert violations(whole, eviction) == ["gang default/a is evicted as stale although it has its required pods"]
    part = simulation(STALE.replace("1 x cpu=1 on=n1{}", "2 x cpu=1 on=n1")).snapshot()
    assert violations(part, eviction) == ["gang default/a is evicted as stale in part: 1 of its pods stay"]
