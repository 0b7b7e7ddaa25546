"""When jobs start, why they never do, and the remedies of each kind."""

from datetime import timedelta

import pytest

from tests.whatif.asking import ask, batch_job, bodies, engine, find, job, loaded, remedies
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.whatif.answer import Limits, answer
from volcanopy.whatif.engine import Budget
from volcanopy.whatif.expected import StartEstimate
from volcanopy.whatif.kinds import KINDS, read
from volcanopy.whatif.starts import Start
from volcanopy_testing.notation import NOW, config

NODES = """
node n1 cpu=4
node n2 cpu=4
"""


def hierarchical() -> SchedulerConfig:
    return parse(
        "actions: enqueue, allocate\n"
        "tiers: [{plugins: [{name: gang}, {name: predicates}, {name: capacity, enableHierarchy: true}]}]",
        builtin(),
    )


def test_a_job_that_fits_starts_now_on_its_nodes() -> None:
    answer = job(NODES + "job a phase=Pending: 2 x cpu=3", "a")
    assert (answer.start, answer.nodes) == (Start.NOW, ("n1", "n2"))


def test_a_new_job_is_admitted_enqueued_and_placed() -> None:
    answer = job(NODES, "train", None, batch_job("train", 2, "3"))
    assert (answer.start, answer.nodes) == (Start.NOW, ("n1", "n2"))


def test_evictions_for_a_job_that_starts_now_are_named() -> None:
    rules = config("priority, gang, predicates", "enqueue, allocate, preempt")
    text = """
    class high value=9
    class low value=1
    node n1 cpu=4
    job old priority=low min=1 phase=Running: 2 x cpu=2 on=n1 priority=1
    job new priority=high: 1 x cpu=2 priority=9
    """
    answer = job(text, "new", rules)
    assert (answer.start, len(answer.evictions)) == (Start.NOW, 1)


@pytest.mark.parametrize(("policy", "start"), [("PreemptLowerPriority", Start.NOW), ("Never", Start.AFTER)])
def test_pods_of_a_new_job_preempt_by_the_policy_of_their_priority_class(policy: str, start: Start) -> None:
    rules = config("priority, gang, predicates", "enqueue, allocate, preempt")
    text = """
    class low value=1
    node n1 cpu=4
    job old priority=low min=1 phase=Running: 2 x cpu=2 on=n1 priority=1
    """
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    new = batch_job("new", 1, "2", priorityClassName="high")
    assert job(text, "new", rules, high | {"preemptionPolicy": policy}, new).start == start


def test_pods_of_a_new_job_in_the_network_of_their_nodes_do_not_share_a_node_and_a_port() -> None:
    ports = [{"containerPort": 2222}]
    container = {"name": "main", "image": "x", "ports": ports, "resources": {"requests": {"cpu": "1"}}}
    pod = {"hostNetwork": True, "containers": [container]}
    answer = job(NODES, "train", None, batch_job("train", 2, pod=pod))
    assert (answer.start, answer.nodes) == (Start.NOW, ("n1", "n2"))


def test_a_job_behind_others_starts_after_they_end() -> None:
    text = (
        NODES
        + """
    job left phase=Running: 1 x cpu=4 on=n1
    job right phase=Running: 1 x cpu=4 on=n2
    job wide: 2 x cpu=3
    """
    )
    answer = job(text, "wide")
    assert (answer.start, answer.gate) == (Start.AFTER, "nodes")
    assert answer.after == ('job "left" (cpu 4)', 'job "right" (cpu 4)')


def test_a_job_that_no_node_can_hold_never_starts() -> None:
    answer = job(NODES + "job big: 1 x cpu=5", "big")
    assert (answer.start, answer.gate) == (Start.NEVER, "nodes")
    assert [remedy.text for remedy in answer.remedies] == [
        '1 more node like "n1" with 5 cpu instead of 4',
        "request at most 4 cpu per pod instead of 5",
    ]


def test_the_remedy_of_a_gang_is_for_the_whole_gang() -> None:
    assert remedies(NODES + "job wide: 5 x cpu=3", "wide")[:2] == [
        '3 more nodes like "n1"',
        "set minAvailable to 2 instead of 5",
    ]


def test_a_budget_that_ends_is_told() -> None:
    answer = find(ask(bodies(NODES + "job wide: 5 x cpu=3"), cycles=1), "wide")
    assert answer is not None
    assert answer.document()["searchEnded"] == "budget ended"


def test_expected_ends_give_the_expected_start() -> None:
    text = "node n1 cpu=4\njob now phase=Running: 1 x cpu=4 on=n1 note.volcanopy.io/max-runtime=2h\njob next: 1 x cpu=4"
    assert job(text, "next").estimate == StartEstimate(NOW + timedelta(hours=2), "walltime")


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        ("node n1 cpu=4\nqueue q stop=Hold\njob a queue=q: 1 x cpu=1", 'resume queue "q"'),
        ("node n1 cpu=4\nqueue q closed\njob a queue=q phase=Pending: 1 x cpu=1", 'open queue "q"'),
        ("node n1 cpu=4\njob a queue=nowhere: 1 x cpu=1", 'create queue "nowhere"'),
        (
            "node n1 cpu=8\nqueue q capability.cpu=2\njob a queue=q phase=Pending minres.cpu=3: 3 x cpu=1",
            'raise the capability of queue "q" by 1 cpu to 3',
        ),
        ("node n1 cpu=4 unschedulable\njob a: 1 x cpu=1", 'uncordon node "n1"'),
        ("node n1 cpu=4 taint=gpu:NoSchedule\njob a: 1 x cpu=1", "tolerate the taint gpu:NoSchedule"),
        ("node n1 cpu=4\njob a: 1 x cpu=1 selector.disk=ssd", "remove the node selector disk=ssd"),
        ("node n1 cpu=4\njob a: 1 x cpu=1 gated", 'remove the scheduling gates of pod "a-0"'),
        ("node n1 cpu=4\njob a min=3: 1 x cpu=1", "set minAvailable to 1 instead of 3"),
        (
            "node n1 cpu=4\nqueue q limit.user.ana.cpu=1\njob a queue=q user=ana: 1 x cpu=2",
            'raise the limit of user "ana" in queue "q" from 1 to 2 cpu',
        ),
        (
            "node n1 cpu=4\nqueue q maxrunning=0\njob a queue=q phase=Pending: 1 x cpu=1",
            'raise maxRunningJobs of queue "q" from 0 to 1',
        ),
        ("node n1 cpu=4\njob a: 1 x cpu=1 pvc=data", 'remove the volume "data"'),
    ],
)
def test_a_remedy_of_each_kind(world: str, expected: str) -> None:
    assert expected in remedies(world, "a")


def test_the_queue_that_binds_is_raised_and_no_other() -> None:
    text = """
    node n1 cpu=16
    queue root
    queue top parent=root capability.cpu=2
    queue leaf parent=top capability.cpu=8
    job a queue=leaf phase=Pending minres.cpu=4: 4 x cpu=1
    """
    assert remedies(text, "a", hierarchical())[0] == 'raise the capability of queue "top" by 2 cpu to 4'


def test_several_changes_are_given_together() -> None:
    text = "node n1 cpu=1\nqueue q stop=Hold\njob a queue=q min=1: 1 x cpu=2"
    answer = job(text, "a")
    assert [remedy.kind for remedy in answer.remedies] == ["several"]
    assert 'resume queue "q"' in answer.remedies[0].parts


def test_refused_pods_are_the_headline() -> None:
    answer = job(NODES, "a", None, batch_job("a", 2, pod={"priorityClassName": "gold"}))
    assert (answer.start, answer.gate) == (Start.NEVER, "gang")
    assert answer.message == 'pods "a-w-0" is forbidden: no PriorityClass with name gold was found'
    assert [remedy.text for remedy in answer.remedies] == ['create PriorityClass "gold"']


def test_pods_above_a_quota_are_the_headline() -> None:
    text = NODES + "quota z hard.pods=1 used.pods=0"
    answer = job(text, "a", None, batch_job("a", 2))
    assert answer.message.startswith('pods "a-w-1" is forbidden: exceeded quota: z, requested: pods=1, used: pods=1')
    assert 'raise pods of ResourceQuota "z" from 1 to 2' in [remedy.text for remedy in answer.remedies]


def test_a_job_above_a_quota_starts_when_the_pods_that_use_it_have_ended() -> None:
    text = (
        NODES
        + "quota z hard.pods=2 used.pods=2\njob old phase=Running: 2 x cpu=1 on=n1 started=60 note.volcanopy.io/max-runtime=1h"
    )
    answer = job(text, "new", None, batch_job("new", 2))
    assert (answer.start, answer.after) == (Start.AFTER, ('job "old" (cpu 2)',))
    assert answer.estimate == StartEstimate(NOW + timedelta(minutes=59), "walltime")
    assert job(text, "large", None, batch_job("large", 3)).start is Start.NEVER


def test_a_raised_quota_keeps_its_other_limits_in_the_remedy() -> None:
    limits = {"pods": "1", "requests.cpu": "8"}
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "z", "namespace": "default"},
        "spec": {"hard": limits},
        "status": {"hard": limits, "used": {"pods": "0", "requests.cpu": "0"}},
    }
    cluster = loaded([*bodies(NODES), batch_job("a", 2)]).cluster
    cluster.put(read(body, KINDS["", "ResourceQuota"]))  # as from a watch, without its manifest
    result = find(answer(engine(cluster), Limits(Budget(200), Budget(5000))), "a")
    assert result is not None
    raised = next(each for each in result.remedies if "ResourceQuota" in each.text)
    (quota,) = raised.document()["apply"]
    assert quota["spec"]["hard"] == quota["status"]["hard"] == {"pods": "2", "requests.cpu": "8"}


def test_a_foreign_scheduler_is_the_headline() -> None:
    answer = job(NODES, "a", None, batch_job("a", schedulerName="other"))
    assert answer.message == 'the pods have schedulerName "other": volcanopy does not schedule them'
    assert [remedy.text for remedy in answer.remedies] == ['set schedulerName to "volcanopy" instead of "other"']


def test_a_job_without_its_queue_is_rejected_by_admission_with_its_name() -> None:
    result = loaded([*bodies(NODES), batch_job("a", queue="nowhere")])
    (problem,) = result.rejected["BatchJob", "default/a"]
    assert 'queue "nowhere"' in problem


def test_a_missing_action_is_a_change_of_the_configuration() -> None:
    answer = job(NODES + "job a phase=Pending: 1 x cpu=1", "a", config("gang, predicates", "allocate, backfill"))
    documents = [remedy.document() for remedy in answer.remedies]
    assert documents == [] or documents[0]["configuration"] == {"actions": "enqueue, allocate, backfill"}
    answer = job(NODES + "job a: 1 x cpu=1", "a", config("gang, predicates", "enqueue"))
    assert answer.remedies[0].document()["configuration"] == {"actions": "enqueue, allocate, backfill"}


def test_the_remedy_is_whole_objects() -> None:
    text = "node n1 cpu=4\nqueue q stop=Hold weight=3\njob a queue=q: 1 x cpu=1"
    document = job(text, "a").remedies[0].document()
    assert document["confirmed"] is True
    (queue,) = document["apply"]
    assert (queue["kind"], queue["metadata"]["name"]) == ("Queue", "q")
    assert (queue["spec"]["stopPolicy"], queue["spec"]["weight"]) == ("None", 3)


def test_jobs_that_end_are_deleted_with_their_pods() -> None:
    text = "node n1 cpu=4\njob old phase=Running: 2 x cpu=2 on=n1\njob new: 1 x cpu=3"
    remedy = next(remedy for remedy in job(text, "new").remedies if remedy.kind == "end")
    assert set(remedy.change.delete) == {"Pod default/old-0", "Pod default/old-1", "PodGroup default/old"}


def test_of_many_jobs_those_end_that_occupy_one_node() -> None:
    nodes = "\n".join(f"node n{number:02} cpu=4" for number in range(20))
    running = "\n".join(f"job r{number:02} phase=Running: 1 x cpu=2 on=n{number % 20:02}" for number in range(40))
    answer = job(f"{nodes}\n{running}\njob big: 1 x cpu=4", "big")
    assert answer.after == ('job "r00" (cpu 2)', 'job "r20" (cpu 2)')


def test_many_deleted_pods_come_back() -> None:
    text = "node n1 cpu=40\njob old phase=Running: 40 x cpu=1 on=n1\njob new: 1 x cpu=30"
    made = engine(loaded(bodies(text)).cluster)
    first, second = (answer(made, Limits(Budget(50), Budget(2000))) for _ in range(2))
    fresh = engine(loaded(bodies(text)).cluster)
    assert first.jobs == second.jobs == answer(fresh, Limits(Budget(50), Budget(2000))).jobs
    assert first.jobs[0].after == ('job "old" (cpu 40)',)


def test_a_question_leaves_the_cluster_as_it_was() -> None:
    text = NODES + "queue q capability.cpu=2\njob left phase=Running: 1 x cpu=4 on=n1\njob a queue=q: 3 x cpu=2"
    made = engine(loaded(bodies(text)).cluster)
    before = dict(made.cluster.objects)
    first, second = (answer(made, Limits(Budget(50), Budget(2000))) for _ in range(2))
    assert made.cluster.objects == before
    assert first.jobs == second.jobs


KATA = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "1"}},
    "scheduling": {"nodeSelector": {"kata": "true"}, "tolerations": [{"key": "t", "operator": "Exists"}]},
}


def test_pods_of_a_new_job_have_the_overhead_and_the_nodes_of_their_runtime_class() -> None:
    text = "node plain cpu=3\nnode n1 cpu=4 label.kata=true taint=t:NoSchedule"
    pair = job(text, "pair", None, KATA, batch_job("pair", 2, pod={"runtimeClassName": "kata"}))
    assert (pair.start, pair.nodes) == (Start.NOW, ("n1",))
    three = job(text, "three", None, KATA, batch_job("three", 3, cpu="2", pod={"runtimeClassName": "kata"}))
    assert three.start is Start.NEVER
    assert '2 more nodes like "n1"' in [remedy.text for remedy in three.remedies]
    wide = job(text, "wide", None, KATA, batch_job("wide", 1, cpu="6", pod={"runtimeClassName": "kata"}))
    assert {remedy.text for remedy in wide.remedies} >= {
        '1 more node like "plain" with 7 cpu instead of 3 and label kata=true',
        "request at most 3 cpu per pod instead of 6",
    }
