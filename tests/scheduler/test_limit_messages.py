"""Messages about limits: how much of a gang they cover, and what guarantees of other queues leave."""

import re
from random import Random

import pytest

from tests.whatif.worlds import random_world
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.framework.config import parse
from volcanopy.scheduler.model.plan import Explain
from volcanopy.testing.notation import NOW, decide
from volcanopy.whatif.load import load

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
            "capacity of the cluster exceeded: nvidia.com/gpu requested 1, allocated 0, capacity 0",
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


def test_no_message_has_a_negative_amount() -> None:
    explained = 0
    for seed in range(200):
        manifests, document = random_world(Random(seed))
        snapshot = load(manifests).cluster.snapshot(NOW, "test")
        for effect in schedule(snapshot, parse(document, builtin())).of(Explain):
            explained += 1
            amounts = [str(amount) for given in effect.amounts.values() for amount in given.values()]
            assert not re.search(r" -\d", effect.message), f"seed {seed}: {effect.message}"
            assert not [amount for amount in amounts if amount.startswith("-")], f"seed {seed}: {effect.amounts}"
    assert explained > 100
