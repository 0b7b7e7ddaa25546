"""Messages about limits: how much of a gang they cover, and what guarantees of other queues leave."""

import re
from random import Random

import pytest

from tests import nightly
from tests.scheduler.random_cases import evicting_config
from tests.whatif.worlds import random_world
from volcanopy.api.quantity import amount
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.model.plan import Explain
from volcanopy.scheduler.policy.config import parse
from volcanopy.whatif.load import load
from volcanopy_testing import eviction_worlds
from volcanopy_testing.notation import NOW, decide, snapshot

PROPORTION = "priority, gang | predicates, proportion"
CAPACITY = "priority, gang | predicates, capacity"


def message(world: str, plugins: str = PROPORTION) -> str:
    """The explanation of job a."""
    (explain,) = [effect for effect in decide(world, plugins).of(Explain) if effect.job == "default/a"]
    return str(explain.message)


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        (
            "node n1 cpu=24\nqueue r weight=2\nqueue q\njob b queue=r: 16 x cpu=1 on=n1\njob a queue=q: 4 x cpu=3",
            'fair share of queue "q" covers 2 of 4 pods: cpu requested 12, allocated 0, fair share 8',
        ),
        (
            "node n1 cpu=8\nqueue q capability.cpu=5\njob b queue=q: 1 x cpu=1 on=n1\njob a queue=q: 3 x cpu=2",
            'capability of queue "q" covers 2 of 3 pods: cpu requested 6, allocated 1, capability 5',
        ),
        (
            "node n1 cpu=8\njob a: 4 x cpu=3",
            "capacity of the cluster covers 2 of 4 pods: cpu requested 12, allocated 0, capacity 8",
        ),
        (
            "node n1 cpu=8\njob a: 1 x gpu=1",
            "the cluster has no nvidia.com/gpu: requested 1, capacity 0",
        ),
        (
            "node n1 cpu=8\nqueue q limit.user.ana.cpu=4\njob a queue=q user=ana: 2 x cpu=1 role=x, 2 x cpu=2 role=y",
            'resource limit of user "ana" in queue "q" covers 3 of 4 pods: cpu requested 6, allocated 0, limit 4',
        ),
        # a pod alone is no gang
        (
            "node n1 cpu=8\nqueue q capability.cpu=4\njob b queue=q: 3 x cpu=1 on=n1\njob a queue=q: 1 x cpu=2",
            'queue "q" capability exceeded: cpu requested 2, allocated 3, capability 4',
        ),
    ],
)
def test_a_limit_covers_a_part_of_a_gang(world: str, expected: str) -> None:
    assert message(world) == expected


@pytest.mark.parametrize("plugins", [PROPORTION, CAPACITY])
@pytest.mark.parametrize(
    ("world", "expected"),
    [
        (
            "node n1 cpu=24\nqueue g guarantee.cpu=6\njob b: 22 x cpu=1 on=n1\njob a: 1 x cpu=1",
            'free resources are guaranteed to other queues: cpu requested 1, allocated 22, free 2, guaranteed to queue "g" 6',
        ),
        # what the queue uses of its guarantee is not free anyway
        (
            "node n1 cpu=8\nqueue g guarantee.cpu=4\njob b: 4 x cpu=1 on=n1\njob c queue=g: 1 x cpu=1 on=n1\njob a: 1 x cpu=1",
            'free resources are guaranteed to other queues: cpu requested 1, allocated 4, free 3, guaranteed to queue "g" 3',
        ),
        (
            "node n1 cpu=8\nqueue g guarantee.cpu=3\nqueue h guarantee.cpu=4\njob a: 2 x cpu=1",
            "guarantees of other queues leave resources for 1 of 2 pods: cpu requested 2, allocated 0, free 8, "
            'guaranteed to queue "g" 3, queue "h" 4',
        ),
        # the own capability is the limit, whatever is guaranteed to others
        (
            "node n1 cpu=8\nqueue g guarantee.cpu=3\nqueue q capability.cpu=2\njob a queue=q: 1 x cpu=3",
            'queue "q" capability exceeded: cpu requested 3, allocated 0, capability 2',
        ),
    ],
)
def test_what_is_guaranteed_to_other_queues_is_named(world: str, expected: str, plugins: str) -> None:
    assert message(world, plugins) == expected


@pytest.mark.parametrize(("child", "own"), [(1, 1), (2, 0), (0, 2)])
def test_what_child_queues_have_counts_for_a_parent_with_jobs_of_its_own(child: int, own: int) -> None:
    world = f"""
        node n1 cpu=10
        queue g guarantee.cpu=4
        queue other
        queue dept
        queue lab parent=dept
        job o queue=other: 4 x cpu=1 on=n1
        job l queue=lab: {child} x cpu=1 on=n1
        job d queue=dept: {own} x cpu=1 on=n1
        job a queue=dept: 1 x cpu=1
    """
    text = (
        'free resources are guaranteed to other queues: cpu requested 1, allocated 2, free 4, guaranteed to queue "g" 4'
    )
    assert message(world, PROPORTION) == text


@pytest.mark.parametrize("plugins", [PROPORTION, CAPACITY])
@pytest.mark.parametrize(
    ("world", "expected", "unblocked_by"),
    [
        (
            "node n1 cpu=8\njob a: 1 x cpu=1 gpu=1",
            "the cluster has no nvidia.com/gpu: requested 1, capacity 0",
            "1 nvidia.com/gpu more in the cluster, or a smaller request",
        ),
        (
            "job a: 1 x cpu=1",
            "the cluster has no cpu: requested 1, capacity 0",
            "1 cpu more in the cluster, or a smaller request",
        ),
        # the queue as a whole is at its fair share: nothing
        (
            "queue q fifo\njob a queue=q: 2 x cpu=1 pvc=data\njob c queue=q: 4 x cpu=8",
            "the cluster has no cpu: requested 1, capacity 0",
            "1 cpu more in the cluster, or a smaller request",
        ),
        (
            "node n1 cpu=8\njob b: 2 x cpu=1 on=n1\njob a: 1 x cpu=20",
            "request exceeds the capacity of the cluster: cpu requested 20, capacity 8",
            "12 cpu more in the cluster, or a smaller request",
        ),
        # the required pods of the job run, one more waits
        (
            "node n1 cpu=16\njob a min=4: 4 x cpu=4 on=n1, 1 x cpu=4",
            "too little is free in the cluster: cpu requested 4, allocated 16, capacity 16",
            "release of 4 cpu by pods, or 4 cpu more in the cluster",
        ),
        # what other queues have allocated counts as well
        (
            "node n1 cpu=16\nqueue q\nqueue r\njob b queue=r: 2 x cpu=4 on=n1\njob c queue=q: 2 x cpu=3 on=n1\n"
            "job a queue=q: 1 x cpu=12",
            "too little is free in the cluster: cpu requested 12, allocated 14, capacity 16",
            "release of 10 cpu by pods, or 10 cpu more in the cluster",
        ),
        # a job is admitted by what its own queue has allocated and reserved
        (
            "node n1 cpu=16\nqueue q\nqueue r\njob b queue=r: 2 x cpu=1 on=n1\njob c queue=q: 2 x cpu=3 on=n1\n"
            "job d queue=q minres.cpu=8: 1 x cpu=8\njob a queue=q phase=Pending minres.cpu=12",
            'queue "q" has too little left of the cluster: cpu requested 12, allocated 6, reserved 2, capacity 16',
            'release of 4 cpu in queue "q", or 4 cpu more in the cluster',
        ),
        (
            "node n1 cpu=8\njob a phase=Pending minres.cpu=20",
            "request exceeds the capacity of the cluster: cpu requested 20, capacity 8",
            "12 cpu more in the cluster, or a smaller request",
        ),
    ],
)
def test_what_the_cluster_lacks_is_not_a_limit_of_a_queue(
    world: str, expected: str, unblocked_by: str, plugins: str
) -> None:
    (explain,) = [effect for effect in decide(world, plugins).of(Explain) if effect.job == "default/a"]
    assert (explain.message, explain.unblocked_by) == (expected, unblocked_by)


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        ("node n1 cpu=8\njob a phase=Pending minres.nvidia.com/gpu=1", "the cluster has no nvidia.com/gpu"),
        (
            "node n1 cpu=8\njob a phase=Pending minres.cpu=20",
            "overcommit limit of the cluster exceeded: cpu requested 20",
        ),
    ],
)
def test_no_release_is_proposed_for_more_than_the_overcommit_limit(world: str, expected: str) -> None:
    (explain,) = decide(world, "priority, gang | overcommit, predicates").of(Explain)
    assert explain.message.startswith(expected)
    assert "release" not in explain.unblocked_by


@pytest.mark.parametrize("seeds", nightly.seeds(100, 400, 100, 300))
def test_a_message_about_the_cluster_counts_all_queues(seeds: range) -> None:
    """Released is at most what is allocated."""
    messages = 0
    for seed in seeds:
        manifests, document = random_world(Random(seed))
        snapshot = load(manifests).cluster.snapshot(NOW, "test")
        for effect in schedule(snapshot, parse(document, builtin())).of(Explain):
            if effect.message.startswith(("the cluster has no", "request exceeds the capacity of the cluster")):
                messages += 1
                assert "release" not in effect.unblocked_by, f"seed {seed}: {effect}"
            elif effect.message.startswith("too little is free in the cluster"):
                messages += 1
                (released,) = re.findall(r"^release of (\w+) cpu", effect.unblocked_by)
                assert amount("cpu", released) <= amount("cpu", effect.amounts["allocated"]["cpu"]), (
                    f"seed {seed}: {effect}"
                )
    assert messages > len(seeds) / 20


@pytest.mark.parametrize("seeds", nightly.seeds(50, 200, 50, 150))
def test_no_message_has_a_negative_amount(seeds: range) -> None:
    explained = 0
    for seed in seeds:
        manifests, document = random_world(Random(seed))
        snapshot = load(manifests).cluster.snapshot(NOW, "test")
        for effect in schedule(snapshot, parse(document, builtin())).of(Explain):
            explained += 1
            amounts = [str(units) for given in effect.amounts.values() for units in given.values()]
            assert not re.search(r" -\d", effect.message), f"seed {seed}: {effect.message}"
            assert not [units for units in amounts if units.startswith("-")], f"seed {seed}: {effect.amounts}"
    assert explained > len(seeds) / 2


@pytest.mark.parametrize("seeds", nightly.seeds(20, 600, 20, 290))
def test_no_message_names_a_capability_of_queues_that_have_none(seeds: range) -> None:
    """In these worlds queues have shares and guarantees only."""
    for seed in seeds:
        dice = Random(seed)
        text = eviction_worlds.world(dice)
        messages = [explain.message for explain in schedule(snapshot(text), evicting_config(dice)).of(Explain)]
        assert not [message for message in messages if "capability" in message], f"world {seed}\n{text}"
