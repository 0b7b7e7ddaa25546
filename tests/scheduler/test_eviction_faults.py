"""Rejected binds and a lost node in random full clusters whose jobs evict: every plan is valid, and cycles come to rest."""

from collections.abc import Iterable
from random import Random

import pytest

from tests import nightly
from tests.scheduler.needless_evictions import violations
from tests.scheduler.random_cases import evicting_config
from tests.scheduler.test_backoffs import rejected_pod
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind, Effect, Evict, Nominate
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy_testing import eviction_worlds
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import world

FAULTY_CYCLES, CYCLES = 6, 24
LOST, COLLECTED = 2, 4
"""The cycles at whose beginning a node is deleted, and its pods."""


class FaultySimulation(Simulation):
    """A third of the binds of the first cycles is rejected; each pod backs off for twice as many cycles as the time before."""

    def __init__(self, text: str, config: SchedulerConfig, dice: Random) -> None:
        super().__init__(world(text), config)
        self.dice, self.number = dice, 0
        self.rejections: dict[str, int] = {}
        self.backoffs: dict[str, int] = {}
        self.lost = dice.choice(sorted(key for kind, key in self.cluster.objects if kind == "Node"))

    def begin(self) -> None:
        """Begin a cycle."""
        self.number += 1
        for pod in [pod for pod, until in self.backoffs.items() if until <= self.number]:
            del self.backoffs[pod]
            self.cluster.state.forget(pod)
        if self.number == LOST:
            self.cluster.remove("Node", self.lost)
        if self.number == COLLECTED:
            for key, thing in list(self.cluster.objects.items()):
                if key[0] == "Pod" and thing.spec.node_name == self.lost:
                    self._end(thing)

    def apply(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Bind) and self.number <= FAULTY_CYCLES and not self.dice.randint(0, 2):
                self._reject(effect.pod)
            else:
                self._apply(effect)

    def _reject(self, key: str) -> None:
        pod = self.pod(key)
        assert pod is not None
        self.cluster.put(rejected_pod(pod))
        self.rejections[key] = self.rejections.get(key, 0) + 1
        self.backoffs[key] = self.number + 2 ** self.rejections[key]
        self.cluster.state.forget(key, backs_off=True)


@pytest.mark.parametrize("seeds", nightly.seeds(10, 40, 10, 30))
def test_plans_are_valid_and_cycles_come_to_rest(seeds: range) -> None:
    rejections = evictions = 0
    for seed in seeds:
        dice = Random(f"faults {seed}")
        text, config = eviction_worlds.world(dice), evicting_config(dice)
        simulation = FaultySimulation(text, config, dice)
        for _ in range(CYCLES):
            simulation.begin()
            snapshot = simulation.snapshot()
            plan = schedule(snapshot, config)
            broken = violations(snapshot, plan, enforced_invariants(config))
            assert not broken, f"seed {seed}, cycle {simulation.number}: {broken}\n{text}"
            simulation.apply(plan.effects)
            evictions += len(plan.of(Evict))
            is_at_rest = not plan.of(Bind, Evict, Nominate) and not simulation.backoffs
            if is_at_rest and simulation.number > FAULTY_CYCLES:
                break
        else:
            raise AssertionError(f"seed {seed} does not come to rest\n{text}")
        rejections += len(simulation.rejections)
    assert rejections > len(seeds)
    assert evictions > len(seeds) / 4
