"""Cron jobs: when jobs are made, what happens when one still runs, how many are kept."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.jobcontroller.flow_world import START, CronWorld
from tests.nightly import examples
from volcanopy.api import names
from volcanopy.jobcontroller.cron import reconcile_cron
from volcanopy.jobcontroller.plan import CreateJob


def test_a_job_is_created_on_schedule_once() -> None:
    world = CronWorld("30 * * * *").settle()
    assert world.born == []
    assert world.look().again == START + timedelta(minutes=30)
    world.pass_time(minutes=30, seconds=2)
    world.settle()
    minutes = int((START + timedelta(minutes=30)).timestamp()) // 60
    assert world.born == [f"c-{minutes}"]
    assert world.cron.status.last_schedule_time == START + timedelta(minutes=30)
    assert [item.name for item in world.cron.status.active] == world.born
    world.pass_time(minutes=10)
    assert len(world.settle().born) == 1


def test_a_job_carries_its_time_its_owner_and_the_template() -> None:
    world = CronWorld("30 10 * * *", timeZone="Europe/Berlin").settle()
    world.pass_time(hours=2)
    job = next(iter(world.settle().jobs.values()))
    assert job.metadata.annotations == {"note": "b", names.SCHEDULED_TIME: "2026-03-02T10:30:00+01:00"}
    assert job.metadata.labels == {"team": "a"}
    assert job.metadata.owner_references[0].kind == "CronBatchJob"


def test_only_the_last_of_many_missed_times_is_run() -> None:
    world = CronWorld("* * * * *").settle()
    world.pass_time(days=1)
    assert len(world.settle().born) == 1
    assert world.cron.status.last_schedule_time == START + timedelta(days=1)
    assert "more than 100 scheduled times missed" in world.events[0]


def test_a_time_before_the_starting_deadline_is_not_run() -> None:
    world = CronWorld("0 9 * * *", startingDeadlineSeconds=600).settle()
    world.pass_time(hours=1, minutes=11)
    assert world.settle().born == []
    missed = "event Warning MissSchedule: job scheduled for 2026-03-02T09:00:00Z not started: startingDeadlineSeconds 600 exceeded"
    assert world.events == [missed]
    world.now = START + timedelta(days=1, hours=1, minutes=9)
    assert len(world.settle().born) == 1
    assert world.events == [missed]


def test_a_time_that_expires_while_the_last_job_runs_is_reported_once() -> None:
    world = CronWorld("0 * * * *", concurrencyPolicy="Forbid", startingDeadlineSeconds=600).settle()
    world.pass_time(hours=1)
    world.set(world.settle().born[0], "Running")
    world.pass_time(hours=1)
    world.settle()
    world.pass_time(minutes=11)
    world.settle()
    assert [event for event in world.events if "exceeded" in event] == [
        "event Warning MissSchedule: job scheduled for 2026-03-02T10:00:00Z not started: startingDeadlineSeconds 600 exceeded"
    ]
    assert world.cron.status.message == ""


def test_a_starting_deadline_may_be_longer_than_the_calendar() -> None:
    world = CronWorld("0 9 * * *", startingDeadlineSeconds=2**63 - 1).settle()
    world.pass_time(hours=1)
    assert len(world.settle().born) == 1


def test_forbid_delays_the_next_job_until_the_last_ends() -> None:
    world = CronWorld("0 * * * *", concurrencyPolicy="Forbid").settle()
    world.pass_time(hours=1)
    first = world.settle().born[0]
    world.set(first, "Running")
    world.pass_time(hours=1)
    assert world.settle().born == [first]
    assert world.cron.status.message == (
        f"job scheduled for 2026-03-02T10:00:00Z is waiting for {first} to finish (concurrencyPolicy Forbid)"
    )
    world.set(first, "Completed")
    assert len(world.settle().born) == 2
    assert world.cron.status.message == ""
    assert world.cron.status.last_successful_time == world.now


def test_forbid_delays_the_next_job_until_the_pods_of_the_last_have_terminated() -> None:
    world = CronWorld("0 * * * *", concurrencyPolicy="Forbid").settle()
    world.pass_time(hours=1)
    first = world.settle().born[0]
    world.set(first, "Failed", terminating=2)
    world.pass_time(hours=1)
    assert world.settle().born == [first]
    assert f"waiting for {first} to finish" in world.cron.status.message
    world.set(first, "Failed", terminating=0)
    assert len(world.settle().born) == 2


def test_the_status_has_an_active_job_while_one_follows_another() -> None:
    """The end of a job and the start of the one that waits for it are written together."""
    world = CronWorld("0 * * * *", concurrencyPolicy="Forbid").settle()
    world.pass_time(hours=1)
    world.set(world.settle().born[0], "Running")
    world.settle().pass_time(hours=1)
    world.settle()
    world.set(world.born[0], "Completed")
    plan = reconcile_cron(world.cron, world.jobs, world.now)
    assert [type(effect) for effect in plan.effects] == [CreateJob]


def test_replace_deletes_the_last_job() -> None:
    world = CronWorld("0 * * * *", concurrencyPolicy="Replace").settle()
    world.pass_time(hours=1)
    first = world.settle().born[0]
    world.pass_time(hours=1)
    world.settle()
    assert list(world.jobs) == [world.born[1]]
    assert world.born[1] != first


def test_allow_runs_jobs_concurrently() -> None:
    world = CronWorld("0 * * * *").settle()
    for _ in range(3):
        world.pass_time(hours=1)
        world.settle()
    assert len(world.jobs) == len(world.cron.status.active) == 3


def test_only_the_latest_jobs_are_kept() -> None:
    world = CronWorld("0 * * * *", successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1).settle()
    ends = ["Completed", "Failed", "Completed", "Terminated", "Completed", "Completed"]
    for end in ends:
        world.pass_time(hours=1)
        world.settle()
        world.set(world.born[-1], end)
        world.settle()
    kept = [(str(job.status.state.phase)) for job in world.jobs.values()]
    assert sorted(kept) == ["Completed", "Completed", "Terminated"]
    assert world.born[-1] in world.jobs


def test_a_suspended_cron_job_creates_no_jobs_and_runs_the_last_missed_time_when_resumed() -> None:
    world = CronWorld("0 * * * *", suspend=True).settle()
    world.pass_time(hours=5)
    assert world.settle().born == []
    assert world.look().again is None
    world.change(suspend=False)
    assert len(world.settle().born) == 1


def test_an_invalid_schedule_or_time_zone_is_reported() -> None:
    assert "invalid hour" in CronWorld("0 25 * * *").settle().cron.status.message
    message = CronWorld("@daily", timeZone="Mars/Olympus").settle().cron.status.message
    assert (
        message
        == 'spec.timeZone: Invalid value: "Mars/Olympus": must be the name of a time zone, such as Europe/Berlin or UTC'
    )


def test_a_changed_schedule_counts_from_now_on() -> None:
    world = CronWorld("0 9 * * *").settle()
    world.pass_time(minutes=30)
    world.change(schedule="45 8 * * *")
    assert world.settle().look().again == START + timedelta(minutes=45)


def test_a_time_of_a_new_schedule_that_passed_before_the_change_is_not_run() -> None:
    world = CronWorld("0 7 * * *").settle()
    world.pass_time(days=1)
    first = world.settle().born
    world.change(schedule="30 7 * * *")
    assert world.settle().born == first
    assert world.look().again == START + timedelta(days=1, hours=23, minutes=30)
    world.pass_time(days=1)
    assert len(world.settle().born) == 2


def test_a_changed_schedule_does_not_drop_the_job_that_waits_for_the_last_to_finish() -> None:
    world = CronWorld("0 * * * *", concurrencyPolicy="Forbid").settle()
    world.pass_time(hours=1)
    first = world.settle().born[0]
    world.pass_time(hours=1)
    assert world.settle().cron.status.next_schedule_time == world.now
    world.pass_time(minutes=20)
    world.change(schedule="10 * * * *")
    world.set(first, "Completed")
    assert len(world.settle().born) == 2


@examples(100)
@given(
    schedule=st.sampled_from(["*/7 * * * *", "@every 13m", "0 * * * *", "@every 45s", "5,25 8-12 * * 1-5"]),
    policy=st.sampled_from(["Allow", "Forbid", "Replace"]),
    steps=st.lists(
        st.tuples(st.integers(1, 5000), st.sampled_from(["", "Completed", "Failed", "forget"])), max_size=15
    ),
)
def test_no_time_is_run_twice_even_if_the_status_is_lost(
    schedule: str, policy: str, steps: list[tuple[int, str]]
) -> None:
    world = CronWorld(schedule, concurrencyPolicy=policy, successfulJobsHistoryLimit=99, failedJobsHistoryLimit=99)
    for seconds, what in steps:
        world.pass_time(seconds=seconds)
        world.settle()
        if policy != "Allow":
            assert len(world.cron.status.active) <= 1
        if what == "forget":
            world.cron = world.cron.model_copy(update={"status": type(world.cron.status)()})
        elif what and world.cron.status.active:
            world.set(world.cron.status.active[0].name, what)
    assert len(world.born) == len(set(world.born))
