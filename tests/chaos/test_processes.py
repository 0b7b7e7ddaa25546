"""Processes under test are started again, stand still, and stay away as long as a fault lasts."""

import asyncio
import resource
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from signal import SIGKILL

import pytest

from chaos import processes, wrong_clock
from chaos.processes import CAN_LIMIT, RestartedProcess
from chaos.stage import kept
from chaos.wrong_clock import WrongClock
from volcanopy.kube import machine

PROGRAM = """
import itertools, pathlib, sys, time
for count in itertools.count():
    pathlib.Path(sys.argv[1]).write_text(str(count))
    time.sleep(0.01)
"""


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    return tmp_path / "count"


@pytest.fixture
async def process(tmp_path: Path, counted: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RestartedProcess]:
    (tmp_path / "counting.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    process = RestartedProcess("counting", ("counting", str(counted)), tmp_path / "log")
    async with kept(process):
        await until(lambda: count(counted) > 0)
        yield process
    assert process.pid is None


def count(counted: Path) -> int:
    return int(counted.read_text() or 0) if counted.exists() else 0


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)


async def test_a_killed_process_starts_again(process: RestartedProcess) -> None:
    pid = process.pid
    process.send(SIGKILL)
    await until(lambda: process.starts == 2 and process.pid not in {pid, None})


async def test_a_paused_process_stands_still(process: RestartedProcess, counted: Path) -> None:
    with process.paused():
        await asyncio.sleep(0.05)
        before = count(counted)
        await asyncio.sleep(0.1)
        assert count(counted) == before
    await until(lambda: count(counted) > before + 1)


async def test_a_process_that_is_down_does_not_start_again(process: RestartedProcess) -> None:
    with process.down():
        await asyncio.sleep(0.6)
        assert (process.pid, process.starts) == (None, 1)
    await until(lambda: process.starts == 2)


CLOCK = """
import pathlib, sys, threading, time
from volcanopy.kube import machine

def tell():
    pathlib.Path(sys.argv[1]).write_text(str(round(machine.epoch() - time.time())))

threading.Thread(target=tell).start()
time.sleep(60)
"""


async def test_the_clock_of_a_process_is_wrong_as_long_as_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "telling.py").write_text(CLOCK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    told = tmp_path / "told"
    telling = RestartedProcess("telling", ("telling", str(told)), tmp_path / "log")
    async with kept(telling):
        await until(lambda: told.exists() and told.read_text() == "0")
        with telling.wrapped(Path(wrong_clock.__file__), "-3600", "0"):
            await until(lambda: told.read_text() == "-3600")
        await until(lambda: told.read_text() == "0")


async def test_a_process_runs_with_another_python(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\nexec sleep 60\n')
    other.chmod(0o755)
    process = RestartedProcess("other", ("volcanopy", "scheduler"), tmp_path / "log", python=other)
    async with kept(process):
        await until(lambda: (tmp_path / "arguments").exists() and "scheduler" in (tmp_path / "arguments").read_text())
    assert (tmp_path / "arguments").read_text().split() == ["-P", "-m", "volcanopy", "scheduler"]


@pytest.mark.skipif(not CAN_LIMIT, reason="limits of running processes need Linux")
async def test_a_limit_lasts_as_long_as_its_block(process: RestartedProcess) -> None:
    assert process.pid is not None
    before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    with process.limited(resource.RLIMIT_FSIZE, 4096):
        assert resource.prlimit(process.pid, resource.RLIMIT_FSIZE) == (4096, before[1])
    assert resource.prlimit(process.pid, resource.RLIMIT_FSIZE) == before
    assert process.address_space() > 2**20


async def test_a_process_whose_probes_fail_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PROBE_PERIOD", 0.05)
    monkeypatch.setattr(processes, "START_SECONDS", 0.1)
    (tmp_path / "silent.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    silent = RestartedProcess("silent", ("silent",), tmp_path / "log", port=9)
    async with kept(silent):
        await until(lambda: silent.starts == 2)
    assert silent.probe_kills >= 1


def test_a_wrong_clock_steps_after_its_time() -> None:
    right, late = machine.Machine(), WrongClock(3600, after=1000)
    assert abs(late.epoch() - right.epoch()) < 1000
    assert WrongClock(3600, after=0).epoch() - right.epoch() > 1000
