"""Properties of evictions in every cluster: preemptors are placed, every eviction has an effect, cycles become stable."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from tests.scheduler.actions.test_bundle_properties import bundles_of, is_claimed_by_others
from tests.scheduler.properties import assert_nominations_are_kept, gate_pending, nominated_for
from tests.scheduler.strategies import crowded_worlds, evicting_configs
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import world

many = examples(40)
REST = 5


@many
@given(crowded_worlds(), evicting_configs(), st.booleans())
def test_cycles_without_changes_become_stable(text: str, config: SchedulerConfig, replaced: bool) -> None:
    simulation = Simulation(world(text), config, replaced)
    plans = list(simulation.cycles(REST + 1))
    assert not plans[-1].of(Bind, Evict, Nominate), "\n--\n".join(map(str, plans))


@many
@given(crowded_worlds(), evicting_configs())
def test_a_preemptor_is_bound_in_the_next_cycle(text: str, config: SchedulerConfig) -> None:
    simulation = Simulation(world(text), config)
    for _ in range(REST):
        seen = simulation.snapshot()
        plan = simulation.cycle()
        assert violations(seen, plan, enforced_invariants(simulation.config)) == []
        promised = nominated_for(plan)
        assert {effect.preemptor for effect in plan.of(Evict)} <= {effect.group for effect in plan.of(Nominate)}
        if promised:
            bound = {effect.pod: effect.node for effect in simulation.cycle().of(Bind)}
            assert promised.items() <= bound.items()


@many
@given(crowded_worlds(), evicting_configs())
def test_a_nomination_is_kept_until_victims_terminate(text: str, config: SchedulerConfig) -> None:
    """A new high-priority job arrives while victims terminate: it does not get the nominated resources."""
    simulation = Simulation(world(text), config, graceful=True)
    plan = simulation.cycle()
    promised = nominated_for(plan)
    if not promised:
        return
    simulation.add(world("class c9 value=9\njob z queue=q0 priority=c9 min=1: 4 x cpu=1"))
    assert_nominations_are_kept(simulation, promised)


@many
@given(crowded_worlds(), evicting_configs())
def test_every_victim_is_necessary(text: str, config: SchedulerConfig) -> None:
    """If a pod, or a gang that breaks, is not evicted, all else as planned and no other pending jobs, some preemptors cannot run."""
    simulation = Simulation(world(text), config)
    before = simulation.snapshot()
    plan = simulation.cycle()
    promised = nominated_for(plan)
    if len({effect.preemptor for effect in plan.of(Evict)}) != 1:
        return
    if is_claimed_by_others(text, config, plan, promised.keys()):
        return
    for spared in bundles_of(before, plan):
        after = Simulation(world(text), replace(config, actions=("allocate",)))
        after.apply(effect for effect in plan.of(Bind, Evict) if effect.pod not in spared)
        gate_pending(after, promised)
        assert not promised.keys() <= {effect.pod for effect in after.cycle().of(Bind)}, spared
