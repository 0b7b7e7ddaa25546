"""What a job used: its requests times the seconds on nodes, each second once, also through crashes and evictions."""

from datetime import datetime, timedelta

from tests.jobcontroller.world import START, Json, World, job, task
from volcanopy.jobcontroller.accounting import MOST_EVICTIONS, with_evictions
from volcanopy.jobcontroller.observed import Disruption


def running(*tasks: Json, **spec: int) -> World:
    """A job that was created at START, admitted after a minute, and has run since the second minute."""
    world = World(job(*tasks)).settle().wait(minutes=1).admit().settle().wait(minutes=1)
    return start(world).settle()


def start(world: World, *pods: str) -> World:
    """Pods start now."""
    for name in pods or tuple(world.pods):
        world.run(name)
        world.pods[name]["status"]["startTime"] = world.now.isoformat()
    return world


def end(world: World, name: str, phase: str = "Succeeded") -> None:
    """A pod ends now."""
    begin = world.pods[name]["status"]["startTime"]
    world.set_phase(phase, name)
    status = world.pods[name]["status"]
    status["startTime"] = begin
    status["containerStatuses"][0]["state"]["terminated"] |= {"exitCode": 0, "finishedAt": world.now.isoformat()}


def evict(world: World, *pods: str, by: str) -> None:
    """The scheduler evicts pods."""
    condition = {"type": "DisruptionTarget", "status": "True", "message": by}
    for name in pods:
        time = world.now.isoformat()
        world.pods[name]["status"]["conditions"] = [condition | {"lastTransitionTime": time}]
        world.delete(name)


def test_a_job_uses_the_requests_of_its_pods_while_they_are_on_nodes() -> None:
    gpu = task("g", 1, cpu="500m")
    gpu["template"]["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "2"
    world = running(task("a", 2), gpu)
    assert world.status["admittedTime"] == "2026-01-01T00:01:00Z"
    world.wait(seconds=100)
    end(world, "job-a-0")
    world.settle().wait(seconds=50)
    end(world, "job-a-1")
    end(world, "job-g-0")
    world.settle()
    assert world.phase == "Completed"
    # 100 s and 150 s of one cpu, 150 s of half a cpu and of two GPUs.
    assert world.status["resourceSeconds"] == {"cpu": "325", "nvidia.com/gpu": "300"}


def test_the_end_of_a_pod_counts_and_not_when_it_is_observed() -> None:
    world = running(task("a", 1)).wait(seconds=10)
    end(world, "job-a-0")
    world.wait(hours=3).settle()
    assert world.status["resourceSeconds"] == {"cpu": "10"}


def test_a_pod_that_started_and_ended_unobserved_counts() -> None:
    world = World(job(task("a", 1))).settle().admit().settle()
    start(world).wait(seconds=30)
    end(world, "job-a-0")
    world.wait(hours=1).settle()
    assert world.status["resourceSeconds"] == {"cpu": "30"}


def test_a_pod_that_vanished_counts_until_then() -> None:
    world = running(task("a", 2)).wait(seconds=100)
    del world.pods["job-a-1"]
    world.settle().wait(seconds=50)
    end(world, "job-a-0")
    world.settle()
    assert world.status["resourceSeconds"] == {"cpu": "250"}


def test_an_interval_counts_once_wherever_the_controller_crashes() -> None:
    for crash in range(4):
        world = running(task("a", 2)).wait(seconds=60)
        end(world, "job-a-0")
        world.step(crash_after=crash)
        world.settle().wait(seconds=60)
        end(world, "job-a-1")
        world.step(crash_after=crash)
        world.settle()
        assert (world.phase, world.status["resourceSeconds"]) == ("Completed", {"cpu": "180"}), crash


def test_the_usage_alone_writes_no_status() -> None:
    world = running(task("a", 1))
    writes = world.status_writes
    world.wait(hours=1).settle()
    assert world.status_writes == writes


def test_restarts_add_up() -> None:
    world = (
        World(job(task("a", 1), policies=[{"event": "PodFailed", "action": "RestartJob"}])).settle().admit().settle()
    )
    start(world).settle().wait(seconds=40)
    end(world, "job-a-0", "Failed")
    world.settle().wait(seconds=7).admit().settle()
    start(world).settle().wait(seconds=2)
    end(world, "job-a-0")
    world.settle()
    assert (world.phase, world.status["retryCount"], world.status["resourceSeconds"]) == ("Completed", 1, {"cpu": "42"})


def test_evictions_name_what_evicted_and_how_many_pods() -> None:
    world = running(task("a", 3))
    by = 'preempt: preempted by job "b" in queue "q"'
    world.wait(seconds=60)
    evict(world, "job-a-0", "job-a-1", by=by)
    world.settle()
    (eviction,) = world.status["evictions"]
    assert eviction == {"time": "2026-01-01T00:03:00Z", "by": by, "pods": 2}
    assert world.settle().status["evictions"] == [eviction]


def test_the_last_evictions_are_kept() -> None:
    many = [Disruption(START + timedelta(seconds=number), "reclaim", 1) for number in range(MOST_EVICTIONS + 5)]
    known = with_evictions([], many)
    assert len(known) == MOST_EVICTIONS
    assert known[-1].time == START + timedelta(seconds=MOST_EVICTIONS + 4)
    assert with_evictions(known, [many[-1]]) == known


def test_no_use_is_negative_when_clocks_differ() -> None:
    world = running(task("a", 1))
    world.pods["job-a-0"]["status"]["startTime"] = (world.now + timedelta(hours=1)).isoformat()
    world.wait(seconds=5)
    end(world, "job-a-0")
    world.settle()
    assert world.status.get("resourceSeconds", {"cpu": "0"}) == {"cpu": "0"}
    assert datetime.fromisoformat(world.status["startTime"]) == START + timedelta(minutes=2)


def test_the_time_of_the_admission_is_that_of_the_scheduler() -> None:
    """The controller may see the admission of a small job after its pods have been placed."""
    world = World(job(task("a"))).settle().admit("Running")
    assert world.pod_group is not None
    world.pod_group["status"]["admittedAt"] = (START + timedelta(seconds=5)).isoformat()
    world.wait(seconds=20).settle().run().settle()
    assert world.status["admittedTime"] == "2026-01-01T00:00:05Z"
