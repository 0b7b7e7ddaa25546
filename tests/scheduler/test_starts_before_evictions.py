"""With preempt nothing starts that is evicted for a job whose pods waited already, admitted and with a higher priority."""

import json
import re
from random import Random

import pytest
from msgspec.structs import replace

from tests import nightly
from volcanopy.api import core
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.model.job_tables import CREATION_TIME
from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Nominate, Plan, SetPodGroup
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy_testing import eviction_worlds
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import world

CYCLES = 10


def config(dice: Random, shares: tuple[str, ...] = ("proportion", "capacity")) -> SchedulerConfig:
    """Volcano's tiers with preempt, with or without overcommit, and with one of these plugins."""
    first = [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}, {"name": "conformance"}]
    names = [*dice.choice([["overcommit"], []]), "predicates", dice.choice(shares), "nodeorder"]
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


@pytest.mark.parametrize("seeds", nightly.seeds(60, 3000, 60, 490))
def test_nothing_starts_that_is_evicted_for_a_job_that_waits(seeds: range) -> None:
    for seed in seeds:
        dice = Random(seed)
        text = eviction_worlds.world(dice)
        assert not lost_starts(Simulation(world(text), config(dice))), text


class LatePods(Simulation):
    """Cycles in which the pods of jobs named ``late...`` are created up to two cycles after their admission."""

    def __init__(self, text: str, config: SchedulerConfig, dice: Random) -> None:
        self.missing: dict[str, list[core.Pod]] = {}
        self._delays: dict[str, int] = {}
        objects = []
        for obj in world(text):
            if isinstance(obj, core.Pod) and obj.metadata.name.startswith("late"):
                key = f"default/{obj.metadata.name.partition('-')[0]}"
                self.missing.setdefault(key, []).append(obj)
                self._delays[key] = dice.randint(0, 2)
            else:
                objects.append(obj)
        super().__init__(objects, config)

    def is_admitted(self, key: str) -> bool:
        group = self.cluster.group(key)
        return group is not None and group.status.phase == "Inqueue"

    def cycle(self) -> Plan:
        plan = super().cycle()
        for key in list(self.missing):
            if self.is_admitted(key):
                self._delays[key] -= 1
                if self._delays[key] < 0:
                    self.add(self.missing.pop(key))
        return plan


def late_world(dice: Random) -> str:
    """A world of one queue, without fair shares that others change, with two jobs whose pods are equal and come late."""
    lines = [re.sub("queue=q[0-9]", "queue=q0", eviction_worlds.world(dice))]
    for number in range(2):
        count, cpu, priority = dice.randint(1, 4), dice.randint(1, 4), dice.choice(["c5", "c9"])
        head = f"job late{number} queue=q0 priority={priority} phase=Pending min={count} minres.cpu={count * cpu}"
        lines.append(f"{head} minres.pods={count}: {count} x cpu={cpu}")
    return "\n".join(lines)


def lost_to_late_jobs(simulation: LatePods) -> list[str]:
    """Return the pods that started and were evicted for jobs that were admitted and had no pods."""
    preemptors, lost = dict[str, set[str]](), list[str]()
    for _ in range(CYCLES):
        snapshot = simulation.snapshot()
        priority = dict(zip(snapshot.jobs.keys, snapshot.jobs.priority.tolist(), strict=True))
        without_pods = set(simulation.missing)
        plan = simulation.cycle()
        lost += [effect.pod for effect in plan.of(Evict) if effect.preemptor in preemptors.get(effect.pod, ())]
        waiting = {key for key in without_pods if simulation.is_admitted(key)}
        for bind in plan.of(Bind):
            preemptors[bind.pod] = {job for job in waiting if priority[job] > priority.get(bind.group, 0)}
    return lost


@pytest.mark.parametrize("seeds", nightly.seeds(5, 500, 5, 55))
def test_nothing_starts_that_is_evicted_for_an_admitted_job_whose_pods_are_being_created(seeds: range) -> None:
    for seed in seeds:
        dice = Random(seed)
        text = late_world(dice)
        assert not lost_to_late_jobs(LatePods(text, config(dice, ("binpack",)), dice)), f"world {seed}\n{text}"


def test_a_job_of_lower_priority_starts_when_the_pods_of_the_first_are_gone() -> None:
    text = """
        class high value=9
        node n1 cpu=4
        job first priority=high min=1 minres.cpu=4 admitted=10:
        job low min=1: 1 x cpu=1
    """
    simulation = Simulation(world(text), config(Random(0)))
    assert not simulation.cycle().of(Bind)
    simulation.now += CREATION_TIME
    assert [bind.pod for bind in simulation.cycle().of(Bind)] == ["default/low-0"]


@pytest.mark.parametrize(
    ("head", "others"),
    [
        ("node n1 cpu=5", "1 x cpu=1"),
        ("node n1 cpu=4\nnode n2 cpu=4", "1 x cpu=3"),
        ("node n1 cpu=8\nqueue default capability.cpu=5", "1 x cpu=1"),
        ("node n1 cpu=7", "3 x cpu=1"),
    ],
)
def test_a_job_of_lower_priority_starts_beside_the_resources_of_an_admitted_one(head: str, others: str) -> None:
    text = f"class high value=9\n{head}\njob first priority=high min=2 minres.cpu=4:\njob low: {others}"
    plan = Simulation(world(text), config(Random(0))).cycle()
    assert len(plan.of(Bind)) == int(others[0])


@pytest.mark.parametrize(
    "head", ["node n1 cpu=4", "node n1 cpu=3\nnode n2 cpu=2", "node n1 cpu=8\nqueue default capability.cpu=4"]
)
@pytest.mark.parametrize("actions", ["enqueue, allocate, preempt", "enqueue, allocate"])
def test_resources_of_an_admitted_job_are_reserved_only_where_it_would_preempt(head: str, actions: str) -> None:
    text = f"class high value=9\n{head}\njob first priority=high min=2 minres.cpu=4:\njob low min=1: 1 x cpu=1"
    chosen = replace_actions(config(Random(0)), actions)
    plan = Simulation(world(text), chosen).cycle()
    assert bool(plan.of(Bind)) == ("preempt" not in actions)
    messages = [explain.message for explain in plan.of(Explain) if explain.job == "default/low"]
    expected = 'resources are reserved for the pods of job "first", which are being created'
    assert messages == ([expected] if "preempt" in actions else [])


def replace_actions(config: SchedulerConfig, actions: str) -> SchedulerConfig:
    return SchedulerConfig(tuple(actions.split(", ")), config.tiers, config.action_arguments, config.metrics)


@pytest.mark.parametrize("low", ["min=1: 1 x cpu=2", "min=2: 2 x cpu=1", "min=1: 2 x cpu=1"])
@pytest.mark.parametrize("high", ["min=1: 1 x cpu=4", "min=2: 2 x cpu=2"])
@pytest.mark.parametrize("shares", ["proportion", "capacity"])
def test_a_pod_whose_resources_a_waiting_job_frees_by_evictions_of_others_does_not_start(
    low: str, high: str, shares: str
) -> None:
    text = f"""
        class high value=9
        node n1 cpu=4
        job old min=1: 1 x cpu=2 on=n1
        job low {low}
        job first priority=high {high}
    """
    simulation = Simulation(world(text), config(Random(0), (shares,)))
    plan = simulation.cycle()
    assert [effect.pod for effect in plan.of(Evict)] == ["default/old-0"]
    assert not plan.of(Bind)
    messages = {explain.job: explain.message for explain in plan.of(Explain)}
    assert messages["default/low"] == 'resources are reserved for job "first"'
    assert {bind.group for bind in simulation.cycle().of(Bind)} == {"default/first"}


def test_pods_that_the_preemptor_does_not_need_start_beside_its_evictions() -> None:
    text = """
        class high value=9
        node n1 cpu=4
        node n2 cpu=2
        job old min=1: 1 x cpu=2 on=n1
        job low min=1: 4 x cpu=1
        job first priority=high min=1: 1 x cpu=4
    """
    plan = Simulation(world(text), config(Random(0))).cycle()
    assert [effect.pod for effect in plan.of(Evict)] == ["default/old-0"]
    assert [bind.node for bind in plan.of(Bind)] == ["n2", "n2"]


def test_several_pods_on_one_node_leave_an_admitted_job_what_it_would_preempt_for() -> None:
    text = "class high value=9\nnode n1 cpu=4\njob first priority=high min=1 minres.cpu=3:\njob low min=2: 2 x cpu=1"
    assert not Simulation(world(text), config(Random(0))).cycle().of(Bind)


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
