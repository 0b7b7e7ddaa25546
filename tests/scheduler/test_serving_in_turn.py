"""A queue's jobs go one after the other as far as each gets what it asks for, or, in a queue of kind fifo, no further."""

import pytest

from volcanopy.api import core
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind, Explain, Plan, SetPodGroup
from volcanopy.testing.notation import config, snapshot


def served(text: str, strategy: str, plugins: str = "gang, predicates") -> Plan:
    queue = core.Queue(metadata=core.Meta(name="q"), spec=core.QueueSpec(dequeue_strategy=strategy))
    return schedule(snapshot(text, [queue]), config(plugins))


@pytest.mark.parametrize(("strategy", "bound"), [("traverse", ["default/b-0"]), ("fifo", [])])
def test_a_small_job_overtakes_a_large_one_that_does_not_fit_unless_the_queue_serves_in_turn(
    strategy: str, bound: list[str]
) -> None:
    plan = served("node n1 cpu=4\njob a queue=q: 5 x cpu=1\njob b queue=q: 1 x cpu=1", strategy)
    assert [effect.pod for effect in plan.of(Bind)] == bound


def test_who_waits_for_its_turn_is_told_who_comes_first() -> None:
    plan = served("node n1 cpu=4\njob a queue=q: 5 x cpu=1\njob b queue=q: 1 x cpu=1", "fifo")
    said = {effect.job: str(effect.message) for effect in plan.of(Explain)}
    assert said["default/b"] == 'queue "q" is FIFO: blocked by head job "a"'


@pytest.mark.parametrize(("strategy", "admitted"), [("traverse", {"default/b"}), ("fifo", set())])
def test_a_job_that_may_not_be_admitted_holds_up_those_behind_it_where_the_queue_serves_in_turn(
    strategy: str, admitted: set[str]
) -> None:
    text = "node n1 cpu=4\njob a queue=q phase=Pending minres.cpu=9:\njob b queue=q phase=Pending minres.cpu=1:"
    plan = served(text, strategy, "overcommit")
    assert {effect.pod_group for effect in plan.of(SetPodGroup) if effect.phase == "Inqueue"} == admitted


def test_a_job_that_runs_and_only_could_grow_holds_nobody_up() -> None:
    text = "node n1 cpu=4\njob a min=1 queue=q: 1 x cpu=1 on=n1, 1 x cpu=9\njob b queue=q: 1 x cpu=1"
    assert [effect.pod for effect in served(text, "fifo").of(Bind)] == ["default/b-0"]


def test_other_queues_are_not_held_up() -> None:
    text = "node n1 cpu=4\njob a queue=q: 5 x cpu=1\njob b: 1 x cpu=1"
    assert [effect.pod for effect in served(text, "fifo").of(Bind)] == ["default/b-0"]
