"""The order of jobs in a queue: a job that does not fit is skipped or, in a FIFO queue, blocks those behind it."""

import msgspec
import pytest

from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Nominate, Plan, SetPodGroup
from volcanopy.services.scheduler.state.statuses import group_status
from volcanopy_testing.notation import NOW, config, snapshot, world


def served(text: str, strategy: str, plugins: str = "gang, predicates") -> Plan:
    queue = core.Queue(metadata=core.Meta(name="q"), spec=core.QueueSpec(dequeue_strategy=strategy))
    return schedule(snapshot(text, [queue]), config(plugins))


@pytest.mark.parametrize(("strategy", "bound"), [("traverse", ["default/b-0"]), ("fifo", [])])
def test_a_small_job_overtakes_a_large_one_unless_the_queue_is_fifo(strategy: str, bound: list[str]) -> None:
    plan = served("node n1 cpu=4\njob a queue=q: 5 x cpu=1\njob b queue=q: 1 x cpu=1", strategy)
    assert [effect.pod for effect in plan.of(Bind)] == bound


def test_a_job_behind_the_head_of_a_fifo_queue_names_it() -> None:
    plan = served("node n1 cpu=4\njob a queue=q: 5 x cpu=1\njob b queue=q: 1 x cpu=1", "fifo")
    reasons = {effect.job: str(effect.message) for effect in plan.of(Explain)}
    assert reasons["default/b"] == 'queue "q" is FIFO: blocked by head job "a"'


@pytest.mark.parametrize(("strategy", "admitted"), [("traverse", {"default/b"}), ("fifo", set())])
def test_a_rejected_job_blocks_admission_in_a_fifo_queue(strategy: str, admitted: set[str]) -> None:
    text = "node n1 cpu=4\njob a queue=q phase=Pending minres.cpu=9:\njob b queue=q phase=Pending minres.cpu=1:"
    plan = served(text, strategy, "overcommit")
    assert {effect.pod_group for effect in plan.of(SetPodGroup) if effect.phase == "Inqueue"} == admitted


def test_a_running_elastic_job_does_not_block() -> None:
    text = "node n1 cpu=4\njob a min=1 queue=q: 1 x cpu=1 on=n1, 1 x cpu=9\njob b queue=q: 1 x cpu=1"
    assert [effect.pod for effect in served(text, "fifo").of(Bind)] == ["default/b-0"]


def test_other_queues_are_not_blocked() -> None:
    text = "node n1 cpu=4\njob a queue=q: 5 x cpu=1\njob b: 1 x cpu=1"
    assert [effect.pod for effect in served(text, "fifo").of(Bind)] == ["default/b-0"]


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
def test_no_action_places_a_job_behind_the_head_of_a_fifo_queue(action: str) -> None:
    """Job b fits on the free node without an eviction."""
    text = "class high value=9\nnode n1 cpu=2\njob a queue=q priority=high: 1 x cpu=9\njob b queue=q: 1 x cpu=1"
    queue = core.Queue(metadata=core.Meta(name="q"), spec=core.QueueSpec(dequeue_strategy="fifo"))
    plan = schedule(snapshot(text, [queue]), config("priority, gang, predicates", f"allocate, {action}"))
    assert plan.of(Bind, Evict, Nominate) == []


def test_users_do_not_read_the_names_of_jobs_of_other_namespaces() -> None:
    text = "node n1 cpu=4\njob a queue=q namespace=team: 5 x cpu=1\njob b queue=q: 1 x cpu=1"
    plan = served(text, "fifo")
    [explain] = [effect for effect in plan.of(Explain) if effect.job == "default/b"]
    assert (explain.blocked_by, "team/a" in explain.message) == (("job team/a",), True), "for administrators"
    [group] = [effect for effect in plan.of(SetPodGroup) if effect.pod_group == "default/b"]
    [condition] = group_status(core.PodGroupStatus(), group, "s", NOW).conditions
    shown = explain.in_namespace()
    assert shown.message == condition.message == 'queue "q" is FIFO: blocked by head job of another namespace'
    assert (shown.blocked_by, shown.unblocked_by) == ((), "start of job of another namespace")
    assert "team/a" not in str(msgspec.to_builtins(shown))
    [own] = [effect for effect in plan.of(Explain) if effect.job == "team/a"]
    assert own.in_namespace() == own


def test_a_condition_without_the_names_of_others_is_not_written_again() -> None:
    text = "node n1 cpu=4\nqueue q fifo\njob a queue=q namespace=team: 5 x cpu=1\njob b queue=q: 1 x cpu=1"
    state = State()
    for item in world(text):
        state.upsert(item)
    plan = schedule(state.snapshot(NOW), config("gang, predicates"))
    [effect] = [effect for effect in plan.of(SetPodGroup) if effect.pod_group == "default/b"]
    group = next(item for item in world(text) if isinstance(item, core.PodGroup) and item.metadata.name == "b")
    state.upsert(msgspec.structs.replace(group, status=group_status(group.status, effect, "s", NOW)))
    later = schedule(state.snapshot(NOW), config("gang, predicates"))
    assert "default/b" not in {effect.pod_group for effect in later.of(SetPodGroup)}
