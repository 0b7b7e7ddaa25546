"""A plan is cut into steps, and its cost follows the number of pods."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.call_counts import calls
from tests.jobcontroller.world import World, job, task
from volcanopy.api.batch import TaskSpec
from volcanopy.jobcontroller import pods
from volcanopy.jobcontroller import reconcile as reconciliation
from volcanopy.jobcontroller.plan import CreatePod, DeletePod, JobPlan, RecordEvent
from volcanopy.jobcontroller.reconcile import MOST_CREATED, reconcile

EFFECTS = st.lists(
    st.one_of(
        st.builds(lambda number: CreatePod(f"p{number}", dict), st.integers(0, 99)),
        st.builds(lambda number: DeletePod(f"p{number}", "u"), st.integers(0, 99)),
        st.just(RecordEvent("Normal", "Reason", "message")),
    ),
    max_size=40,
)


@given(effects=EFFECTS, sizes=st.lists(st.integers(1, 9), min_size=1))
def test_the_steps_of_a_plan_have_at_most_so_many_writes_and_are_the_plan(effects: list[Any], sizes: list[int]) -> None:
    remaining, number = JobPlan(tuple(effects)), 0
    steps: list[Any] = []
    while remaining.effects:
        writes = sizes[number % len(sizes)]
        step, remaining = remaining.cut(writes)
        assert step.effects
        assert sum(not isinstance(effect, RecordEvent) for effect in step.effects) <= writes
        steps += step.effects
        number += 1
    assert steps == effects


def admitted(replicas: int, minimum: int = 0, **fields: Any) -> World:
    """A job of so many pods, all of which it needs or so many, whose PodGroup is admitted."""
    world = World(job(task(replicas=replicas, **fields), minAvailable=minimum or replicas))
    world.step()
    world.admit()
    return world


def test_a_step_makes_the_manifests_of_its_own_pods_only(monkeypatch: pytest.MonkeyPatch) -> None:
    step, remaining = admitted(5_000).plan().cut(100)
    assert len(remaining.effects) > 4_800
    made: list[int] = []
    labels = pods._labels_of_index

    def note(task: TaskSpec, index: int) -> dict[str, str]:
        made.append(index)
        return labels(task, index)

    monkeypatch.setattr(pods, "_labels_of_index", note)
    created = [effect.manifest["metadata"]["name"] for effect in step.effects if isinstance(effect, CreatePod)]
    assert made == list(range(len(created)))


def running(replicas: int) -> World:
    """A job that runs."""
    world = admitted(replicas)
    world.settle().run(*world.pods)
    return world.settle()


def pending(replicas: int) -> World:
    """Pods that wait, with a policy for pods that wait for too long."""
    policies = [{"event": "PodPending", "action": "RestartJob", "timeout": "1h"}]
    return admitted(replicas, policies=policies).settle()


def failed(replicas: int) -> World:
    """All pods fail at once, and are restarted one by one."""
    world = admitted(replicas, policies=[{"event": "PodFailed", "action": "RestartPod"}]).settle()
    world.run(*world.pods)
    world.settle().set_phase("Failed", *world.pods, exit_code=1)
    return world


def restarting(replicas: int) -> World:
    """The same after the decision, before the pods are deleted."""
    world = failed(replicas)
    world.step(crash_after=1)
    return world


def deleted(replicas: int) -> World:
    """All pods of a partitioned task are deleted by somebody."""
    world = admitted(replicas, partitionPolicy={"totalPartitions": replicas // 4, "partitionSize": 4}).settle()
    world.run(*world.pods)
    world.settle()
    world.pods.clear()
    return world


def calls_of_a_plan(world: World) -> int:
    """The calls of a reconcile, comparisons of names in lists included as far as they are calls."""
    job, observed = world.read(), world.observed()
    return calls(lambda: reconcile(job, observed, world.now))


@pytest.mark.parametrize("world", [admitted, running, pending, failed, restarting, deleted])
def test_the_cost_of_a_plan_grows_with_the_pods_and_not_with_their_square(world: Any) -> None:
    assert calls_of_a_plan(world(400)) < 2.5 * calls_of_a_plan(world(200)) + 1_000


def test_a_plan_creates_at_most_so_many_pods_however_many_are_missing_and_the_next_ones_create_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reconciliation, "MOST_CREATED", 100)
    world = admitted(250)
    plan = world.plan()
    assert sum(isinstance(effect, CreatePod) for effect in plan.effects) == 100
    assert plan.again == world.now
    assert len(world.settle().pods) == 250


def test_the_first_plan_of_a_job_of_a_hundred_thousand_pods_costs_as_much_as_that_of_a_small_one() -> None:
    assert calls_of_a_plan(admitted(100_000, 1)) < calls_of_a_plan(admitted(300, 1)) + 1_000
    assert calls_of_a_plan(admitted(100_000)) < 1.1 * calls_of_a_plan(admitted(MOST_CREATED)) + 1_000
