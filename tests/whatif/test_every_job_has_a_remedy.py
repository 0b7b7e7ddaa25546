"""Every job that waits has a remedy, or the proof that no change of it, of a queue or of a node lets it start."""

from collections.abc import Iterator
from random import Random

import pytest

from tests import nightly
from tests.whatif.asking import ask, batch_job, bodies, engine, find, job, loaded, remedies
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import SchedulerConfig, default, parse
from volcanopy.whatif.answer import Limits, answer
from volcanopy.whatif.engine import Budget
from volcanopy.whatif.starts import Start
from volcanopy_testing.notation import config

CAPACITY = "priority, gang | predicates, capacity"
PROPORTION = "priority, gang | predicates, proportion"


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        # no node of the cluster is of any use
        ("job a: 2 x cpu=1 memory=1Gi", "2 nodes with 1 cpu and 1Gi memory"),
        ("job a: 1 x cpu=1 selector.disk=ssd", "1 node with 1 cpu and label disk=ssd"),
        ("node n1 cpu=8\njob a: 1 x cpu=20", '1 more node like "n1" with 20 cpu instead of 8'),
        ("node n1 cpu=8\njob a: 3 x cpu=1 gpu=2", '3 more nodes like "n1" with 2 nvidia.com/gpu'),
        ("node n1 cpu=8 memory=4Gi\njob a: 1 x memory=6Gi", '1 more node like "n1" with 6Gi memory instead of 4Gi'),
        # 16 GPUs are free, two on each of eight nodes, and a pod needs four
        (
            "\n".join(f"node n{number} cpu=8 gpu=2" for number in range(8)) + "\njob a: 1 x cpu=1 gpu=4",
            '1 more node like "n0" with 4 nvidia.com/gpu instead of 2',
        ),
        # the tasks of a gang need different nodes, neither of which exists
        (
            "node n1 cpu=8\njob a: 1 x cpu=12 role=driver, 2 x cpu=1 gpu=1 role=worker",
            '2 more nodes like "n1" with 1 nvidia.com/gpu; 1 more node like "n1" with 12 cpu instead of 8',
        ),
        # labels
        ("node n1 cpu=8\nnode n2 cpu=4\njob a: 2 x cpu=1 selector.disk=ssd", 'label node "n1" disk=ssd'),
        (
            "node n1 cpu=2\nnode n2 cpu=2\njob a: 2 x cpu=2 selector.disk=ssd",
            'label node "n1" disk=ssd; label node "n2" disk=ssd',
        ),
        # a zone is given by the provider: only a new node has it
        (
            "node n1 cpu=8 zone=b\njob a: 1 x cpu=1 selector.topology.kubernetes.io/zone=a",
            '1 more node like "n1" with label topology.kubernetes.io/zone=a',
        ),
        # taints
        ("node n1 cpu=8 taint=gpu=yes:NoSchedule\njob a: 1 x cpu=1", "tolerate the taint gpu=yes:NoSchedule"),
        (
            "node n1 cpu=8 taint=node.kubernetes.io/not-ready:NoSchedule\njob a: 1 x cpu=1",
            'recovery of node "n1" from node.kubernetes.io/not-ready',
        ),
        ("node n1 cpu=8 taint=node.kubernetes.io/not-ready:NoSchedule\njob a: 1 x cpu=1", '1 more node like "n1"'),
        # devices of a new node
        (
            "node n1 cpu=8\ndeviceclass gpu driver=gpu.example.com\ndevices n1 count=1 driver=gpu.example.com\n"
            "claim used class=gpu count=1 users=b-0 has=n1/0\nclaim new class=gpu count=1\n"
            "job b phase=Running: 1 x cpu=1 on=n1 claim=used\njob a: 1 x cpu=1 claim=new",
            '1 more node like "n1"',
        ),
        ("node n1 cpu=8\ndeviceclass gpu\nclaim c class=gpu\njob a: 1 x cpu=1 claim=c", "remove the resource claims"),
        # host ports
        (
            "node n1 cpu=8\njob b phase=Running: 1 x cpu=1 on=n1 port=80\njob a: 1 x cpu=1 port=80",
            "remove the host ports",
        ),
        # holds
        ("node n1 cpu=8\nqueue q stop=HoldAndDrain\njob a queue=q: 1 x cpu=1", 'resume queue "q"'),
        ("node n1 cpu=8\nqueue q closed\njob a queue=q phase=Pending: 1 x cpu=1", 'open queue "q"'),
    ],
)
def test_a_remedy_is_found(world: str, expected: str) -> None:
    assert expected in remedies(world, "a")


@pytest.mark.parametrize(
    ("world", "parts"),
    [
        (
            "node n1 cpu=8\nqueue q stop=Hold\njob a queue=q: 1 x cpu=1 gpu=1",
            {'resume queue "q"', '1 more node like "n1" with 1 nvidia.com/gpu'},
        ),
        (
            "node n1 cpu=8 taint=t:NoSchedule\njob a: 1 x cpu=1 gpu=1",
            {"tolerate the taint t:NoSchedule", '1 more node like "n1" with 1 nvidia.com/gpu'},
        ),
        (
            "storageclass local provisioner=disks.example.com\njob a queue=none: 1 x cpu=1 pvc=data",
            {'create queue "none"', 'remove the volume "data"', "1 node with 1 cpu"},
        ),
    ],
)
def test_changes_of_several_kinds_are_found_together(world: str, parts: set[str]) -> None:
    (remedy,) = job(world, "a").remedies
    assert parts == set(remedy.parts)


@pytest.mark.parametrize(
    ("pod", "part"),
    [
        # the child queue, which is tried first, is held
        ("gpu=1", '1 more node like "n1" with 1 nvidia.com/gpu'),
        # the first gate that the job does not pass is another than the queue, which takes no jobs
        ("gated", 'remove the scheduling gates of pod "a-0"'),
    ],
)
def test_a_job_moves_to_a_queue_in_which_the_other_changes_let_it_start(pod: str, part: str) -> None:
    rules = parse(
        "actions: enqueue, allocate\n"
        "tiers: [{plugins: [{name: gang}, {name: predicates}, {name: capacity, enableHierarchy: true}]}]",
        builtin(),
    )
    text = f"""
    node n1 cpu=8
    queue root
    queue p parent=root
    queue c parent=p stop=Hold
    job a queue=p: 1 x cpu=1 {pod}
    """
    (remedy,) = job(text, "a", rules).remedies
    assert set(remedy.parts) == {'submit the job to queue "default"', part}


@pytest.mark.parametrize(
    ("world", "plugin", "expected"),
    [
        (
            "node n1 cpu=8 volcanopy.io/nodegroup-name=g\nqueue q\njob a queue=q: 1 x cpu=1",
            "nodegroup",
            'add node group "g" to the affinity of queue "q"',
        ),
        (
            "node n1 cpu=8\nnode n2 cpu=8\nqueue q\njob a queue=q: 1 x cpu=5",
            "nodegroup",
            'label node "n2" volcanopy.io/nodegroup-name=q; add node group "q" to the affinity of queue "q"',
        ),
        (
            "node n1 cpu=8 unschedulable\nqueue q\njob a queue=q: 1 x cpu=5",
            "nodegroup",
            'uncordon node "n1"; label node "n1" volcanopy.io/nodegroup-name=q;'
            ' add node group "q" to the affinity of queue "q"',
        ),
        # a node without the label that keeps the pods away
        ("node n1 cpu=8 volcanopy.io/revocable-zone=z\njob a: 2 x cpu=1", "tdm", "2 nodes with 1 cpu"),
    ],
)
def test_pods_that_a_policy_keeps_from_all_nodes_have_a_remedy(world: str, plugin: str, expected: str) -> None:
    chosen = config(f"priority, gang | predicates, proportion, {plugin}", "enqueue, allocate")
    assert expected in remedies(world, "a", chosen)


def test_another_scheduler_and_a_large_pod_are_mended_together() -> None:
    (remedy,) = job("node n1 cpu=4", "a", None, batch_job("a", 1, "9", schedulerName="other")).remedies
    assert 'set schedulerName to "volcanopy" instead of "other"' in remedy.parts


def test_the_end_of_a_suspension_is_a_remedy() -> None:
    result = job("node n1 cpu=4", "a", None, batch_job("a", suspend=True))
    assert (result.start, result.message) == (Start.NEVER, "the job is suspended: spec.suspend is true")
    assert [remedy.text for remedy in result.remedies] == ["set spec.suspend of the job to false"]


def test_a_suspended_job_that_is_too_large_needs_more_than_its_resumption() -> None:
    (remedy,) = job("node n1 cpu=4", "a", None, batch_job("a", 1, "9", suspend=True)).remedies
    assert "set spec.suspend of the job to false" in remedy.parts
    assert remedy.kind == "several"


@pytest.mark.parametrize("queue", ["guarantee.cpu=6", "deserved.cpu=6", "guarantee.cpu=6 deserved.cpu=6"])
def test_a_queue_behind_borrowers_has_the_missing_reclaim_as_a_remedy(queue: str) -> None:
    text = f"""
    node n1 cpu=8
    queue b
    queue g {queue}
    job old queue=b phase=Running min=1: 8 x cpu=1 on=n1
    job a queue=g: 4 x cpu=1
    """
    for plugins in (CAPACITY, PROPORTION):
        document = [remedy.document() for remedy in job(text, "a", config(plugins)).remedies]
        reclaim = [entry for entry in document if 'add action "reclaim"' in entry["text"]]
        assert [entry["configuration"]["actions"] for entry in reclaim] == ["enqueue, allocate, reclaim, backfill"]


def test_of_many_nodes_only_those_that_are_needed_get_a_label() -> None:
    nodes = "\n".join(f"node n{number:02} cpu={number % 7 + 1}" for number in range(40))
    assert 'label node "n34" disk=ssd' in remedies(f"{nodes}\njob a: 7 x cpu=1 selector.disk=ssd", "a")


def test_a_job_of_higher_priority_has_the_missing_preempt_as_a_remedy() -> None:
    text = """
    class high value=9
    node n1 cpu=4
    job old phase=Running min=1: 4 x cpu=1 on=n1
    job a priority=high: 2 x cpu=1 priority=9
    """
    assert 'add action "preempt" to the scheduler configuration' in remedies(
        text, "a", config("priority, gang, predicates")
    )


def test_the_proof_is_given_where_nothing_helps() -> None:
    result = find(ask(bodies("node n1 cpu=4\njob a min=3:")), "a")
    assert result is not None
    assert (result.start, result.remedies, result.searched) == (Start.NEVER, (), True)


# In random worlds


@pytest.mark.parametrize("seeds", nightly.seeds(5, 500, 5, 55))
def test_every_job_with_pods_has_a_remedy(seeds: range) -> None:
    """Selectors, resources, taints, holds and limits of random worlds can all be mended, alone or together."""
    waiting = 0
    for seed in seeds:
        rng = Random(seed)
        text = "\n".join(_lines(rng))
        made = engine(loaded(bodies(text)).cluster, _configuration(rng))
        for entry in answer(made, Limits(Budget(100), Budget(5000))).jobs:
            if entry.start is not Start.NOW:
                waiting += 1
                assert entry.remedies, f"seed {seed}, {entry.target.name} [{entry.gate}] {entry.message}\n{text}"
    assert waiting > len(seeds) / 2


def _configuration(rng: Random) -> SchedulerConfig:
    return rng.choice(
        [config(CAPACITY), config(PROPORTION), config("gang, predicates", "allocate"), default(builtin())]
    )


def _lines(rng: Random) -> Iterator[str]:
    nodes = rng.randint(0, 3)
    for number in range(nodes):
        extra = rng.choice(["", "", "unschedulable", "taint=t:NoSchedule", "gpu=1", "disk/type=ssd", "zone=a"])
        yield f"node n{number} cpu={rng.randint(1, 8)} {extra}"
    for name in "qr":
        extra = rng.choice(
            ["", "", "closed", "stop=Hold", "fifo", "capability.cpu=2", "guarantee.cpu=2", "maxrunning=0"]
        )
        yield f"queue {name} {extra}"
    if nodes and rng.randint(0, 1):
        yield "job old queue=r phase=Running: 1 x cpu=1 on=n0"
    for name in "ab":
        pod = rng.choice(["", "gpu=1", "selector.disk/type=ssd", "selector.pool=new", "gated", "port=80", "pvc=data"])
        phase = rng.choice(["", "phase=Pending"])
        yield f"job {name} queue={rng.choice(['q', 'r', 'none'])} {phase}: {rng.randint(1, 4)} x cpu={rng.randint(1, 10)} {pod}"
