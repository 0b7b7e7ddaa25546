"""Signals to the processes of a container."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.local.process.conftest import plain_command
from volcanopy.local.process import program_run
from volcanopy.local.process.measurements import descendants
from volcanopy.local.process.program_run import ProgramRun


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
