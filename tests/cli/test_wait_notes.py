"""A command that follows a job tells on standard error why the job waits, when that changes, and when it starts."""

import msgspec

from volcanopy.api.batch_read import BatchJob
from volcanopy.cli.jobs.wait_notes import WaitNotes


def notes_of(*states: tuple[str, str, str], patient: bool = True) -> list[str]:
    """The notes on a job that goes through these phases, with reason and message."""
    lines: list[str] = []
    notes = WaitNotes(lines.append)
    for phase, reason, message in states:
        state = {"phase": phase, "reason": reason, "message": message}
        job = {"metadata": {"name": "train"}, "spec": {"tasks": []}, "status": {"state": state} if phase else {}}
        notes.observe(msgspec.convert(job, BatchJob), patient=patient)
    return lines


def test_each_reason_is_noted_once_and_the_start_ends_it() -> None:
    first = ("Pending", "NotEnoughResources", "0/3 nodes are available")
    second = ("Pending", "PodStartFailed", "pod train-0 cannot start")
    assert notes_of(first, first, second, ("Running", "Started", "1/1 pods running"), first) == [
        'job "train" waits: 0/3 nodes are available',
        'job "train" waits: pod train-0 cannot start',
        'job "train" has started: 1/1 pods running',
        'job "train" waits: 0/3 nodes are available',
    ]


ADMISSION = ("Pending", "NotAdmitted", 'waiting for admission to queue "q"')


def test_a_job_that_starts_soon_is_not_noted() -> None:
    assert notes_of(("", "", ""), ADMISSION, ("Running", "Started", "running")) == []


def test_a_job_that_a_limit_keeps_from_its_admission_is_noted_at_once() -> None:
    limit = ("Pending", "NotAdmitted", "overcommit limit of the cluster exceeded")
    assert notes_of(ADMISSION, limit) == ['job "train" waits: overcommit limit of the cluster exceeded']


def test_a_job_that_waits_as_usual_for_long_is_noted() -> None:
    assert notes_of(("", "", ""), patient=False) == ['job "train" waits: no status yet from the job controller']
    assert notes_of(ADMISSION, patient=False) == ['job "train" waits: waiting for admission to queue "q"']
