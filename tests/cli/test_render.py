"""Jobs as rows of a table."""

from datetime import UTC, datetime

from rich.console import Console

from volcanopy.cli.render import HEADINGS, job_row, job_table, plain_table
from volcanopy.kube.client.kinds import Json

NOW = datetime(2030, 1, 1, 0, 1, 0, tzinfo=UTC)


def job(**state: str) -> Json:
    return {
        "metadata": {"name": "j", "namespace": "lab", "creationTimestamp": "2030-01-01T00:00:00Z"},
        "spec": {"queue": "q", "tasks": [{"replicas": 2}, {}]},
        "status": {"running": 2, "succeeded": 1, "state": state},
    }


def test_a_job_without_status_is_pending() -> None:
    row = job_row({**job(), "status": {}}, NOW)
    assert (row.phase, row.message, row.pods, row.seconds) == ("Pending", "", 3, 60.0)
    assert row.line == "lab/j Pending"


def test_a_running_job_grows_older_and_an_ended_one_does_not() -> None:
    ended = {"lastTransitionTime": "2030-01-01T00:00:30Z"}
    assert job_row(job(phase="Running", **ended), NOW).seconds == 60.0
    row = job_row(job(phase="Failed", message="pod x failed", **ended), NOW)
    assert (row.seconds, row.ended, row.line) == (30.0, True, "lab/j Failed: pod x failed")


def test_a_plain_table_has_aligned_columns() -> None:
    rows = [job_row(job(phase="Running", message="2/3 pods running"), NOW).cells]
    assert plain_table(HEADINGS, rows).splitlines() == [
        "JOB     PHASE     RUNNING   SUCCEEDED   FAILED   PODS   QUEUE   TIME   REASON",
        "lab/j   Running   2         1           0        3      q       60s    2/3 pods running",
    ]


def test_a_table_on_a_terminal_wraps_only_the_sentence() -> None:
    """Square brackets in a message are no markup."""
    message = "a long sentence [bold] that goes on and on until it does not fit into one line"
    console = Console(width=100, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(job_table([job_row(job(phase="Pending", message=message), NOW)]))
    heading, first, *more = captured.get().splitlines()
    column = heading.index("REASON")
    assert first.startswith("lab/j  Pending")
    assert " ".join(line[column:].strip() for line in (first, *more)).strip() == message
