"""Signals to the processes of a container."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from volcanopy.local.process import program_run
from volcanopy.local.process.isolation import Command
from volcanopy.local.process.program_run import ProgramRun


async def test_a_process_that_has_just_ended_does_not_keep_a_signal_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = await asyncio.create_subprocess_exec("true")
    await ended.wait()
    run = await ProgramRun.start(Command(("sleep", "1000"), dict(os.environ), "/"), tmp_path / "log")
    running, run.first_pid = run.first_pid, ended.pid  # as the first process of a name space
    monkeypatch.setattr(program_run, "descendants", lambda _: iter([ended.pid, running]))
    run.signal(signal.SIGTERM)
    async with asyncio.timeout(60):
        assert (await run.wait()).code == 143
