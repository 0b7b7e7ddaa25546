"""Admission of jobs whose resources must be reclaimed or preempted first.

Reclaim and preempt consider admitted jobs only, and overcommit admits no job to a full cluster. In each of these clusters a
job within its fair share must be admitted nevertheless.
"""

from dataclasses import dataclass

import msgspec
import pytest

from volcanopy.api import core
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.model.plan import Evict
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import decide, world


def configured(shares: str, actions: str = "enqueue, allocate, reclaim", **options: object) -> SchedulerConfig:
    """The usual tiers with one plugin for shares; gangs may be broken into by reclaim."""
    first = [{"name": "priority"}, {"name": "gang", "enablePreemptable": False, "enableReclaimable": False}]
    second = [{"name": "overcommit"}, {"name": "predicates"}, {"name": shares, **options}]
    document = {"actions": actions, "tiers": [{"plugins": first}, {"plugins": second}]}
    return parse(msgspec.json.encode(document).decode(), builtin())


@dataclass(frozen=True)
class Case:
    """A world in which job ``new`` waits for admission, and whether it should be admitted."""

    name: str
    shares: str
    world: str
    admitted: bool
    tree: bool = False
    level: int = 0
    actions: str = "enqueue, allocate, reclaim"

    @property
    def evicts(self) -> bool:
        """Whether the actions include one that evicts."""
        return "reclaim" in self.actions or "preempt" in self.actions

    @property
    def config(self) -> SchedulerConfig:
        options: dict[str, object] = {"enableHierarchy": True} if self.tree else {}
        if self.level:
            options["arguments"] = {"ancestorReclaimLevel": self.level}
        return configured(self.shares, self.actions, **options)


FULL = "node n1 cpu=8 memory=8Gi\n"
BY_WEIGHT = FULL + "queue a\nqueue b\njob old queue=b min=1: 8 x cpu=1 memory=1Gi on=n1\n"
BY_DESERT = (
    FULL
    + "queue a deserved.cpu=4\nqueue b deserved.cpu=4 deserved.memory=4Gi\n"
    + "job old queue=b min=1: 8 x cpu=1 memory=1Gi on=n1\n"
)
TREE = (
    FULL
    + "queue root\nqueue eng deserved.cpu=4 parent=root\nqueue ml parent=eng deserved.cpu=1\n"
    + "queue ops parent=root deserved.cpu=4\njob old queue=ops min=1: 8 x cpu=1 on=n1\n"
)

CASES = [
    Case("a queue is owed half of the cluster by its weight", "proportion", BY_WEIGHT + "NEW queue=a 4", True),
    Case("but not more than that", "proportion", BY_WEIGHT + "NEW queue=a 5", False),
    Case("who holds all that is owed waits", "proportion", BY_WEIGHT + "NEW queue=b 2", False),
    Case(
        "without reclaim as well: the pods of others end",
        "proportion",
        BY_WEIGHT + "NEW queue=a 4",
        True,
        actions="enqueue, allocate",
    ),
    Case(
        "what a job that can never be admitted asks for takes nothing from others",
        "proportion",
        FULL
        + "queue a\nqueue b\nqueue c capability.cpu=1\njob old queue=b min=1: 8 x cpu=1 on=n1\n"
        + "job huge min=9 phase=Pending queue=c minres.cpu=9\nNEW queue=a 4",
        True,
    ),
    Case(
        "what others on the way to their room were admitted for counts",
        "proportion",
        BY_WEIGHT + "job next queue=a min=2 minres.cpu=2\nNEW queue=a 3",
        False,
    ),
    Case("a queue deserves a fixed amount", "capacity", BY_DESERT + "NEW queue=a 4", True),
    Case("and no more", "capacity", BY_DESERT + "NEW queue=a 5", False),
    Case(
        "memory, of which it deserves nothing in particular, does not count",
        "capacity",
        BY_DESERT + "NEW queue=a 4 4Gi",
        True,
    ),
    Case("a leaf of a tree by what it deserves itself", "capacity", TREE + "NEW queue=ml 1", True, tree=True),
    Case("with what its siblings leave of its parent's", "capacity", TREE + "NEW queue=ml 3", True, tree=True),
    Case("and no more than the parent deserves", "capacity", TREE + "NEW queue=ml 5", False, tree=True),
    Case("unless ancestors are asked as well", "capacity", TREE + "NEW queue=ml 3", True, tree=True, level=1),
    Case("up to what the parent deserves", "capacity", TREE + "NEW queue=ml 5", False, tree=True, level=1),
    Case(
        "with what its siblings hold",
        "capacity",
        TREE.replace("8 x cpu=1", "6 x cpu=1")
        + "queue web parent=eng\njob sib queue=web: 2 x cpu=1 on=n1\nNEW queue=ml 3",
        False,
        tree=True,
        level=1,
    ),
    Case(
        "less important jobs of the queue could leave",
        "proportion",
        FULL
        + "class high value=9\njob old: 6 x cpu=1 on=n1\njob high priority=high: 2 x cpu=1 on=n1\nNEW priority=high 6",
        True,
        actions="enqueue, allocate, preempt",
    ),
    Case(
        "as far as there are any",
        "proportion",
        FULL
        + "class high value=9\njob old: 6 x cpu=1 on=n1\njob high priority=high: 2 x cpu=1 on=n1\nNEW priority=high 7",
        False,
        actions="enqueue, allocate, preempt",
    ),
]


def written(text: str) -> str:
    """Return the world with ``NEW options cpus [memory]`` replaced by a pending job without pods."""
    lines = text.splitlines()
    words = lines[-1].split()[1:]
    memory = words.pop() if words[-1].endswith("Gi") else ""
    count = int(words.pop())
    each = f" memory={int(memory.removesuffix('Gi')) // count}Gi" if memory else ""
    least = f"minres.cpu={count}" + (f" minres.memory={memory}" if memory else "")
    return "\n".join([*lines[:-1], f"job new phase=Pending {least} {' '.join(words)}: {count} x cpu=1{each}"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_job_within_the_fair_share_is_admitted(case: Case) -> None:
    plan = decide(written(case.world), case.config)
    assert ("podgroup new Inqueue" in str(plan)) == case.admitted


@pytest.mark.parametrize("case", [case for case in CASES if case.admitted and case.evicts], ids=lambda case: case.name)
def test_an_admitted_job_is_placed_by_eviction(case: Case) -> None:
    simulation = Simulation(world(written(case.world)), case.config, replaced=False)
    evicted = [effect for plan in simulation.cycles(6) for effect in plan.of(Evict)]
    assert evicted
    pod = simulation.pod("default/new-0")
    assert pod is not None
    assert pod.spec.node_name == "n1"


def test_an_admitted_job_that_fits_nowhere_does_not_block_the_next() -> None:
    """Job odd was admitted and fits no node: the share of the queue is still available to job new."""
    odd = "job odd queue=a minres.cpu=4: 4 x cpu=1 selector.disk=none"
    text = written(BY_WEIGHT + odd + "\nNEW queue=a 4")
    config = configured("proportion")
    simulation = Simulation(world(text), config, replaced=False)
    group = simulation.cluster.objects["PodGroup", "default/odd"]
    assert isinstance(group, core.PodGroup)
    condition = core.Condition(type="Unschedulable", status="True")
    status = msgspec.structs.replace(group.status, conditions=(condition,))
    simulation.cluster.put(msgspec.structs.replace(group, status=status))
    assert "podgroup new Inqueue" in str(simulation.cycle())
