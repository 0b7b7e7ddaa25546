"""Signals to the processes of a container."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.local.process.conftest import plain_command
from volcanopy_local.process import program_run
from volcanopy_local.process.measurements import descendants
from volcanopy_local.process.program_run import ProgramRun


async def test_a_process_that_has_just_ended_does_not_keep_a_signal_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = await asyncio.create_subprocess_exec("true")
    await ended.wait()
    run = await ProgramRun.start(plain_command(tmp_path, "sleep", "1000"), tmp_path / "log")
    (running,) = descendants(run.first_pid)
    monkeypatch.setattr(program_run, "descendants", lambda _: iter([ended.pid, running]))
    run.signal(signal.SIGTERM)
    async with asyncio.timeout(60):
        assert (await run.wait()).code == 143


_CHILD = "trap 'echo saved; exit' USR1; echo ready; while :; do sleep 0.01; done"


@pytest.mark.parametrize(
    ("trap", "lines"), [("trap 'kill -USR1 $!; wait; exit 3' TERM; ", ["ready", "saved"]), ("", ["ready"])]
)
async def test_a_program_with_a_handler_alone_gets_the_signal(tmp_path: Path, trap: str, lines: list[str]) -> None:
    """As in a container of Kubernetes: the script of a batch job gets the signal that its shell sends it."""
    command = plain_command(tmp_path, "sh", "-c", f'{trap}sh -c "{_CHILD}" & wait')
    run = await ProgramRun.start(command, tmp_path / "log")
    async with asyncio.timeout(60):
        while not run.log.exists() or not run.log.read_bytes():
            await run.next_output().wait()
        run.signal(signal.SIGTERM)
        assert (await run.wait()).code == (3 if trap else 143)
    assert [line.split()[-1] for line in run.log.read_text().splitlines()] == lines
