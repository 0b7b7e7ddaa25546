"""Tests that running gangs come first: their lost members get nodes before other jobs start."""

from datetime import timedelta
from random import Random

import pytest
from msgspec.structs import replace

from tests.scheduler.properties import running_gangs_first
from tests.scheduler.random_cases import case
from volcanopy.api import core
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Nominate, Plan, SetPodGroup
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import NOW, world

STOCK = """
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: gang, enablePreemptable: false}}, {{name: conformance}}]
- plugins: [{{name: overcommit}}, {{name: drf, enablePreemptable: false}}, {{name: predicates}}, {{name: {share}}},
            {{name: nodeorder}}, {{name: binpack}}, {{name: reservation}}]
"""
NODES = "node n1 cpu=2\nnode n2 cpu=2\nnode n3 cpu=2\nnode n4 cpu=2\n"
ACTIONS = "enqueue, allocate, backfill"
BROKEN = "job big min=3: 2 x cpu=2 on=n1,n2, 1 x cpu=2\n"
"""A gang that needs one more node."""


def stock(share: str = "proportion", actions: str = "enqueue, allocate, backfill") -> SchedulerConfig:
    return parse(STOCK.format(actions=actions, share=share), builtin())


def binds(plan: Plan) -> list[str]:
    return sorted(f"{effect.pod.removeprefix('default/')} {effect.node}" for effect in plan.of(Bind))


def checked(text: str, configuration: SchedulerConfig | None = None) -> Plan:
    """Return the plan for a world, which violates no invariant."""
    rules = configuration or stock()
    cluster = Simulation(world(text), rules)
    snapshot, plan = cluster.snapshot(), cluster.cycle()
    assert violations(snapshot, plan, enforced_invariants(rules)) == []
    return plan


@pytest.mark.parametrize("share", ["proportion", "capacity"])
@pytest.mark.parametrize(
    "rival",
    [
        "job rival: 1 x cpu=2",
        "class high value=9\njob rival priority=high: 1 x cpu=2",
        "queue q weight=9\njob rival queue=q: 1 x cpu=2",
        "queue q deserved.cpu=8\njob rival queue=q: 1 x cpu=2",
        "queue q priority=9\njob rival queue=q: 1 x cpu=2",
        "job rival min=1: 1 x cpu=2 on=n4, 1 x cpu=2",
    ],
    ids=["same queue", "higher priority", "heavier queue", "queue below its share", "queue of priority", "surplus pod"],
)
def test_the_lost_member_gets_the_node_before(rival: str, share: str) -> None:
    older = NODES.replace("node n4 cpu=2\n", "" if "on=n4" not in rival else "node n4 cpu=2\n") + rival + "\n" + BROKEN
    assert binds(checked(older, stock(share))) == ["big-2 n3"]


def test_a_fifo_queue_does_not_make_it_wait_behind_its_head() -> None:
    text = f"{NODES}queue q fifo\njob head queue=q: 1 x cpu=9\n{BROKEN.replace('big', 'big queue=q')}"
    assert "big-2 n3" in binds(checked(text))


def test_resources_reserved_for_a_job_that_has_waited_are_no_obstacle() -> None:
    text = f"{NODES}job wide: 3 x cpu=2\n{BROKEN}job late: 1 x cpu=2"
    assert binds(checked(text)) == ["big-2 n3"]


def test_it_may_exceed_the_fair_share_of_its_queue_but_not_its_capability() -> None:
    text = "queue q weight=1 {}\nqueue r weight=99\njob rival queue=r: 2 x cpu=2\n" + BROKEN.replace(
        "big", "big queue=q"
    )
    nodes = NODES.replace("node n4 cpu=2\n", "")
    assert binds(checked(nodes + text.format(""))) == ["big-2 n3"]
    assert not any(bind.startswith("big") for bind in binds(checked(nodes + text.format("capability.cpu=4"))))


def test_a_limit_of_its_user_holds() -> None:
    text = f"{NODES}queue q limit.user.ana.cpu=4\n" + BROKEN.replace("big", "big queue=q user=ana")
    assert binds(checked(text)) == []


def test_a_held_queue_places_nothing() -> None:
    assert binds(checked(f"{NODES}queue q stop=Hold\n{BROKEN.replace('big', 'big queue=q')}")) == []


def test_it_needs_no_admission() -> None:
    text = f"{NODES}{BROKEN.replace('min=3', 'min=3 phase=Pending minres.cpu=600')}job rival: 2 x cpu=2"
    assert "big-2 n3" in binds(checked(text))


def test_members_of_roles_come_first() -> None:
    text = (
        "node n1 cpu=4\nnode n2 cpu=2\njob rival: 1 x cpu=2\n"
        "job a min=2: 1 x cpu=2 role=ps min=1, 1 x cpu=2 on=n1 role=worker min=1, 2 x cpu=2 role=worker"
    )
    assert binds(checked(text)) in (["a-ps-0 n1", "rival-0 n2"], ["a-ps-0 n2", "rival-0 n1"])


def test_a_member_without_requests_gets_the_last_place_of_a_node() -> None:
    text = "node n1 cpu=2 pods=2\njob rival: 1 x cpu=1\njob a min=2: 1 x cpu=1 on=n1, 1 x"
    assert binds(checked(text)) == ["a-1 n1"]


def test_surplus_members_do_not_come_first() -> None:
    text = f"{NODES}job rival: 2 x cpu=2\njob a min=2: 2 x cpu=2 on=n1,n2, 2 x cpu=2"
    assert binds(checked(text)) == ["rival-0 n3", "rival-1 n4"]


def test_resources_freed_for_another_job_go_to_that_job() -> None:
    text = f"{NODES}job other: 1 x cpu=2 on=n4\njob owner: 1 x cpu=2 nominated=n3\n{BROKEN}"
    assert binds(checked(text)) == ["owner-0 n3"]


def test_nodes_that_return_one_by_one_are_reserved_while_others_wait() -> None:
    """Each small job would fit on the first node that returns; the gang needs both."""
    text = NODES.replace("n3 cpu=2", "n3 cpu=2 unschedulable").replace("n4 cpu=2", "n4 cpu=2 unschedulable")
    cluster = Simulation(world(f"{text}job small: 1 x cpu=2\njob big min=4: 2 x cpu=2 on=n1,n2, 2 x cpu=2"), stock())
    for name, expected in (("n3", []), ("n4", ["big-2 n3", "big-3 n4"])):
        node = cluster.cluster.objects["Node", name]
        cluster.cluster.put(replace(node, spec=replace(node.spec, unschedulable=False)))
        plan = cluster.cycle()
        assert binds(plan) == expected
        assert not plan.of(Nominate)


def test_a_gang_that_can_be_whole_now_precedes_one_that_cannot() -> None:
    text = "node n1 cpu=5\njob wide min=3: 1 x cpu=1 on=n1, 2 x cpu=2\njob narrow min=2: 1 x cpu=1 on=n1, 1 x cpu=2"
    assert binds(checked(text)) == ["narrow-1 n1"]


def test_a_gang_that_can_never_be_whole_again_leaves_the_rest_to_others_and_says_so() -> None:
    plan = checked("node n1 cpu=4\njob big min=4: 2 x cpu=1 on=n1, 2 x cpu=2\njob small: 1 x cpu=2")
    assert binds(plan) == ["small-0 n1"]
    message = next(effect.message for effect in plan.of(Explain) if effect.job == "default/big")
    assert message.endswith("the running gang can never be whole again: no node can take 2 required pods beside it")


def test_a_gang_with_reserved_resources_is_stale_in_the_end() -> None:
    """Two of its members could start, but the third cannot while another job runs."""
    actions = "enqueue, allocate, backfill, stalegangeviction"
    since = NOW - timedelta(minutes=10)
    condition = core.Condition(type="Unschedulable", status="True", last_transition_time=since)
    objects = [
        replace(item, status=replace(item.status, conditions=(condition,))) if isinstance(item, core.PodGroup) else item
        for item in world(
            "node n1 cpu=4\nnode n2 cpu=2\njob big min=3: 1 x cpu=2 on=n1, 2 x cpu=2\njob other min=1: 1 x cpu=2 on=n2"
        )
    ]
    plan = Simulation(objects, stock(actions=actions)).cycle()
    assert [effect.pod for effect in plan.of(Evict)] == ["default/big-0"]


@pytest.mark.parametrize("pods", ["2 x cpu=2", "1 x cpu=4"], ids=["higher minimum", "larger pod"])
@pytest.mark.parametrize(("had", "expected"), [(2, "rival-0"), (6, "big-1")], ids=["never had it", "had it"])
def test_a_gang_that_never_had_so_much_does_not_come_first(pods: str, had: int, expected: str) -> None:
    """Any user may raise the minimum of a running job, and replace the pods of a PodGroup by larger ones."""
    text = f"""
    node n1 cpu=2
    node n2 cpu=4
    queue q weight=9
    job big min={1 + int(pods[0])} phase=Running: 1 x cpu=2 on=n1, {pods}
    job rival queue=q: 1 x cpu=4
    """
    ready = {"cpu": str(had), "pods": "9"}
    objects = [
        replace(item, status=replace(item.status, ready_resources=ready)) if isinstance(item, core.PodGroup) else item
        for item in world(text)
    ]
    cluster = Simulation(objects, stock())
    snapshot, plan = cluster.snapshot(), cluster.cycle()
    assert violations(snapshot, plan, enforced_invariants(stock())) == []
    assert expected in "".join(binds(plan))


def test_the_status_of_a_gang_records_what_it_had_when_it_was_whole() -> None:
    cluster = Simulation(world("node n1 cpu=4\njob big min=2: 2 x cpu=1 on=n1,n1\njob wide min=2: 2 x cpu=3"), stock())
    written = {effect.pod_group: effect.ready_resources for effect in cluster.cycle().of(SetPodGroup)}
    assert written == {"default/big": {"cpu": "2", "pods": "2"}, "default/wide": None}


def test_of_two_jobs_that_could_preempt_the_same_pods_the_running_gang_does() -> None:
    text = """
    class high value=9
    node n1 cpu=2
    node n2 cpu=2
    job low min=1: 1 x cpu=2 on=n1
    job new priority=high: 1 x cpu=2
    job big priority=high min=2: 1 x cpu=2 on=n2, 1 x cpu=2
    """
    plan = checked(text, stock(actions="enqueue, allocate, preempt"))
    assert [effect.preemptor for effect in plan.of(Evict)] == ["default/big"]


CLOSED = """
node n1 cpu=4
queue q closed
job {} queue=q {}: {}
job new queue=q phase=Pending minres.cpu=1: 1 x cpu=1
"""


@pytest.mark.parametrize("actions", ["enqueue, allocate, backfill", "allocate"])
@pytest.mark.parametrize("share", ["proportion", "capacity"])
@pytest.mark.parametrize(
    ("status", "pods", "expected"),
    [
        ("min=2 phase=Running", "1 x cpu=1 on=n1, 1 x cpu=1", ["a-1 n1"]),
        ("min=1 phase=Running", "1 x cpu=1 on=n1, 1 x cpu=1", ["a-1 n1"]),
        ("min=1 phase=Running", "1 x cpu=1", ["a-0 n1"]),
        ("min=2 phase=Inqueue", "2 x cpu=1", ["a-0 n1", "a-1 n1"]),
        ("min=1 phase=Pending", "1 x cpu=1", []),
    ],
    ids=["gang", "surplus", "single pod", "admitted before", "not admitted"],
)
def test_a_closed_queue_places_pods_of_admitted_jobs_only(
    status: str, pods: str, expected: list[str], share: str, actions: str
) -> None:
    plan = checked(CLOSED.format("a", status, pods), stock(share, actions))
    assert binds(plan) == expected
    messages = [effect.message for effect in plan.of(Explain) if effect.job == "default/new"]
    assert messages == ['queue "q" is closed']


def test_a_job_of_a_closed_queue_stays_admitted_while_no_node_has_room() -> None:
    text = CLOSED.format("a", "min=1 phase=Running", "1 x cpu=1").replace("n1 cpu=4", "n1 cpu=4 unschedulable")
    phases = {effect.pod_group: effect.phase for effect in checked(text).of(SetPodGroup)}
    assert phases["default/a"] == "Inqueue"


def phase(cluster: Simulation, key: str) -> str:
    group = cluster.cluster.group(key)
    assert group is not None
    return group.status.phase


def finished(text: str, *pods: str) -> Simulation:
    """A world in which some pods have succeeded."""
    objects = [
        replace(item, spec=replace(item.spec, node_name="n1"), status=replace(item.status, phase="Succeeded"))
        if isinstance(item, core.Pod) and item.metadata.name in pods
        else item
        for item in world(text)
    ]
    return Simulation(objects, stock())


SERIAL = """
queue q maxrunning=1
node n1 cpu=2
pod filler cpu=2 node=n1
job serial queue=q min=1 phase=Running: 3 x cpu=2
job other queue=q phase=Pending minres.cpu=1: 1 x cpu=1 selector.x=none
"""


def test_a_job_whose_other_pods_wait_is_not_complete_and_counts_as_running() -> None:
    cluster = finished(SERIAL, "serial-0", "serial-1")
    effects = {effect.pod_group: effect for effect in cluster.cycle().of(SetPodGroup)}
    assert effects["default/serial"].phase == "Inqueue"
    condition = effects["default/serial"].condition
    assert condition is not None
    assert condition.type == "Unschedulable"
    assert condition.message
    assert effects["default/other"].phase == "Pending"
    cluster.cluster.remove("Pod", "default/filler")
    assert binds(cluster.cycle()) == ["serial-2 n1"]
    assert phase(cluster, "default/serial") == "Inqueue"
    cluster.cycle()
    assert phase(cluster, "default/serial") == "Running"


def test_a_job_is_complete_when_no_pod_waits_and_stays_so_without_its_pods() -> None:
    cluster = finished("node n1 cpu=2\njob a min=1 phase=Running: 1 x cpu=2", "a-0")
    cluster.cycle()
    assert phase(cluster, "default/a") == "Completed"
    cluster.cluster.remove("Pod", "default/a-0")
    cluster.cycle()
    assert phase(cluster, "default/a") == "Completed"


def test_the_waiting_rest_of_a_job_preempts_as_a_new_start_does() -> None:
    text = """
    class high value=9
    node n1 cpu=2
    job low min=1: 1 x cpu=2 on=n1
    job serial priority=high min=1 phase=Running: 2 x cpu=2
    """
    cluster = finished(text, "serial-0")
    cluster.config = stock(actions="enqueue, allocate, preempt")
    assert [effect.pod for effect in cluster.cycle().of(Evict)] == ["default/low-0"]


def test_the_message_of_an_incomplete_stateful_set_names_the_order_of_its_pods() -> None:
    objects = world("node n1 cpu=4\njob a min=3: 1 x cpu=1")
    owner = core.OwnerReference(api_version="apps/v1", kind="StatefulSet", name="db", uid="u", controller=True)
    objects = [
        replace(item, metadata=replace(item.metadata, owner_references=(owner,)))
        if isinstance(item, core.PodGroup)
        else item
        for item in objects
    ]
    (explain,) = Simulation(objects, stock()).cycle().of(Explain)
    assert explain.message == (
        '1/3 required pods created: StatefulSet "db" creates a pod when the one before is ready '
        "unless podManagementPolicy is Parallel"
    )
    assert explain.unblocked_by == 'podManagementPolicy Parallel of StatefulSet "db"'


@pytest.mark.parametrize("seed", [944, 1317, 1692, 1713, *range(40)])
def test_in_random_worlds_new_starts_use_nothing_that_a_running_gang_could_use(seed: int) -> None:
    """In the first of these worlds they do if the gang does not come first."""
    assert running_gangs_first(case(Random(seed)), Random(seed)) == []


@pytest.mark.parametrize("place", ["parent=root", ""], ids=["a parent", "beside the root"])
@pytest.mark.parametrize("lost", ["min=2: 1 x cpu=2 on=n1, 1 x cpu=2", "min=1: 1 x cpu=2 on=n1, 1 x cpu=2"])
def test_a_running_job_of_a_queue_that_accepts_no_jobs_any_more_gets_its_lost_pods(place: str, lost: str) -> None:
    text = f"{NODES}queue root\nqueue q {place}\nqueue child parent=q\njob big queue=q {lost}\njob new queue=q: 1 x cpu=2\n"
    rules = parse(STOCK.format(actions=ACTIONS, share="capacity, enableHierarchy: true"), builtin())
    plan = checked(text, rules)
    assert [effect.pod for effect in plan.of(Bind)] == ["default/big-1"]
    assert [explain.job for explain in plan.of(Explain)] == ["default/new"]
