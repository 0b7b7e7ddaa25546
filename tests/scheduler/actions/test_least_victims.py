"""The victims of every evicting action cost the least of all sets that suffice: compared with each set in small worlds."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from itertools import combinations
from random import Random

import pytest
from msgspec.structs import replace

from tests import nightly
from volcanopy.api import core, names
from volcanopy.scheduler.cache.cluster_cache import Object
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.model.plan import Evict
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy_testing.notation import NOW, snapshot, world

DAY, NIGHT = 15, 60
"""How many worlds are drawn."""
DESERVED = 6
"""Cpus that the queue of the victims deserves."""


@dataclass(frozen=True)
class Running:
    """A running job: the cpus and nodes of its pods, its minimum, priority and running minutes."""

    name: str
    cpus: tuple[int, ...]
    nodes: tuple[str, ...]
    least: int
    priority: int
    minutes: int

    @property
    def line(self) -> str:
        pods = ", ".join(f"1 x cpu={cpu} on={node}" for cpu, node in zip(self.cpus, self.nodes, strict=True))
        return f"job {self.name} queue=low priority=c{self.priority} min={self.least} phase=Running: {pods}"

    @property
    def choices(self) -> list[frozenset[str]]:
        """Which of its pods may be evicted together: some above its minimum, or all."""
        pods = [f"{self.name}-{number}" for number in range(len(self.cpus))]
        counts = [*range(len(pods) - self.least + 1), len(pods)]
        return [frozenset(chosen) for count in dict.fromkeys(counts) for chosen in combinations(pods, count)]


def running_jobs(dice: Random) -> tuple[dict[str, int], list[Running]]:
    """Nodes with their cpus, full of at most five jobs."""
    nodes = {f"n{number}": dice.randint(3, 8) for number in range(dice.choice([1, 1, 2]))}
    free, jobs = dict(nodes), list[Running]()
    for number in range(5):
        pods = list[tuple[int, str]]()
        for _ in range(dice.choice([1, 1, 2, 3])):
            node, cpu = dice.choice(sorted(free)), dice.choice([1, 1, 2, 3, 4])
            if free[node] >= cpu:
                free[node] -= cpu
                pods.append((cpu, node))
        if pods:
            least = dice.choice([len(pods), dice.randint(0, len(pods))])
            cpus, places = zip(*pods, strict=True)
            jobs.append(
                Running(f"r{number}", cpus, places, least, dice.choice([1, 1, 2]), dice.choice([1, 30, 31, 600]))
            )
    return nodes, jobs


def objects(nodes: dict[str, int], jobs: Sequence[Running], waiting: str, only: frozenset[str] | None) -> list[Object]:
    """The world; with ``only`` no other pods may be evicted."""
    lines = [
        *(f"node {name} cpu={cpu}" for name, cpu in nodes.items()),
        *(f"class c{value} value={value}" for value in (1, 2, 9)),
    ]
    lines += [f"queue low deserved.cpu={DESERVED}", "queue high deserved.cpu=6", *(job.line for job in jobs), waiting]
    minutes = {job.name: job.minutes for job in jobs}
    return [_changed(thing, minutes, only) for thing in world("\n".join(lines))]


def _changed(thing: Object, minutes: dict[str, int], only: frozenset[str] | None) -> Object:
    if not isinstance(thing, core.Pod) or not thing.spec.node_name:
        return thing
    name = thing.metadata.name
    started = NOW - timedelta(minutes=minutes[name.rpartition("-")[0]])
    kept = {names.PREEMPTABLE: "false"} if only is not None and name not in only else {}
    return replace(
        thing,
        metadata=replace(thing.metadata, annotations={**thing.metadata.annotations, **kept}),
        status=replace(thing.status, start_time=started),
    )


def config(action: str) -> SchedulerConfig:
    first = [{"name": "priority"}, {"name": "gang", "enablePreemptable": False, "enableReclaimable": False}]
    second = [{"name": "capacity"}, {"name": "predicates"}, {"name": "binpack"}]
    return parse(json.dumps({"actions": action, "tiers": [{"plugins": first}, {"plugins": second}]}), builtin())


def victims(things: Sequence[Object], chosen: SchedulerConfig) -> frozenset[str]:
    plan = schedule(snapshot("", things), chosen)
    return frozenset(effect.pod.removeprefix("default/") for effect in plan.of(Evict))


def cost(evicted: frozenset[str], jobs: Sequence[Running], total: int, across: bool) -> tuple[object, ...]:
    """What the documentation says that is compared, in exact numbers."""
    counts = Counter(pod.rpartition("-")[0] for pod in evicted)
    losing = [job for job in jobs if counts[job.name]]
    pods = [(job, number) for job in losing for number in range(len(job.cpus)) if f"{job.name}-{number}" in evicted]
    size = sum(Fraction(job.cpus[number], total) for job, number in pods)
    held = sum(sum(job.cpus) for job in jobs)
    lacking = (
        max(0, DESERVED - held + sum(job.cpus[number] for job, number in pods)) if across and held > DESERVED else 0
    )
    return (
        lacking > 0,
        max((job.priority for job in losing), default=0),
        sum(len(job.cpus) >= job.least > len(job.cpus) - counts[job.name] for job in losing),
        sum(Fraction(job.cpus[number], total) * job.minutes for job, number in pods),
        size,
        lacking,
        len(pods),
        sum(job.minutes for job, _ in pods),
    )


def sets(jobs: Sequence[Running]) -> Iterator[frozenset[str]]:
    """All sets of pods that may be evicted together."""
    chosen = [frozenset[str]()]
    for job in jobs:
        chosen = [one | more for one in chosen for more in job.choices]
    return iter(chosen)


@pytest.mark.parametrize("seeds", nightly.seeds(DAY, NIGHT, DAY, NIGHT - DAY))
@pytest.mark.parametrize("action", ["preempt", "reclaim", "gangpreempt", "gangreclaim"])
def test_no_set_of_victims_that_suffices_costs_less(action: str, seeds: range) -> None:
    across, evicting = "reclaim" in action, 0
    for seed in seeds:
        dice = Random(f"{action} {seed}")
        nodes, jobs = running_jobs(dice)
        count = 1
        for job in jobs:
            count *= len(job.choices)
        if count > 128:
            continue
        pods, cpu = dice.choice([(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (3, 1)])
        waiting = f"job w queue={'high' if across else 'low'} priority=c9: {pods} x cpu={cpu}"
        evicted = victims(objects(nodes, jobs, waiting, None), config(action))
        total = sum(nodes.values())
        least = cost(evicted, jobs, total, across)
        for only in sets(jobs):
            if not evicted or cost(only, jobs, total, across) < least:
                others = victims(objects(nodes, jobs, waiting, only), config(action))
                text = "\n".join([str(nodes), *(job.line for job in jobs), waiting])
                assert not others or (evicted and cost(others, jobs, total, across) >= least), (
                    f"seed {seed}: {sorted(others)} instead of {sorted(evicted)}\n{text}\n{jobs}"
                )
        evicting += bool(evicted)
    assert evicting > len(seeds) / 8
