"""Programs and their pipes, on both kinds of event loops."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from volcanopy_local.process import spawning
from volcanopy_local.process.spawning import PIPE, Streams, file_of_transport

RUNNERS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
Run = Callable[[Coroutine[Any, Any, None]], None]


@RUNNERS
def test_a_program_reads_its_input_to_the_end_and_its_output_is_read(run: Run) -> None:
    async def echo() -> None:
        program = await spawning.start(["cat"], Streams(PIPE, PIPE), dict(os.environ), "/")
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(b"some text")
        program.stdin.close()
        assert await program.stdout.read() == b"some text"
        assert await program.wait() == 0

    run(echo())


@RUNNERS
@pytest.mark.skipif(sys.platform != "linux", reason="/proc lists the descriptors of a process")
def test_a_program_that_has_ended_leaves_no_descriptor_open(run: Run) -> None:
    async def repeat() -> None:
        async def once() -> None:
            program = await spawning.start(["cat"], Streams(PIPE, PIPE, PIPE), dict(os.environ), "/")
            assert program.stdin is not None
            assert program.stdout is not None
            assert program.stderr is not None
            program.stdin.close()
            await program.stdin.wait_closed()
            await asyncio.gather(program.stdout.read(), program.stderr.read(), program.wait())

        await once()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            await once()
        await asyncio.sleep(0)  # transports close what they read to the end in the next step
        assert len(os.listdir("/proc/self/fd")) == before

    run(repeat())


def test_the_file_of_a_transport_of_uvloop_does_not_close_a_descriptor_that_may_be_of_another() -> None:
    async def close_late() -> None:
        reading, writing = os.pipe()
        file = file_of_transport(os.fdopen(reading, "rb", buffering=0), "rb")
        descriptor = file.fileno()
        os.close(descriptor)  # as uvloop does
        other = os.open(os.devnull, os.O_RDONLY)
        taken = os.dup2(other, descriptor)  # another thread opens a file with the same number
        file.close()
        os.fstat(taken)
        for each in {other, taken, writing}:
            os.close(each)

    uvloop.run(close_late())
