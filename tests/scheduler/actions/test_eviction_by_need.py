"""Evictions by need: the same search in preempt, reclaim, gangpreempt and gangreclaim."""

import json
from collections.abc import Sequence
from dataclasses import replace as changed
from datetime import timedelta
from random import Random

import msgspec
import pytest

from tests import nightly
from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import Object
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.model.eviction_record import with_eviction
from volcanopy.scheduler.model.plan import Bind, Evict, GroupCondition, Nominate, Plan, SetPodGroup
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.services.scheduler.state.statuses import group_status
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import NOW, config, decide, snapshot, world

CLASSES = "class high value=9\nclass mid value=5\nclass low value=1\n"
WITHIN = ("preempt", "gangpreempt")
BETWEEN = ("reclaim", "gangreclaim")


def chart(actions: str, shares: str = "proportion") -> SchedulerConfig:
    """As in Volcano's chart the plugin gang does not protect gangs."""
    first = [{"name": "priority"}, {"name": "gang", "enablePreemptable": False, "enableReclaimable": False}]
    second = [{"name": "overcommit"}, {"name": "predicates"}, {"name": "binpack"}]
    tiers = [{"plugins": [*first, {"name": shares}]}, {"plugins": second}]
    return parse(json.dumps({"actions": f"enqueue, allocate, backfill, {actions}", "tiers": tiers}), builtin())


def evicted(plan: Plan) -> list[str]:
    return sorted(effect.pod.removeprefix("default/") for effect in plan.of(Evict))


def nominated(plan: Plan) -> list[str]:
    return sorted(effect.pod.removeprefix("default/") for effect in plan.of(Nominate) if effect.node)


@pytest.mark.parametrize("action", WITHIN)
def test_minima_of_tasks_are_evicted_for_first(action: str) -> None:
    """In the order of names five pods of the first task would precede the three that the gang needs."""
    text = """
        node n1 cpu=4
        job low priority=low min=0: 4 x cpu=1 on=n1
        job high priority=high min=4: 5 x cpu=1 role=a min=1, 3 x cpu=1 role=b min=3
        """
    plan = decide(CLASSES + text, chart(action))
    assert len(evicted(plan)) == 4
    assert nominated(plan) == ["high-a-0", "high-b-0", "high-b-1", "high-b-2"]


@pytest.mark.parametrize("action", BETWEEN)
def test_minima_of_tasks_are_reclaimed_for_first(action: str) -> None:
    text = """
        queue a
        queue b
        node n1 cpu=8
        job old queue=b min=0: 8 x cpu=1 on=n1
        job new queue=a min=4: 5 x cpu=1 role=a min=1, 3 x cpu=1 role=b min=3
        """
    plan = decide(text, chart(action))
    assert len(evicted(plan)) == 4
    assert nominated(plan) == ["new-a-0", "new-b-0", "new-b-1", "new-b-2"]


@pytest.mark.parametrize("action", WITHIN)
def test_nothing_is_evicted_for_a_gang_whose_pod_without_requests_has_no_node(action: str) -> None:
    text = """
        node n1 cpu=2
        job low priority=low min=0: 2 x cpu=1 on=n1
        job high priority=high: 2 x cpu=1 role=w, 1 x role=m{}
        """
    assert evicted(decide(CLASSES + text.format(" selector.disk=ssd"), chart(action))) == []
    simulation = Simulation(world(CLASSES + text.format("")), chart(action))
    assert len(simulation.cycle().of(Evict)) == 2
    assert len(simulation.cycle().of(Bind)) == 3


@pytest.mark.parametrize("action", WITHIN)
def test_a_gang_is_broken_whole_on_all_its_nodes(action: str) -> None:
    text = """
        node n1 cpu=2
        node n2 cpu=2
        job low priority=low: 4 x cpu=1 on=n1,n1,n2,n2
        job high priority=high: 1 x cpu=1
        """
    assert evicted(decide(CLASSES + text, chart(action))) == ["low-0", "low-1", "low-2", "low-3"]


@pytest.mark.parametrize("action", WITHIN)
def test_a_gang_with_a_pod_that_may_not_be_evicted_is_not_broken(action: str) -> None:
    text = """
        node n1 cpu=2
        node n2 cpu=2
        job low priority=low: 2 x cpu=1 on=n1, 1 x cpu=1 on=n2 note.volcanopy.io/preemptable=false
        job high priority=high: 1 x cpu=2
        """
    assert evicted(decide(CLASSES + text, chart(action))) == []


@pytest.mark.parametrize("action", WITHIN)
def test_pods_above_a_minimum_go_before_whole_gangs_that_lose_less_work(action: str) -> None:
    text = """
        node n1 cpu=3
        node n2 cpu=1
        job elastic priority=low min=1: 3 x cpu=1 on=n1
        job young priority=low: 1 x cpu=1 on=n2
        job high priority=high: 2 x cpu=1
        """
    assert evicted(decide(CLASSES + text, chart(action))) == ["elastic-1", "elastic-2"]


@pytest.mark.parametrize("shares", ["proportion", "capacity"])
@pytest.mark.parametrize("action", BETWEEN)
def test_elastic_jobs_shrink_before_a_gang_is_reclaimed(shares: str, action: str) -> None:
    """The gang started after the elastic job and would lose less work; the elastic job keeps its minimum."""
    text = """
        queue a deserved.cpu=6
        queue b deserved.cpu=6
        node n1 cpu=12
        job elastic queue=b min=2: 6 x cpu=1 on=n1
        job young queue=b: 6 x cpu=1 on=n1
        job new queue=a min=1: {count} x cpu=1
        """
    for count in (1, 4):
        plan = decide(text.format(count=count), chart(action, shares))
        assert evicted(plan) == ["elastic-5"]
    plan = decide(text.format(count=4).replace("min=1", "min=4"), chart(action, shares))
    assert evicted(plan) == [f"elastic-{number}" for number in (2, 3, 4, 5)]


@pytest.mark.parametrize("action", WITHIN)
def test_an_elastic_job_shrinks_to_its_minimum_before_it_is_evicted_whole(action: str) -> None:
    text = """
        node n1 cpu=6
        job elastic priority=low min=2: 6 x cpu=1 on=n1
        job high priority=high: {count} x cpu=1
        """
    assert evicted(decide(CLASSES + text.format(count=4), chart(action))) == [
        f"elastic-{number}" for number in range(2, 6)
    ]
    assert len(evicted(decide(CLASSES + text.format(count=5), chart(action)))) == 6


@pytest.mark.parametrize("action", WITHIN)
@pytest.mark.parametrize("port", ["", " port=80"])
def test_an_eviction_that_a_later_one_makes_needless_is_cancelled(action: str, port: str) -> None:
    """The gang is evicted for its pod on n2 and frees n1 as well: with another port the small pod runs beside the first job."""
    text = f"""
        node n1 cpu=3
        node n2 cpu=1 label.disk=ssd
        job small priority=low: 1 x cpu=1 on=n1{port}
        job gang priority=mid: 3 x cpu=1 on=n1,n1,n2
        job high1 priority=high: 1 x cpu=1{port}
        job high2 priority=high: 1 x cpu=1 selector.disk=ssd
        """
    simulation = Simulation(world(CLASSES + text), chart(action))
    plan = simulation.cycle()
    assert evicted(plan) == ["gang-0", "gang-1", "gang-2", *(["small-0"] if port else [])]
    assert nominated(plan) == ["high1-0", "high2-0"]
    assert [effect.pod_group for effect in plan.of(SetPodGroup) if effect.evicted] == [
        "default/gang",
        *(["default/small"] if port else []),
    ]
    assert {"default/high1-0", "default/high2-0"} <= {effect.pod for effect in simulation.cycle().of(Bind)}


@pytest.mark.parametrize("action", BETWEEN)
def test_an_entitled_gang_reclaims_whole_gangs(action: str) -> None:
    """One pod of a pair could return, since its queue would be within its share; the pair cannot."""
    text = "queue a\nqueue b\nnode n1 cpu=8\n" + "".join(f"job p{pair} queue=b: 2 x cpu=1 on=n1\n" for pair in range(4))
    plan = decide(text + "job g queue=a: 3 x cpu=1", chart(action))
    assert evicted(plan) == ["p2-0", "p2-1", "p3-0", "p3-1"]
    assert nominated(plan) == ["g-0", "g-1", "g-2"]


@pytest.mark.parametrize("action", BETWEEN)
@pytest.mark.parametrize("shares", ["proportion", "capacity"])
def test_a_gang_is_not_broken_where_its_queue_would_lack_as_much_as_the_reclaimers(action: str, shares: str) -> None:
    text = "queue a deserved.cpu=4\nqueue b deserved.cpu=4\nnode n1 cpu=8\njob old queue=b: 8 x cpu=1 on=n1\n"
    assert evicted(decide(text + "job g queue=a: 4 x cpu=1", chart(action, shares))) == []


@pytest.mark.parametrize("actions", ["preempt, reclaim", "reclaim, preempt", "gangpreempt, gangreclaim"])
def test_what_a_queue_deserves_is_reclaimed_before_its_own_jobs_are_preempted(actions: str) -> None:
    """If the low job of queue a were preempted, it would reclaim in its turn: two evictions where one is enough."""
    text = """
        queue a
        queue b
        node n1 cpu=4
        job low queue=a priority=low: 1 x cpu=1 on=n1
        job other queue=b min=0: 3 x cpu=1 on=n1
        job high queue=a priority=high: 1 x cpu=1
        """
    simulation = Simulation(world(CLASSES + text), chart(actions))
    plans = list(simulation.cycles(5))
    assert [evicted(plan) for plan in plans if evicted(plan)] == [["other-2"]]
    assert not plans[-1].of(Bind, Evict, Nominate)


@pytest.mark.parametrize("actions", ["preempt, reclaim", "gangreclaim, gangpreempt"])
def test_a_gang_reclaims_what_its_queue_deserves_and_preempts_the_rest(actions: str) -> None:
    text = """
        queue a
        queue b
        node n1 cpu=8
        job low queue=a priority=low min=0: 2 x cpu=1 on=n1
        job other queue=b min=0: 6 x cpu=1 on=n1
        job high queue=a priority=high: 4 x cpu=1
        """
    plan = decide(CLASSES + text, chart(actions))
    assert evicted(plan) == ["low-0", "low-1", "other-4", "other-5"]
    assert {effect.reason.removeprefix("gang") for effect in plan.of(Evict)} == {"preempt", "reclaim"}


@pytest.mark.parametrize("shares", ["proportion", "capacity"])
@pytest.mark.parametrize("action", BETWEEN)
def test_a_job_above_its_minimum_gets_the_share_of_its_queue_back(shares: str, action: str) -> None:
    text = """
        queue q1 deserved.cpu=2
        queue q2 deserved.cpu=2
        node n1 cpu=4
        job big queue=q1 min=1: 3 x cpu=1 on=n1
        job own queue=q2 min=1: 1 x cpu=1 on=n1, 3 x cpu=1
        """
    simulation = Simulation(world(text), chart(action, shares))
    plans = list(simulation.cycles(5))
    assert [evicted(plan) for plan in plans if evicted(plan)] == [["big-2"]]
    assert not plans[-1].of(Bind, Evict, Nominate)


@pytest.mark.parametrize("shares", ["proportion", "capacity"])
@pytest.mark.parametrize("action", BETWEEN)
def test_shares_decide_whichever_tier_selects_the_victims(shares: str, action: str) -> None:
    """In Volcano's tiers conformance, in the first one, selects all pods but critical ones, and no tier after it is asked."""
    first = [{"name": "gang", "enablePreemptable": False, "enableReclaimable": False}, {"name": "conformance"}]
    document = [{"plugins": first}, {"plugins": [{"name": "predicates"}, {"name": shares}]}]
    tiers = parse(json.dumps({"actions": f"enqueue, allocate, {action}", "tiers": document}), builtin())
    text = "queue a deserved.cpu=4\nqueue b deserved.cpu=4\nnode n1 cpu=8\njob new queue=a: 4 x cpu=1\n"
    assert evicted(decide(text + "job old queue=b: 8 x cpu=1 on=n1", tiers)) == []
    assert len(evicted(decide(text + "job old queue=b min=0: 8 x cpu=1 on=n1", tiers))) == 4


def broken_in_part(seen: Snapshot, plan: Plan) -> list[str]:
    """Return the gangs that the plan brings below their minimum while some of their pods still run."""
    left: dict[str, list[str]] = {}
    had: dict[str, int] = {}
    gone = {effect.pod for effect in plan.of(Evict)}
    jobs = {str(key): int(least) for key, least in zip(seen.jobs.keys, seen.jobs.min_available, strict=True)}
    for row, key in enumerate(seen.tasks.keys):
        if seen.tasks.node[row] >= 0 and seen.tasks.job[row] >= 0:
            group = str(seen.jobs.keys[seen.tasks.job[row]])
            had[group] = had.get(group, 0) + 1
            left.setdefault(group, []).extend([str(key)] if str(key) not in gone else [])
    return [job for job, pods in left.items() if pods and len(pods) < jobs[job] <= had[job]]


def crowd(dice: Random) -> str:
    """Full nodes with gangs of one to four pods in two queues, and gangs that wait."""
    lines = ["queue a deserved.cpu=4", "queue b deserved.cpu=4"]
    free = {f"n{number}": dice.randint(1, 4) for number in range(dice.randint(1, 3))}
    lines += [f"node {node} cpu={size}" for node, size in free.items()]
    for number in range(8):
        nodes = [node for node in free for _ in range(free[node])]
        dice.shuffle(nodes)
        nodes = nodes[: dice.randint(1, 4)]
        for node in nodes:
            free[node] -= 1
        if nodes:
            least = dice.randint(1, len(nodes))
            head = f"job r{number} queue={dice.choice('ab')} priority={dice.choice(['low', 'mid'])} min={least}"
            lines.append(f"{head}: {len(nodes)} x cpu=1 on={','.join(nodes)}")
    for number in range(dice.randint(1, 3)):
        count = dice.randint(1, 4)
        head = f"job w{number} queue={dice.choice('ab')} priority={dice.choice(['mid', 'high'])} min={dice.randint(1, count)}"
        lines.append(f"{head}: {count} x cpu={dice.choice([1, 1, 2])}")
    return CLASSES + "\n".join(lines)


@pytest.mark.parametrize("shares", ["proportion", "capacity"])
@pytest.mark.parametrize("actions", ["preempt, reclaim", "gangpreempt, gangreclaim", "reclaim", "preempt"])
@pytest.mark.parametrize("seeds", nightly.seeds(10, 250, 10, 120))
def test_no_part_of_a_broken_gang_is_left_and_cycles_become_stable(seeds: range, actions: str, shares: str) -> None:
    evictions = 0
    for seed in seeds:
        simulation = Simulation(world(crowd(Random(seed))), chart(actions, shares))
        plan = Plan(())
        for _ in range(6):
            before = simulation.snapshot()
            plan = simulation.cycle()
            evictions += len(plan.of(Evict))
            assert broken_in_part(before, plan) == [], seed
        assert not plan.of(Bind, Evict, Nominate), seed
    assert evictions > len(seeds) / 4


def test_a_search_without_a_solution_asks_no_node() -> None:
    """With all candidates gone the gang still lacks a node: nothing is tried."""
    nodes = "".join(f"node n{number} cpu=4\n" for number in range(50))
    running = ",".join(f"n{number // 4}" for number in range(200))
    text = f"{CLASSES}{nodes}job low priority=low min=0: 200 x cpu=1 on={running}\n"
    text += "".join(f"job w{number} priority=high: {51 + number} x cpu=3\n" for number in range(20))
    session = Session(snapshot(text), changed(config("priority, gang | predicates", "preempt")))
    builtin().actions["preempt"](session, {})
    assert len(session.ledger.moved) == 0
    assert schedule(snapshot(text), config("priority, gang | predicates", "preempt")).of(Evict) == []


def changed_status(thing: Object, evictions: Sequence[int]) -> Object:
    """Pods run for ten minutes; pods of the groups were evicted so many minutes ago."""
    if isinstance(thing, core.PodGroup):
        record = thing.status
        for minutes in evictions:
            record = with_eviction(record, "PodsEvicted", "", 600, NOW - timedelta(minutes=minutes))
        return msgspec.structs.replace(thing, status=record)
    if isinstance(thing, core.Pod) and thing.spec.node_name:
        status = msgspec.structs.replace(thing.status, start_time=NOW - timedelta(minutes=10))
        return msgspec.structs.replace(thing, status=status)
    return thing


@pytest.mark.parametrize("action", BETWEEN)
def test_pods_that_start_again_after_an_eviction_are_not_reclaimed_within_the_cooldown(action: str) -> None:
    text = """
        queue a
        queue b
        node n1 cpu=4
        job old queue=b min=0: 4 x cpu=1 on=n1
        job new queue=a: 1 x cpu=1
        """

    def plan(*ago: int) -> Plan:
        return schedule(snapshot("", [changed_status(thing, ago) for thing in world(text)]), chart(action))

    assert evicted(plan()) == ["old-3"]
    assert evicted(plan(11)) == []  # the pods started since
    assert evicted(plan(9)) == ["old-3"]  # these pods are what was left of the job
    assert evicted(plan(11, 9)) == []  # the pods started after the first of these evictions
    assert evicted(plan(31)) == ["old-3"]
    (group,) = [effect for effect in plan().of(SetPodGroup) if effect.evicted is not None]
    assert (group.pod_group, group.evicted) == (
        "default/old",
        GroupCondition("Evicted", "PodsEvicted", 'pods were evicted for a job in queue "a"'),
    )
    old = core.Condition(type="Evicted", status="True", message="old", last_transition_time=NOW - timedelta(hours=1))
    status = group_status(core.PodGroupStatus(conditions=(old,)), group, "s", NOW)
    assert [(each.message, each.last_transition_time) for each in status.conditions if each.type == "Evicted"] == [
        ('pods were evicted for a job in queue "a"', NOW)
    ]


@pytest.mark.parametrize("action", WITHIN)
def test_pods_that_start_again_after_an_eviction_are_preempted_last(action: str) -> None:
    """Priorities are strict: if there are no others of their priority, they are evicted again."""
    text = f"""{CLASSES}
        node n1 cpu=1
        node n2 cpu=1
        job left priority=low: 1 x cpu=1 on=n1
        job right priority=low: 1 x cpu=1 on=n2
        job new priority=high: 1 x cpu=1
        """

    def victims(*evicted_before: str) -> list[str]:
        things = [changed_status(thing, (11,) * (thing.metadata.name in evicted_before)) for thing in world(text)]
        return evicted(schedule(snapshot("", things), chart(action)))

    assert victims("left") == ["right-0"]
    assert victims("right") == ["left-0"]
    assert victims("left", "right") == victims()
