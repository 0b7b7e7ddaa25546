"""activeDeadlineSeconds of a job: counted from its start, announced, enforced once, and started again by resuming."""

from datetime import timedelta
from typing import Any

import pytest

from tests.jobcontroller.world import START, World, job, task


def world(seconds: int = 600, replicas: int = 2, **spec: Any) -> World:
    """A job with a deadline that waited an hour for its start."""
    result = World(job(task(replicas=replicas), activeDeadlineSeconds=seconds, **spec)).settle()
    return result.wait(hours=1).admit().settle().run().settle()


def approaching(seen: World) -> list[dict[str, str]]:
    """The conditions that the deadline approaches."""
    return [entry for entry in seen.status["conditions"] if entry["type"] == "DeadlineApproaching"]


def test_waiting_in_the_queue_does_not_count() -> None:
    seen = world()
    assert (seen.phase, seen.status["startTime"]) == ("Running", "2026-01-01T01:00:00Z")
    assert seen.plan().again == START + timedelta(hours=1, minutes=9)


def test_the_time_starts_with_the_minimum_of_pods() -> None:
    seen = World(job(task(replicas=3, minAvailable=2), activeDeadlineSeconds=600)).settle().admit().settle()
    seen.wait(seconds=100).run("job-a-0").settle()
    assert "startTime" not in seen.status
    seen.wait(seconds=100).run("job-a-1").settle()
    assert seen.status["startTime"] == "2026-01-01T00:03:20Z"


@pytest.mark.parametrize(("seconds", "before"), [(600, 60), (100, 10), (3 * 3600, 300)])
def test_the_deadline_is_announced_a_tenth_before_and_at_most_five_minutes(seconds: int, before: int) -> None:
    seen = world(seconds)
    due = seen.now + timedelta(seconds=seconds - before)
    assert seen.plan().again == due
    seen.now = due - timedelta(seconds=1)
    assert not approaching(seen.settle())
    seen.now = due
    (condition,) = approaching(seen.settle())
    assert condition["message"].endswith(f"activeDeadlineSeconds {seconds}")
    assert seen.plan().again == due + timedelta(seconds=before)
    seen.wait(seconds=1).settle()
    events = [event for event in seen.events if event.reason == "DeadlineApproaching"]
    assert [(event.type, event.message) for event in events] == [("Warning", condition["message"])]


def test_a_job_fails_at_its_deadline_and_its_pods_terminate() -> None:
    seen = world().wait(minutes=10)
    seen.step()
    assert (seen.phase, seen.status["state"]["reason"]) == ("Failed", "DeadlineExceeded")
    assert seen.message == "activeDeadlineSeconds exceeded: 600 s since the start at 2026-01-01T01:00:00Z"
    assert all("deletionTimestamp" in pod["metadata"] for pod in seen.pods.values())
    assert not approaching(seen.settle())
    assert (seen.pods, seen.pod_group, seen.plan().again) == ({}, None, None)
    assert ("Warning", "Failed") in [(event.type, event.reason) for event in seen.events]


def test_a_job_that_has_ended_by_its_deadline_is_completed() -> None:
    seen = world().wait(minutes=11).succeed().settle()
    assert seen.phase == "Completed"
    assert seen.wait(hours=1).settle().phase == "Completed"


def test_restarts_and_waiting_for_pods_count() -> None:
    policy = [{"event": "PodFailed", "action": "RestartJob"}]
    seen = world(policies=policy).wait(minutes=5).fail("job-a-0").settle().again()
    assert (seen.phase, seen.status["startTime"]) == ("Running", "2026-01-01T01:00:00Z")
    seen.wait(minutes=1).fail("job-a-0").settle()
    assert seen.phase == "Pending"
    seen.wait(minutes=4).settle()
    assert (seen.phase, seen.status["state"]["reason"]) == ("Failed", "DeadlineExceeded")


def test_a_restart_does_not_repeat_the_announcement() -> None:
    policy = [{"event": "PodFailed", "action": "RestartJob"}]
    seen = world(policies=policy).wait(minutes=9).settle().fail("job-a-0").settle().again()
    assert [entry["status"] for entry in approaching(seen)] == ["True"]
    assert len([event for event in seen.events if event.reason == "DeadlineApproaching"]) == 1


def test_a_resumed_job_has_its_whole_time_again() -> None:
    seen = world().wait(minutes=9).settle().command("AbortJob").settle()
    assert (seen.phase, approaching(seen)) == ("Aborted", [])
    seen.wait(hours=5).settle()
    assert seen.phase == "Aborted"
    seen.command("ResumeJob", "c2").settle().again()
    assert (seen.phase, seen.status["startTime"]) == ("Running", "2026-01-01T06:09:00Z")
    assert seen.wait(minutes=10).settle().phase == "Failed"


def test_a_changed_deadline_applies_at_once() -> None:
    seen = world().wait(minutes=9).settle()
    assert approaching(seen)
    seen.edit(activeDeadlineSeconds=7200).settle()
    assert not approaching(seen)
    assert seen.wait(hours=1).settle().phase == "Running"
    assert seen.edit(activeDeadlineSeconds=60).settle().phase == "Failed"


def test_a_running_job_without_a_start_time_started_with_its_phase() -> None:
    seen = world()
    del seen.status["startTime"]
    assert seen.settle().status["startTime"] == "2026-01-01T01:00:00Z"


def test_a_crash_at_the_deadline_fails_the_job_once() -> None:
    seen = world().wait(minutes=10)
    seen.step(crash_after=1)
    assert seen.phase == "Failed"
    assert seen.settle().pods == {}
