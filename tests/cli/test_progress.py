"""Progress on terminals: jobs as rows of the table of `local run`, and a line for each wait."""

import io
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from tests.cli.run_commands import COMMAND, read_until, terminal
from volcanopy import AdmissionWarning, Job
from volcanopy.api.batch_read import BatchJob
from volcanopy.client.progress import progress
from volcanopy_local.cli.progress import seconds, table

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
    reason = "no status yet from the job controller"
    assert table([pending]).cells([pending], NOW) == [["j", "Pending", "0", "3", "3", "q", "60s", reason]]


def test_a_running_job_grows_older_and_an_ended_one_does_not() -> None:
    ended = {"lastTransitionTime": "2030-01-01T00:00:30Z"}
    assert seconds(job(phase="Running", **ended), NOW) == 60.0
    assert seconds(job(phase="Failed", **ended), NOW) == 30.0


def test_a_table_has_reasons_and_namespaces_where_they_say_something() -> None:
    running, pending = job(phase="Running", message="2/3 pods running"), job(phase="Pending", message="no node")
    other = msgspec.structs.replace(running, metadata=msgspec.structs.replace(running.metadata, namespace="other"))
    assert table([running]).plain([running], NOW).splitlines() == [
        "JOB   PHASE     READY   MIN   TOTAL   QUEUE   TIME",
        "j     Running   3       3     3       q       60s",
    ]
    assert table([running, other]).plain([running, other], NOW).splitlines() == [
        "NAMESPACE   JOB   PHASE     READY   MIN   TOTAL   QUEUE   TIME",
        "lab         j     Running   3       3     3       q       60s",
        "other       j     Running   3       3     3       q       60s",
    ]
    assert table([pending]).plain([pending], NOW).splitlines()[1].endswith("60s    no node")
    assert "no node" not in table([pending], {"lab/j"}).plain([pending], NOW)


def test_a_table_on_a_terminal_wraps_only_the_sentence() -> None:
    """Square brackets in a message are no markup."""
    message = "a long sentence [bold] that goes on and on until it does not fit into one line"
    pending = job(phase="Pending", message=message)
    terminal = Console(width=100, force_terminal=True, color_system=None)
    with terminal.capture() as captured:
        terminal.print(table([pending]).rich([pending], NOW))
    heading, first, *more = captured.get().splitlines()
    column = heading.index("REASON")
    assert first.startswith("j     Pending")
    assert " ".join(line[column:].strip() for line in (first, *more)).strip() == message


class Terminal(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_long_work_has_a_line_each_on_a_terminal_and_none_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress("reading [1]"), progress(lambda: "job a: waits", lambda: 0.25):
            pass
        assert ("reading [1]" in stream.getvalue()) is shown
        assert ("job a: waits" in stream.getvalue()) is shown
        assert bool(stream.getvalue()) is shown


def test_a_wait_shows_its_job_on_a_terminal(processes: Path) -> None:
    with pytest.warns(AdmissionWarning, match="no node is large enough"):
        job = Job(["true"], here=True, cpu=4000, kubeconfig=processes).submit()
    words = [*COMMAND, "job", "wait", job.name]
    with terminal(words, {"KUBECONFIG": str(processes)}, 160) as (process, end):
        read_until(end, process, f'job "{job.name}": Pending: ')
        job.cancel()
        assert f'job "{job.name}" cannot become Completed: it is Terminated' in read_until(end, process)


@pytest.mark.slow("starts two processes that simulate")
def test_an_interrupted_simulation_ends_without_a_traceback() -> None:
    words = [*COMMAND, "simulate", "ml:jobs=400,days=2", "--processes", "2", "--seeds", "2"]
    with terminal(words, {}, 80) as (process, end):
        read_until(end, process, "0:00:01")  # while the workers start
        os.killpg(process.pid, signal.SIGINT)
        assert "Traceback" not in read_until(end, process)
        assert process.wait(60) == 130
