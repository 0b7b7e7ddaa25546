"""Admitted jobs that cannot start because of pods that are gone, gated or rejected: others get what they get without them."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.scheduler.model.job_tables import CREATION_TIME
from volcanopy.scheduler.model.plan import SetPodGroup
from volcanopy.services.scheduler.state.statuses import group_status
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import NOW, config, world

ACTIONS = "enqueue, allocate, backfill"
LATE = int(CREATION_TIME.total_seconds())
GONE = f"job gone queue=q min=2 minres.cpu=4 user=ana admitted={LATE}:\n"
YOUNG = GONE.replace(f"admitted={LATE}", f"admitted={LATE - 1}")
GATED = "job gated queue=q min=2 minres.cpu=4 user=ana: 1 x cpu=2, 1 x cpu=2 gated\n"
NEXT = "job next queue=q phase=Pending min=2 minres.cpu=4 user=ana: 2 x cpu=2\n"
LIMITS = ("", "capability.cpu=4", "maxrunning=1", "limit.user.*.cpu=4", "limit.user.*.running=1", "fifo")


def cycles(text: str, shares: str, actions: str = ACTIONS, overcommit: str = "overcommit, ") -> Simulation:
    tiers = f"priority, gang | {overcommit}drf, slowdown, predicates, {shares}, nodeorder, reservation"
    simulation = Simulation(world(text), config(tiers, actions=actions))
    for _ in range(3):
        simulation.cycle()
    return simulation


def runs(simulation: Simulation, *pods: str) -> bool:
    return all((pod := simulation.pod(f"default/{name}")) is not None and bool(pod.spec.node_name) for name in pods)


def phase(simulation: Simulation, group: str) -> str:
    found = simulation.cluster.group(f"default/{group}")
    assert found is not None
    return found.status.phase


FAILED = GONE.rstrip("\n") + " 1 x cpu=2 on=n1 failed, 1 x cpu=2\n"
"""A gang of which a failed pod is not created again."""


@pytest.mark.parametrize("blocked", [GONE, GONE.rstrip("\n") + " 1 x cpu=2\n", FAILED, GATED])
@pytest.mark.parametrize("shares", ["proportion", "capacity"])
@pytest.mark.parametrize("limit", LIMITS)
def test_a_job_starts_beside_one_that_lacks_pods(limit: str, shares: str, blocked: str) -> None:
    simulation = cycles(f"queue q {limit}\nnode n1 cpu=4\n" + blocked + NEXT, shares)
    assert runs(simulation, "next-0", "next-1")


def test_jobs_whose_pods_are_gone_do_not_add_up() -> None:
    text = "queue q capability.cpu=4\nnode n1 cpu=4\n"
    text += "".join(GONE.replace("gone", f"gone{number}") for number in range(50))
    assert runs(cycles(text + NEXT, "capacity"), "next-0", "next-1")


def test_the_room_of_a_job_that_was_just_admitted_is_reserved() -> None:
    simulation = cycles("queue q capability.cpu=4\nnode n1 cpu=4\n" + YOUNG + NEXT, "capacity")
    assert phase(simulation, "next") == "Pending"


def test_the_room_of_a_job_whose_pods_are_still_being_created_is_reserved() -> None:
    text = "queue q capability.cpu=4\nnode n1 cpu=4\n" + GONE.rstrip("\n") + " 1 x cpu=2\n" + NEXT
    objects = [
        replace(thing, metadata=replace(thing.metadata, creation_timestamp=NOW - CREATION_TIME / 2))
        if isinstance(thing, core.Pod) and thing.metadata.name == "gone-0"
        else thing
        for thing in world(text)
    ]
    tiers = "priority, gang | overcommit, drf, slowdown, predicates, capacity, nodeorder, reservation"
    simulation = Simulation(objects, config(tiers, actions=ACTIONS))
    for _ in range(3):
        simulation.cycle()
    assert phase(simulation, "next") == "Pending"


def test_a_job_whose_pods_are_deleted_while_it_runs_is_admitted_again_and_reserves_nothing_later() -> None:
    text = (
        "queue q maxrunning=1\nnode n1 cpu=4\njob lost queue=q min=2 minres.cpu=4 phase=Running: 2 x cpu=2 on=n1\n"
        + NEXT
    )
    simulation = cycles(text, "proportion")
    for number in range(2):
        simulation.cluster.remove("Pod", f"default/lost-{number}")
    for _ in range(4):
        simulation.cycle()
    assert (phase(simulation, "lost"), phase(simulation, "next")) == ("Inqueue", "Pending")
    simulation.now += CREATION_TIME
    for _ in range(4):
        simulation.cycle()
    assert runs(simulation, "next-0", "next-1")


def test_a_job_that_can_start_again_waits_while_others_use_the_limit() -> None:
    simulation = cycles("queue q maxrunning=1\nnode n1 cpu=8\n" + GATED + NEXT, "proportion")
    pod = simulation.pod("default/gated-1")
    assert pod is not None
    simulation.add([replace(pod, spec=replace(pod.spec, scheduling_gates=()))])
    for _ in range(3):
        simulation.cycle()
    assert phase(simulation, "gated") == "Pending"
    assert not runs(simulation, "gated-0")


@pytest.mark.parametrize("actions", [ACTIONS, "allocate, backfill"])
def test_no_job_starts_beyond_a_lowered_limit(actions: str) -> None:
    text = """
        node n1 cpu=8
        queue q maxrunning=2
        job a queue=q phase=Running: 1 x cpu=1 on=n1
        job b queue=q: 1 x cpu=1
        job c queue=q: 1 x cpu=1
    """
    simulation = cycles(text, "proportion", actions)
    assert [runs(simulation, name) for name in ("b-0", "c-0")] == [True, False]


def test_the_time_of_admission_is_that_of_the_last_change_to_inqueue() -> None:
    admitted = group_status(core.PodGroupStatus(phase="Pending"), SetPodGroup("default/a", "Inqueue"), "s", NOW)
    later = NOW + timedelta(minutes=5)
    assert admitted.admitted_at == NOW
    for name in ("Inqueue", "Running"):
        assert group_status(admitted, SetPodGroup("default/a", name), "s", later).admitted_at == NOW
    pending = group_status(admitted, SetPodGroup("default/a", "Pending"), "s", later)
    assert group_status(pending, SetPodGroup("default/a", "Inqueue"), "s", later).admitted_at == later
