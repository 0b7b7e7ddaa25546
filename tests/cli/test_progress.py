"""Jobs as rows of the table of `local run`."""

from datetime import UTC, datetime

import msgspec
from rich.console import Console

from volcanopy.api.batch_read import BatchJob
from volcanopy.cli.local_cluster.progress import TABLE, seconds

NOW = datetime(2030, 1, 1, 0, 1, 0, tzinfo=UTC)


def job(**state: str) -> BatchJob:
    return msgspec.convert(
        {
            "metadata": {"name": "j", "namespace": "lab", "creationTimestamp": "2030-01-01T00:00:00Z"},
            "spec": {"queue": "q", "tasks": [{"replicas": 2}, {}]},
            "status": {"running": 2, "succeeded": 1, "state": state},
        },
        BatchJob,
    )


def test_a_job_without_status_is_pending() -> None:
    pending = msgspec.structs.replace(job(), status=BatchJob(metadata=job().metadata).status)
    assert TABLE.cells([pending], NOW) == [["lab/j", "Pending", "0", "0", "0", "3", "q", "60s", ""]]


def test_a_running_job_grows_older_and_an_ended_one_does_not() -> None:
    ended = {"lastTransitionTime": "2030-01-01T00:00:30Z"}
    assert seconds(job(phase="Running", **ended), NOW) == 60.0
    assert seconds(job(phase="Failed", **ended), NOW) == 30.0


def test_a_plain_table_has_aligned_columns() -> None:
    assert TABLE.plain([job(phase="Running", message="2/3 pods running")], NOW).splitlines() == [
        "JOB     PHASE     RUNNING   SUCCEEDED   FAILED   PODS   QUEUE   TIME   REASON",
        "lab/j   Running   2         1           0        3      q       60s    2/3 pods running",
    ]


def test_a_table_on_a_terminal_wraps_only_the_sentence() -> None:
    """Square brackets in a message are no markup."""
    message = "a long sentence [bold] that goes on and on until it does not fit into one line"
    terminal = Console(width=100, force_terminal=True, color_system=None)
    with terminal.capture() as captured:
        terminal.print(TABLE.rich([job(phase="Pending", message=message)], NOW))
    heading, first, *more = captured.get().splitlines()
    column = heading.index("REASON")
    assert first.startswith("lab/j   Pending")
    assert " ".join(line[column:].strip() for line in (first, *more)).strip() == message
