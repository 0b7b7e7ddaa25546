"""Which action follows from what: the vectors of the specification, and precedence."""

from datetime import timedelta
from typing import Any

import pytest

from tests.jobcontroller.world import job, task
from volcanopy.api.batch import BatchJob
from volcanopy.api.lifecycle import Action, Event
from volcanopy.jobcontroller.lifecycle_events import JobEvent, Response, respond

RESTART = {"event": "PodFailed", "action": "RestartJob"}


@pytest.mark.parametrize(
    ("of_task", "of_job", "event", "exit_code", "action"),
    [
        ([], [], "PodFailed", 1, None),
        ([], [RESTART], "PodFailed", 1, "RestartJob"),
        ([], [RESTART, {"exitCode": 137, "action": "AbortJob"}], "PodFailed", 137, "RestartJob"),
        ([], [{"exitCode": 137, "action": "AbortJob"}, RESTART], "PodFailed", 137, "AbortJob"),
        (
            [{"exitCode": 3, "action": "RestartTask"}],
            [{"event": "*", "action": "TerminateJob"}],
            "PodFailed",
            3,
            "RestartTask",
        ),
        (
            [{"exitCode": 3, "action": "RestartTask"}],
            [{"event": "*", "action": "TerminateJob"}],
            "PodFailed",
            1,
            "TerminateJob",
        ),
        ([], [{"event": "*", "action": "RestartJob"}], "TaskCompleted", 0, "RestartJob"),
        ([], [{"event": "*", "action": "RestartJob"}], "PodPending", 0, None),
        ([], [{"event": "*", "action": "RestartJob"}], "JobUpdated", 0, None),
        ([], [{"event": "PodPending", "action": "RestartJob"}], "PodPending", 0, None),
        ([], [{"events": ["PodFailed", "PodEvicted"], "action": "AbortJob"}], "PodEvicted", 0, "AbortJob"),
    ],
)
def test_policies_give_the_expected_action(
    of_task: list[Any], of_job: list[Any], event: str, exit_code: int, action: str | None
) -> None:
    spec = BatchJob.read(job(task("a", policies=of_task), policies=of_job)).spec
    codes = (exit_code,) if exit_code else ()
    response = respond(spec, JobEvent(Event(event), "a", exit_codes=codes))
    assert (response.action if response else None) == action


def test_a_timeout_delays_the_action() -> None:
    policies = [{"event": "PodPending", "action": "RestartJob", "timeout": "10m"}]
    spec = BatchJob.read(job(policies=policies)).spec
    assert respond(spec, JobEvent(Event.POD_PENDING, "a")) == Response(Action.RESTART_JOB, timedelta(minutes=10))


def test_any_failed_container_may_have_the_exit_code() -> None:
    spec = BatchJob.read(job(policies=[{"exitCode": 3, "action": "AbortJob"}])).spec
    assert respond(spec, JobEvent(Event.POD_FAILED, "a", exit_codes=(1, 3))) == Response(Action.ABORT_JOB)
