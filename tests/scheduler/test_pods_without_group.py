"""Pods on nodes whose PodGroup does not exist count in full: on their node, and in the queue that they name."""

import pytest
from msgspec.structs import replace

from volcanopy.api import core, names
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, SetQueue
from volcanopy.testing.notation import NOW, config, world

CLUSTER = """
node n1 cpu=8
queue default
queue lab capability.cpu=4
pod held cpu=3 node=n1 scheduler=volcanopy
job new queue=lab min=2: 2 x cpu=1
"""
DEFAULT = config("gang, predicates, proportion, nodeorder", "enqueue, allocate, backfill")


def cluster(**notes: str) -> State:
    """A queue of 4 cpu, and a pod of 3 that runs with these annotations; a gang of 2 waits."""
    state = State()
    for item in world(CLUSTER):
        state.upsert(_noted(item, notes) if isinstance(item, core.Pod) and item.metadata.name == "held" else item)
    return state


def _noted(pod: core.Pod, notes: dict[str, str]) -> core.Pod:
    return replace(pod, metadata=replace(pod.metadata, annotations={**pod.metadata.annotations, **notes}))


def allocated_and_bound(state: State) -> tuple[dict[str, str], int]:
    """The cpu that each queue has, and the number of pods that the next cycle binds."""
    snapshot = state.snapshot(NOW)
    plan = schedule(snapshot, DEFAULT)
    assert violations(snapshot, plan) == []
    amounts = {effect.queue: str(effect.allocated.get("cpu", "")) for effect in plan.of(SetQueue)}
    return {queue: cpu for queue, cpu in amounts.items() if cpu}, len(plan.of(Bind))


@pytest.mark.parametrize("key", [names.POD_QUEUE_NAME, names.QUEUE_NAME])
@pytest.mark.parametrize("group", [{}, {names.GROUP_NAME: "deleted"}], ids=["no group", "deleted group"])
def test_a_running_pod_counts_in_the_queue_that_it_names(group: dict[str, str], key: str) -> None:
    assert allocated_and_bound(cluster(**{key: "lab"}, **group)) == ({"lab": "3"}, 0)


def test_a_running_pod_of_a_job_counts_in_the_queue_of_its_label() -> None:
    state = cluster(**{names.GROUP_NAME: "deleted"})
    held = next(pod for pod in state.tasks.plain["pods"] if pod is not None and pod.metadata.name == "held")
    state.upsert(replace(held, metadata=replace(held.metadata, labels={names.QUEUE_NAME: "lab"})))
    assert allocated_and_bound(state) == ({"lab": "3"}, 0)


@pytest.mark.parametrize("notes", [{}, {names.POD_QUEUE_NAME: "no-such-queue"}, {names.GROUP_NAME: "deleted"}])
def test_a_running_pod_that_names_no_existing_queue_counts_in_the_default_queue(notes: dict[str, str]) -> None:
    assert allocated_and_bound(cluster(**notes)) == ({"default": "3", "lab": "2"}, 2)


def test_it_counts_once_when_the_controllers_give_it_its_group() -> None:
    state = cluster(**{names.POD_QUEUE_NAME: "lab"})
    pod = next(pod for pod in state.tasks.plain["pods"] if pod is not None and pod.metadata.name == "held")
    group = names.workload_group(pod.metadata.uid)
    made = core.PodGroup(
        metadata=core.Meta(name=group, namespace=pod.metadata.namespace), spec=core.PodGroupSpec(queue="lab")
    )
    state.upsert(made)
    joined = _noted(pod, {names.GROUP_NAME: group})
    assert allocated_and_bound(state) == ({"lab": "3"}, 0)
    state.upsert(joined)
    assert allocated_and_bound(state) == ({"lab": "3"}, 0)
    state.delete(made)
    assert allocated_and_bound(state) == ({"lab": "3"}, 0)
    state.delete(joined)
    assert allocated_and_bound(state) == ({"lab": "2"}, 2)
