"""drf: jobs, and with a hierarchy queues, are ordered by dominant share."""

import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from tests import nightly
from tests.scheduler.plugins.scene import Scene
from tests.scheduler.properties import PROPERTIES
from tests.scheduler.random_cases import Case, case
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.engine.shares.share_rules import ShareRules
from volcanopy.scheduler.model.plan import Bind, Evict, Plan, SetPodGroup
from volcanopy.scheduler.policies.order.drf import HierarchicalDrf
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.scheduler.policy.plugin import NoArguments
from volcanopy.scheduler.policy.roles import Purpose
from volcanopy_testing.notation import NOW, decide, snapshot, world


def hdrf(actions: str = "allocate", *, hierarchy: bool = True, more: tuple[str, ...] = ()) -> SchedulerConfig:
    entries: list[dict[str, Any]] = [{"name": "gang"}, {"name": "drf", "enableHierarchy": hierarchy}]
    tiers = [{"plugins": [*entries, *({"name": name} for name in more)]}, {"plugins": [{"name": "predicates"}]}]
    return parse(json.dumps({"actions": actions, "tiers": tiers}), builtin())


def by_job(plan: Plan) -> dict[str, int]:
    return dict(Counter(effect.group.removeprefix("default/") for effect in plan.of(Bind)))


DEPARTMENTS = """
    node  n1 cpu=12
    queue root
    queue sci  parent=root weight=2
    queue eng  parent=root weight=1
    queue dev  parent=eng
    queue prod parent=eng
    job s min=0 queue=sci:  12 x cpu=1
    job d min=0 queue=dev:  12 x cpu=1
    job p min=0 queue=prod: 12 x cpu=1
"""


def test_a_parent_with_two_children_gets_no_more_than_its_weight() -> None:
    """The queue of weight two gets two thirds; the third of the other is divided between its two children."""
    assert by_job(decide(DEPARTMENTS, hdrf())) == {"s": 8, "d": 2, "p": 2}


def test_without_the_switch_jobs_are_compared_each_alone() -> None:
    assert by_job(decide(DEPARTMENTS, hdrf(hierarchy=False))) != {"s": 8, "d": 2, "p": 2}


def test_annotations_define_the_hierarchy_without_a_queue_tree() -> None:
    said = "note.volcanopy.io/hierarchy={} note.volcanopy.io/hierarchy-weights={}"
    text = f"""
        node  n1 cpu=12
        queue sci  {said.format("root/sci", "1/2")}
        queue dev  {said.format("root/eng/dev", "1/1/1")}
        queue prod {said.format("root/eng/prod", "1/1/1")}
        job s min=0 queue=sci:  12 x cpu=1
        job d min=0 queue=dev:  12 x cpu=1
        job p min=0 queue=prod: 12 x cpu=1
    """
    assert by_job(decide(text, hdrf())) == {"s": 8, "d": 2, "p": 2}


def test_requests_for_another_resource_do_not_reduce_the_share_of_the_parent() -> None:
    """One child uses cpus, the other memory: both get the full half of their parent."""
    text = """
        node  n1 cpu=10 memory=10Gi
        queue root
        queue sci  parent=root
        queue eng  parent=root
        queue dev  parent=eng
        queue prod parent=eng
        job s min=0 queue=sci:  10 x cpu=1 memory=1Gi
        job d min=0 queue=dev:  10 x cpu=1
        job p min=0 queue=prod: 10 x memory=1Gi
    """
    assert by_job(decide(text, hdrf())) == {"s": 5, "d": 5, "p": 5}


def test_gated_pods_do_not_reduce_the_share_of_the_parent() -> None:
    """Queue prod runs one pod and has gated pods: it is saturated."""
    text = """
        node  n1 cpu=13
        queue root
        queue sci  parent=root
        queue eng  parent=root
        queue dev  parent=eng
        queue prod parent=eng
        job p min=0 queue=prod: 1 x cpu=1 on=n1, 9 x cpu=1 gated
        job s min=0 queue=sci:  12 x cpu=1
        job d min=0 queue=dev:  12 x cpu=1
    """
    assert by_job(decide(text, hdrf())) == {"s": 7, "d": 5}


FULL = """
    node  n1 cpu=8
    queue root
    queue sci  parent=root
    queue eng  parent=root
    queue dev  parent=eng
    job d min=1 queue=dev: 8 x cpu=1 on=n1
"""


@pytest.mark.parametrize(("members", "victims"), [(3, 3), (4, 0)])
def test_reclaim_stops_at_equal_shares(members: int, victims: int) -> None:
    """With three of eight the gang has a smaller share than the victims; with four the shares would be equal."""
    plan = decide(FULL + f"job s queue=sci: {members} x cpu=1", hdrf("allocate, reclaim"))
    assert len(plan.of(Evict)) == victims


@pytest.mark.parametrize(("size", "victims"), [(3, 3), (4, 0)])
def test_victims_are_checked_in_sum(size: int, victims: int) -> None:
    """Each of the four is a possible victim alone, but the sum that the large pod requires exceeds the share."""
    plan = decide(FULL + f"job s queue=sci: 1 x cpu={size}", hdrf("allocate, reclaim"))
    assert len(plan.of(Evict)) == victims


@pytest.mark.parametrize(("allocated", "victims"), [(3, 1), (4, 0)])
def test_a_queue_reclaims_up_to_its_fair_share(allocated: int, victims: int) -> None:
    """By weight each of three queues gets four of twelve. With four of them a queue has its share, although another has more."""
    text = f"""
        node  n1 cpu=12
        queue root
        queue a parent=root
        queue b parent=root
        queue c parent=root
        job a min=0 queue=a: {allocated} x cpu=1 on=n1, 1 x cpu=1
        job b min=0 queue=b: 1 x cpu=1 on=n1
        job c min=0 queue=c: {11 - allocated} x cpu=1 on=n1
    """
    assert len(decide(text, hdrf("allocate, reclaim")).of(Evict)) == victims


def test_queries_do_not_change_the_tree() -> None:
    scene = Scene(snapshot(FULL + "job s queue=sci: 5 x cpu=1"), {"drf": {}})
    plugin = HierarchicalDrf(NoArguments(), scene.session.cluster, True)
    queues = [scene.session.cluster.queue(row) for row in range(len(scene.snapshot.queues))]
    before = [plugin.queue(queue) for queue in queues]
    ShareRules(plugin, scene.session.cluster).allows(
        scene.task("s-0"), [scene.task("d-0"), scene.task("d-1")], Purpose.RECLAIM
    )
    assert [plugin.queue(queue) for queue in queues] == before


@pytest.mark.parametrize(("cpus", "admitted"), [(4, True), (5, False)])
def test_a_job_within_the_fair_share_is_admitted_to_a_full_cluster(cpus: int, admitted: bool) -> None:
    text = FULL + f"job s min=1 queue=sci phase=Pending minres.cpu={cpus}:"
    plan = decide(text, hdrf("enqueue, allocate, reclaim", more=("overcommit",)))
    phases = {effect.pod_group: effect.phase for effect in plan.of(SetPodGroup)}
    assert (phases.get("default/s") == "Inqueue") is admitted


def test_results_do_not_depend_on_the_order_of_arrival() -> None:
    objects = world(DEPARTMENTS)
    plans = []
    for order in (objects, objects[::-1]):
        state = State()
        for obj in order:
            state.upsert(obj)
        plans.append(str(schedule(state.snapshot(NOW, "test"), hdrf())))
    assert plans[0] == plans[1]


@pytest.mark.parametrize("seeds", nightly.seeds(20, 60, 20, 40))
@pytest.mark.parametrize("name", ["valid_plans", "order_independence", "stability"])
def test_scheduling_properties_hold_with_hierarchical_drf(name: str, seeds: range) -> None:
    """Random worlds and configurations with hierarchical drf; without proportion, which conflicts with it."""
    for seed in seeds:
        item = case(Random(seed))
        document = json.loads(item.document)
        for tier in document["tiers"]:
            tier["plugins"] = [entry for entry in tier["plugins"] if entry["name"] not in {"proportion", "drf"}]
        document["tiers"][0]["plugins"].append({"name": "drf", "enableHierarchy": True})
        result = PROPERTIES[name](Case(item.world, json.dumps(document)), Random(seed))
        assert result == [], f"seed {seed}"
