"""With preempt nothing starts that is evicted for a job whose pods waited already, admitted and with a higher priority."""

import json
from random import Random

from msgspec.structs import replace

from tests.scheduler import eviction_worlds
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.framework.config import SchedulerConfig, parse
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate, Plan, SetPodGroup
from volcanopy.scheduler.model.task_status import Status
from volcanopy.testing.cycles import Simulation
from volcanopy.testing.notation import world

WORLDS, CYCLES = 60, 10


def config(dice: Random) -> SchedulerConfig:
    """Volcano's tiers with preempt, with or without overcommit."""
    first = [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}, {"name": "conformance"}]
    names = [*dice.choice([["overcommit"], []]), "predicates", dice.choice(["proportion", "capacity"]), "nodeorder"]
    tiers = [{"plugins": first}, {"plugins": [{"name": name} for name in names]}]
    return parse(json.dumps({"actions": "enqueue, allocate, preempt, backfill", "tiers": tiers}), builtin())


def lost_starts(simulation: Simulation) -> list[str]:
    """Return the pods that started and were evicted for jobs that waited already, in cycles in which nothing else happens."""
    preemptors, lost = dict[str, set[str]](), list[str]()
    for _ in range(CYCLES):
        snapshot = simulation.snapshot()
        jobs, tasks = snapshot.jobs, snapshot.tasks
        priority = dict(zip(jobs.keys, jobs.priority.tolist(), strict=True))
        admitted = {key for key, phase in zip(jobs.keys, jobs.phase, strict=True) if phase != "Pending"}
        pending = {jobs.keys[job] for job in tasks.job[tasks.status == Status.PENDING].tolist() if job >= 0}
        plan = simulation.cycle()
        lost += [effect.pod for effect in plan.of(Evict) if effect.preemptor in preemptors.get(effect.pod, ())]
        admitted |= {effect.pod_group for effect in plan.of(SetPodGroup) if effect.phase != "Pending"}
        waiting = (admitted & pending) - {effect.group for effect in plan.of(Bind)}
        for bind in plan.of(Bind):
            preemptors[bind.pod] = {job for job in waiting if priority[job] > priority.get(bind.group, 0)}
        if not plan.of(Bind, Evict, Nominate):
            break
    return lost


def test_nothing_starts_that_is_evicted_for_a_job_that_waits() -> None:
    for seed in range(WORLDS):
        dice = Random(seed)
        text = eviction_worlds.world(dice)
        assert not lost_starts(Simulation(world(text), config(dice))), text


class Ungating(Simulation):
    """Cycles after the first of which a pod has no scheduling gates any more."""

    def cycle(self) -> Plan:
        plan, pod = super().cycle(), self.pod("default/urgent-0")
        if pod is not None and pod.spec.scheduling_gates:
            self.add([replace(pod, spec=replace(pod.spec, scheduling_gates=()))])
        return plan


def test_such_evictions_are_noticed() -> None:
    text = """
        class high value=9
        node n1 cpu=4
        job low min=1: 1 x cpu=4
        job urgent priority=high min=1: 1 x cpu=4 gated
    """
    assert lost_starts(Ungating(world(text), config(Random(0)))) == ["default/low-0"]
