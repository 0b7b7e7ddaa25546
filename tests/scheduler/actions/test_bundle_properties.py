"""Properties of evictions in bundles in every cluster: valid, minimal, stable and deterministic."""

import random
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace as changed

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.nightly import examples
from tests.scheduler.properties import assert_nominations_are_kept, gate_pending, seen
from tests.scheduler.strategies import GANG_CHAINS, evicting_configs
from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import Object
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate, Plan
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.model.task_status import READY
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import world

REST = 5
many = settings(examples(25), suppress_health_check=list(HealthCheck))


@st.composite
def networked_worlds(draw: st.DrawFn) -> str:
    """Nodes in racks, full of low-priority gangs; high-priority gangs wait, some with required or preferred topology."""
    lines = [f"class c{value} value={value}" for value in (1, 2, 3)]
    claim = draw(st.sampled_from(["", "", " deserved.cpu=2", " guarantee.cpu=1"]))
    lines += ["queue root", f"queue q0 parent=root{claim}", "queue q1 parent=root deserved.cpu=4 weight=2"]
    free = {f"n{number}": draw(st.integers(1, 3)) for number in range(draw(st.integers(2, 5)))}
    lines += [f"node {node} cpu={size}{draw(st.sampled_from(['', '', '', ' zone=a']))}" for node, size in free.items()]
    for number in range(draw(st.integers(1, 4))):
        wanted = draw(st.lists(st.sampled_from(sorted(free)), min_size=1, max_size=5))
        homes = [node for place, node in enumerate(wanted) if free[node] > wanted[:place].count(node)]
        for node in homes:
            free[node] -= 1
        if homes:
            words = [f"min={draw(st.integers(0, len(homes)))}", f"priority=c{draw(st.sampled_from([1, 1, 2]))}"]
            flag = draw(st.sampled_from(["", "", "", "", " note.volcanopy.io/preemptable=false"]))
            queue = draw(st.sampled_from(["q0", "q0", "q1"]))
            lines.append(
                f"job r{number} {' '.join(words)} queue={queue} phase=Running: {', '.join(f'1 x cpu=1 on={node}{flag}' for node in homes)}"
            )
    names = sorted(free)
    cut = draw(st.integers(1, len(names) - 1))
    lines += [f"hypernode a tier=1: {' '.join(names[:cut])}", f"hypernode b tier=1: {' '.join(names[cut:])}"]
    lines += draw(st.sampled_from([[], ["hypernode h tier=2: a b"]]))
    near = ["", " topology=hard:1", " topology=hard:1", " topology=hard:2", " topology=soft"]
    near.append(" split=2 split.min=1 split.by=x/p split.topology=hard:1")
    for number in range(draw(st.integers(1, 3))):
        count, size = draw(st.integers(1, 4)), draw(st.sampled_from([1, 1, 2]))
        words = [f"min={draw(st.integers(1, count))}", f"priority=c{draw(st.sampled_from([2, 3, 3]))}"]
        words.append(f"queue={draw(st.sampled_from(['q0', 'q1']))}")
        flag = draw(st.sampled_from(["", "", "", " port=80", " selector.topology.kubernetes.io/zone=a"]))
        parts = f"{count} x cpu={size}{flag} label.x/p={draw(st.integers(0, 1))}"
        lines.append(f"job w{number} {' '.join(words)}{draw(st.sampled_from(near))}: {parts}")
    return "\n".join(lines)


@many
@given(networked_worlds(), evicting_configs(GANG_CHAINS), st.booleans())
def test_every_plan_is_valid_and_cycles_become_stable(text: str, chosen: SchedulerConfig, replaced: bool) -> None:
    simulation = Simulation(world(text), chosen, replaced)
    plans: list[Plan] = []
    for _ in range(REST + 1):
        before = simulation.snapshot()
        plans.append(simulation.cycle())
        assert violations(before, plans[-1], enforced_invariants(chosen)) == []
        if not plans[-1].of(Bind, Evict, Nominate):
            return
    pytest.fail("\n--\n".join(map(str, plans)))


@many
@given(networked_worlds(), evicting_configs(GANG_CHAINS))
def test_a_gang_preemptor_is_bound_after_its_victims_terminate(text: str, chosen: SchedulerConfig) -> None:
    """A new high-priority job without evictions arrives while victims terminate: it does not get the nominated resources."""
    simulation = Simulation(world(text), chosen, graceful=True)
    plan = simulation.cycle()
    preemptors = {effect.preemptor for effect in plan.of(Evict)}
    promised = {effect.pod: effect.node for effect in plan.of(Nominate) if effect.group in preemptors}
    assert preemptors <= {effect.group for effect in plan.of(Nominate)}
    if not promised:
        return
    simulation.add(newcomers())
    assert_nominations_are_kept(simulation, promised)


def newcomers() -> Iterator[Object]:
    for obj in world("class c9 value=9\njob z queue=q0 priority=c9 min=1: 4 x cpu=1"):
        if isinstance(obj, core.Pod):
            yield replace(obj, spec=replace(obj.spec, preemption_policy="Never"))
        else:
            yield obj


@many
@given(networked_worlds(), evicting_configs(GANG_CHAINS))
def test_every_evicted_bundle_is_necessary(text: str, chosen: SchedulerConfig) -> None:
    """If any bundle is not evicted, with all else as planned and no other pending jobs, some preemptors cannot run."""
    simulation = Simulation(world(text), chosen)
    before = simulation.snapshot()
    plan = simulation.cycle()
    if len({effect.preemptor for effect in plan.of(Evict)}) != 1:
        return
    preemptor = plan.of(Evict)[0].preemptor
    promised = {effect.pod for effect in plan.of(Nominate) if effect.group == preemptor}
    if is_claimed_by_others(text, chosen, plan, promised):
        return
    for spared in bundles_of(before, plan):
        after = Simulation(world(text), changed(chosen, actions=("allocate",)))
        after.apply(effect for effect in plan.of(Bind, Evict) if effect.pod not in spared)
        gate_pending(after, promised)
        assert not promised <= {effect.pod for effect in after.cycle().of(Bind)}, spared


def is_claimed_by_others(text: str, chosen: SchedulerConfig, plan: Plan, promised: AbstractSet[str]) -> bool:
    """Return whether the pods could run without any eviction but for the fair shares of queues whose pods wait."""
    if not {plugin.plugin.name for tier in chosen.tiers for plugin in tier} & {"proportion", "capacity", "drf"}:
        return False
    alone = Simulation(world(text), changed(chosen, actions=("allocate",)))
    alone.apply(plan.of(Bind))
    gate_pending(alone, promised)
    return promised <= {effect.pod for effect in alone.cycle().of(Bind)}


def bundles_of(before: Snapshot, plan: Plan) -> list[set[str]]:
    """Return the victims by bundle: single surplus pods or pods of an incomplete gang, else all victims of a job."""
    leaving: dict[str, set[str]] = {}
    for effect in plan.of(Evict):
        leaving.setdefault(effect.group, set()).add(effect.pod)
    result: list[set[str]] = []
    for group, pods in sorted(leaving.items()):
        job = [str(key) for key in before.jobs.keys].index(group)
        ready = int(before.jobs.counts[np.flatnonzero(READY), job].sum())
        breaks = ready >= before.jobs.min_available[job] > ready - len(pods)
        result += [pods] if breaks else [{pod} for pod in sorted(pods)]
    return result


@many
@given(networked_worlds(), evicting_configs(GANG_CHAINS), st.integers(0, 2**16))
def test_gang_evictions_do_not_depend_on_the_order_of_objects(text: str, chosen: SchedulerConfig, seed: int) -> None:
    objects = world(text)
    shuffled = list(objects)
    random.Random(seed).shuffle(shuffled)
    assert str(schedule(seen(objects), chosen)) == str(schedule(seen(shuffled), chosen))
