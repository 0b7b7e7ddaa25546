"""Which pods are evicted and which start then, in further cases that users of batch schedulers reported."""

import json

import pytest

from tests.scheduler.actions.test_eviction_by_need import BETWEEN, CLASSES, WITHIN, chart
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.model.plan import Bind, Evict
from volcanopy.scheduler.policy.config import parse
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import world

CYCLES = 6

OF_ONE_QUEUE = {
    "two jobs that each need two of three pods: none is evicted for the one that cannot start": (
        """
        node n1 cpu=3
        job x priority=low: 1 x cpu=1 on=n1
        job y priority=low: 1 x cpu=1 on=n1
        job z priority=low: 1 x cpu=1 on=n1
        job a priority=high: 1 x cpu=2
        job b priority=high: 1 x cpu=2
        """,
        ["y-0", "z-0"],
        ["a-0"],
    ),
    "no pod of another queue, whatever its priority": (
        """
        queue q1 deserved.cpu=4
        queue q3 deserved.cpu=4
        node n1 cpu=8
        job w1 queue=q1 priority=low: 1 x cpu=8 on=n1
        job w3 queue=q3 priority=high: 1 x cpu=4
        """,
        [],
        [],
    ),
    "behind a job that never fits": (
        """
        node n1 cpu=4
        job l priority=low: 1 x cpu=4 on=n1
        job h0 priority=high: 1 x cpu=9
        job h1 priority=high: 1 x cpu=4
        """,
        ["l-0"],
        ["h1-0"],
    ),
    "one pod beside what is free": (
        """
        node n1 cpu=20
        job a priority=low min=0: 10 x cpu=1 on=n1
        job b priority=low min=0: 9 x cpu=1 on=n1
        job h priority=high: 1 x cpu=2
        """,
        ["b-8"],
        ["h-0"],
    ),
    "no pods of equal priority for a job above whose minimum others run": (
        "node n1 cpu=4\njob a min=2: 4 x cpu=1 on=n1\njob b min=2: 4 x cpu=1",
        [],
        [],
    ),
    "a pod for its place among the pods of the node": (
        "node n1 cpu=8 pods=1\njob l priority=low: 1 x cpu=1 on=n1\njob h priority=high: 1 x cpu=1",
        ["l-0"],
        ["h-0"],
    ),
    "one large pod for two small ones": (
        "node n1 cpu=8\njob l priority=low: 1 x cpu=8 on=n1\njob h priority=high: 2 x cpu=2",
        ["l-0"],
        ["h-0", "h-1"],
    ),
    "the needed part of what a gang can spare": (
        "node n1 cpu=11\njob v priority=low min=1: 11 x cpu=1 on=n1\njob p priority=high: 1 x cpu=1",
        ["v-9"],
        ["p-0"],
    ),
    "a job of medium priority, while one of low priority waits": (
        """
        node n1 cpu=4
        job med priority=mid: 1 x cpu=4 on=n1
        job low priority=low: 1 x cpu=4
        job high priority=high: 1 x cpu=4
        """,
        ["med-0"],
        ["high-0"],
    ),
    "a pod of medium priority that suffices alone, not then one of low priority for it": (
        """
        node n1 cpu=4
        job a priority=mid: 1 x cpu=3 on=n1
        job b priority=low: 1 x cpu=1 on=n1
        job c priority=high: 1 x cpu=3
        """,
        ["a-0"],
        ["c-0"],
    ),
}
BETWEEN_QUEUES = {
    "one pod of a job that fills the cluster": (
        """
        queue t1 deserved.cpu=4
        queue t2 deserved.cpu=5
        node n1 cpu=9
        job d queue=t1: 1 x cpu=1 on=n1
        job e queue=t1 min=1: 8 x cpu=1 on=n1
        job f queue=t2: 1 x cpu=1
        """,
        ["e-7"],
        ["f-0"],
    ),
    "nothing for a gang that does not fit": (
        "queue q1 deserved.cpu=1\nqueue q2\nnode n1 cpu=4\njob a queue=q1 min=0: 4 x cpu=1 on=n1\njob b queue=q2: 9 x cpu=1",
        [],
        [],
    ),
    "nothing on a node that the job does not accept": (
        """
        queue q1 deserved.cpu=1
        queue q2 deserved.cpu=4
        node n1 cpu=4
        job a queue=q1 min=0: 4 x cpu=1 on=n1
        job b queue=q2: 1 x cpu=1 selector.a/b=c
        """,
        [],
        [],
    ),
    "from a sibling above its share, beside a queue within its share": (
        """
        queue root
        queue org parent=root deserved.cpu=6
        queue short parent=org deserved.cpu=6
        queue batch parent=org deserved.cpu=0
        queue within parent=root deserved.cpu=4
        node n1 cpu=10
        job x queue=batch min=0: 6 x cpu=1 on=n1
        job y queue=within min=0: 4 x cpu=1 on=n1
        job z queue=short: 2 x cpu=1
        """,
        ["x-4", "x-5"],
        ["z-0", "z-1"],
    ),
    "nothing for a queue above its share from one below": (
        """
        queue a deserved.cpu=2
        queue b deserved.cpu=8
        node n1 cpu=10
        job x queue=a min=0: 6 x cpu=1 on=n1
        job y queue=b min=0: 4 x cpu=1 on=n1
        job z queue=a priority=high: 2 x cpu=1
        """,
        [],
        [],
    ),
    "from a queue that has a limit only": (
        """
        queue a deserved.cpu=4
        queue b capability.cpu=12
        node n1 cpu=12
        job x queue=b min=0: 12 x cpu=1 on=n1
        job y queue=a: 4 x cpu=1
        """,
        ["x-6", "x-7", "x-8", "x-9"],
        ["y-0", "y-1", "y-2", "y-3"],
    ),
    "cpus of a queue that is below its share of memory": (
        """
        queue a deserved.cpu=4 deserved.memory=4Gi
        queue b deserved.cpu=4 deserved.memory=8Gi
        node n1 cpu=8 memory=12Gi
        job x queue=b min=0: 8 x cpu=1 memory=1Mi on=n1
        job y queue=a: 2 x cpu=1 memory=1Mi
        """,
        ["x-6", "x-7"],
        ["y-0", "y-1"],
    ),
    "up to the share, although the limit is higher": (
        """
        queue q1 deserved.cpu=0 capability.cpu=4
        queue q2 deserved.cpu=2 capability.cpu=4
        node n1 cpu=4
        job x queue=q1 min=0: 4 x cpu=1 on=n1
        job y queue=q2 min=0: 4 x cpu=1
        """,
        ["x-2", "x-3"],
        ["y-0", "y-1"],
    ),
    "a pod that its job can spare, not a job of one pod that has run for less": (
        """
        queue low deserved.cpu=6
        queue high deserved.cpu=6
        node n0 cpu=3
        node n1 cpu=8
        job r0 priority=low queue=low min=1: 1 x cpu=1 on=n0, 1 x cpu=2 on=n1
        job r1 priority=low queue=low: 1 x cpu=2 on=n0
        job r2 priority=mid queue=low: 1 x cpu=4 on=n1
        job r3 priority=mid queue=low: 1 x cpu=1 on=n1
        job w priority=high queue=high: 3 x cpu=1
        """,
        ["r0-1"],
        ["w-0", "w-1", "w-2"],
    ),
    "from two queues what each has borrowed": (
        """
        queue a deserved.cpu=3 capability.cpu=4
        queue b deserved.cpu=4 capability.cpu=6
        queue c deserved.cpu=3 capability.cpu=4
        node n1 cpu=10
        job x queue=a min=0: 4 x cpu=1 on=n1
        job y queue=b min=0: 6 x cpu=1 on=n1
        job z queue=c min=0: 3 x cpu=1
        """,
        ["x-3", "y-4", "y-5"],
        ["z-0", "z-1", "z-2"],
    ),
}
CASES = [
    *((action, *case) for case in OF_ONE_QUEUE.values() for action in WITHIN),
    *((action, *case) for case in BETWEEN_QUEUES.values() for action in BETWEEN),
]
NAMES = [
    *(f"{name}, {action}" for name in OF_ONE_QUEUE for action in WITHIN),
    *(f"{name}, {action}" for name in BETWEEN_QUEUES for action in BETWEEN),
]


@pytest.mark.parametrize("is_slow", [False, True], ids=["at once", "victims terminate slowly"])
@pytest.mark.parametrize(("action", "text", "evicted", "bound"), CASES, ids=NAMES)
def test_evicted_is(action: str, text: str, evicted: list[str], bound: list[str], is_slow: bool) -> None:
    """In all cycles together: nothing more is evicted while victims terminate, and each eviction ends in a start."""
    simulation = Simulation(world(CLASSES + text), chart(action, "capacity"), graceful=is_slow)
    evictions, binds = list[str](), list[str]()
    for number in range(CYCLES):
        plan = simulation.cycle()
        evictions += [effect.pod.removeprefix("default/") for effect in plan.of(Evict)]
        binds += [effect.pod.removeprefix("default/") for effect in plan.of(Bind)]
        if number == CYCLES // 2:
            simulation.end_terminating()
    assert (sorted(evictions), sorted(binds)) == (evicted, bound)


@pytest.mark.parametrize("action", WITHIN)
def test_no_pod_is_preempted_that_a_disruption_budget_protects(action: str) -> None:
    """Although a pod of higher priority is evicted instead."""
    text = """
        budget p allowed=0 selector.app=x
        node n1 cpu=4
        node n2 cpu=4
        job l priority=low: 1 x cpu=4 on=n1 label.app=x
        job m priority=mid: 1 x cpu=4 on=n2
        job h priority=high: 1 x cpu=4
        """
    plugins = [{"name": name} for name in ("priority", "pdb", "predicates")]
    chosen = parse(json.dumps({"actions": f"allocate, {action}", "tiers": [{"plugins": plugins}]}), builtin())
    plans = list(Simulation(world(CLASSES + text), chosen).cycles(CYCLES))
    assert [effect.pod for plan in plans for effect in plan.of(Evict)] == ["default/m-0"]
