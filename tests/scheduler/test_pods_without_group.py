"""Pods on nodes whose PodGroup does not exist count in full: on their node, and in the queue that they name."""

import pytest
from msgspec.structs import replace

from volcanopy.api import core, names
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, SetQueue
from volcanopy_testing.notation import NOW, config, world

CLUSTER = """
node n1 cpu=8
queue default
queue lab capability.cpu=4
pod held cpu=3 node=n1 scheduler=volcanopy
job new queue=lab min=2: 2 x cpu=1
"""
DEFAULT = config("gang, predicates, proportion, nodeorder", "enqueue, allocate, backfill")


JOB = core.OwnerReference(
    api_version="batch.volcanopy.io/v1alpha1", kind="BatchJob", name="j", uid="j", controller=True
)


def cluster(notes: dict[str, str], *owners: core.OwnerReference, labels: dict[str, str] | None = None) -> State:
    """A queue of 4 cpu, and a pod of 3 that runs with these annotations, labels and owners; a gang of 2 waits."""
    state = State()
    for item in world(CLUSTER):
        if isinstance(item, core.Pod) and item.metadata.name == "held":
            known = item.metadata
            annotations, merged = {**known.annotations, **notes}, {**known.labels, **(labels or {})}
            changed = replace(known, annotations=annotations, labels=merged, owner_references=[*owners])
            state.upsert(replace(item, metadata=changed))
        else:
            state.upsert(item)
    return state


def allocated_and_bound(state: State) -> tuple[dict[str, str], int]:
    """The cpu that each queue has, and the number of pods that the next cycle binds."""
    snapshot = state.snapshot(NOW)
    plan = schedule(snapshot, DEFAULT)
    assert violations(snapshot, plan) == []
    amounts = {effect.queue: str(effect.allocated.get("cpu", "")) for effect in plan.of(SetQueue)}
    return {queue: cpu for queue, cpu in amounts.items() if cpu}, len(plan.of(Bind))


@pytest.mark.parametrize("group", [{}, {names.GROUP_NAME: "deleted"}], ids=["no group", "deleted group"])
def test_a_running_pod_counts_in_the_queue_that_it_names(group: dict[str, str]) -> None:
    assert allocated_and_bound(cluster({names.POD_QUEUE_NAME: "lab"} | group)) == ({"lab": "3"}, 0)


@pytest.mark.parametrize("where", ["labels", "annotations"])
@pytest.mark.parametrize("template", [{}, {names.POD_QUEUE_NAME: "default"}], ids=["", "template names another"])
def test_a_running_pod_of_a_job_counts_in_the_queue_that_the_controllers_write(
    where: str, template: dict[str, str]
) -> None:
    written = {names.QUEUE_NAME: "lab"}
    state = cluster(template, JOB, labels=written) if where == "labels" else cluster(template | written, JOB)
    assert allocated_and_bound(state) == ({"lab": "3"}, 0)


def test_a_name_of_the_controllers_on_a_pod_of_no_job_which_admission_does_not_check_puts_it_into_no_queue() -> None:
    written = {names.QUEUE_NAME: "lab"}
    assert allocated_and_bound(cluster({}, labels=written)) == ({"default": "3", "lab": "2"}, 2)
    assert allocated_and_bound(cluster(written)) == ({"default": "3", "lab": "2"}, 2)


@pytest.mark.parametrize("notes", [{}, {names.POD_QUEUE_NAME: "no-such-queue"}, {names.GROUP_NAME: "deleted"}])
def test_a_running_pod_that_names_no_existing_queue_counts_in_the_default_queue(notes: dict[str, str]) -> None:
    assert allocated_and_bound(cluster(notes)) == ({"default": "3", "lab": "2"}, 2)


def test_it_counts_once_when_the_controllers_give_it_its_group() -> None:
    state = cluster({names.POD_QUEUE_NAME: "lab"})
    pod = next(pod for pod in state.tasks.plain["pods"] if pod is not None and pod.metadata.name == "held")
    group = names.workload_group(pod.metadata.uid)
    made = core.PodGroup(
        metadata=core.Meta(name=group, namespace=pod.metadata.namespace), spec=core.PodGroupSpec(queue="lab")
    )
    state.upsert(made)
    notes = {**pod.metadata.annotations, names.GROUP_NAME: group}
    joined = replace(pod, metadata=replace(pod.metadata, annotations=notes))
    assert allocated_and_bound(state) == ({"lab": "3"}, 0)
    state.upsert(joined)
    assert allocated_and_bound(state) == ({"lab": "3"}, 0)
    state.delete(made)
    assert allocated_and_bound(state) == ({"lab": "3"}, 0)
    state.delete(joined)
    assert allocated_and_bound(state) == ({"lab": "2"}, 2)
