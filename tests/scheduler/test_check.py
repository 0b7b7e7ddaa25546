"""The oracle sees what no plan may do."""

import pytest

from volcanopy.scheduler.check import violations
from volcanopy.scheduler.plan import Bind, Effect, Evict, Plan
from volcanopy.testing.notation import snapshot

WORLD = """
    node n1 cpu=2
    node n2 cpu=2
    queue small capability.cpu=1
    job a min=2: 2 x cpu=1
    job b: 1 x cpu=2 on=n2
    job c queue=small: 2 x cpu=1
    job d: 1 x cpu=1 gated
    job k namespace=kube-system: 1 x cpu=1 on=n1
    job p: 1 x cpu=1 on=n1 note.volcanopy.io/preemptable=false
"""


def bind(pod: str, node: str) -> Bind:
    return Bind(f"default/{pod}", node)


@pytest.mark.parametrize(
    ("effects", "sentence"),
    [
        ([bind("a-0", "n1"), bind("a-0", "n1")], "pod default/a-0 is bound 2 times"),
        ([bind("a-0", "n9"), bind("a-1", "n9")], "pod default/a-0 is bound to node n9, which does not exist"),
        ([bind("x-0", "n1")], "pod default/x-0 is bound but does not exist"),
        ([bind("b-0", "n1")], "pod default/b-0 is bound but is not waiting for a node"),
        ([bind("d-0", "n1")], "pod default/d-0 is bound although a scheduling gate holds it back"),
        ([bind("a-0", "n2"), bind("a-1", "n2")], "node n2 is overcommitted: 4 of 2 cpu"),
        ([bind("a-0", "n1")], "gang default/a is split: 1 of the 2 pods that it needs have a node"),
        ([bind("c-0", "n1"), bind("c-1", "n2")], "queue small is over its capability: 2 of 1 cpu"),
        ([Evict("default/a-0", "test")], "pod default/a-0 is evicted but does not run"),
        ([Evict("default/b-0", "x"), Evict("default/b-0", "x")], "pod default/b-0 is evicted 2 times"),
        ([Evict("kube-system/k-0", "test")], "pod kube-system/k-0 is evicted although the cluster needs it"),
        ([Evict("default/p-0", "test")], "pod default/p-0 is evicted although it is not preemptable"),
    ],
)
def test_a_wrong_plan_is_told_what_is_wrong_with_it(effects: list[Effect], sentence: str) -> None:
    assert sentence in violations(snapshot(WORLD), Plan(tuple(effects)))


def test_a_sound_plan_has_no_violations() -> None:
    room = "node n1 cpu=2\njob a min=2: 2 x cpu=1"
    assert violations(snapshot(room), Plan((bind("a-0", "n1"), bind("a-1", "n1")))) == []


def test_gangs_are_only_promised_whole_where_gang_is_configured() -> None:
    assert (
        violations(snapshot("node n1 cpu=2\njob a min=2: 2 x cpu=1"), Plan((bind("a-0", "n1"),)), {"predicates"}) == []
    )
