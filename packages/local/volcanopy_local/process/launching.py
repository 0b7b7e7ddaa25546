"""Starts what an isolation gives as a command, and learns whether the program has started."""

import json
import os
import subprocess
from typing import Any

from volcanopy_local.process import spawning
from volcanopy_local.process.isolation import INFO, INPUT, Command
from volcanopy_local.process.terminal import Terminal

TRIAL = 20.0
"""Seconds in which a trial must end, also on a busy machine."""


class StartError(Exception):
    """The program of a container does not exist or cannot be executed; `code` is the exit code that a kubelet shows."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


async def launch(
    command: Command, streams: spawning.Streams, terminal: Terminal | None = None
) -> tuple[spawning.Program, int]:
    """Start a command; it and the pid of the container's first process. Raises StartError."""
    (reading, writing), data = os.pipe(), _file(command.input)
    passed = (data, writing, *command.descriptors)
    try:
        program = await spawning.start(
            _with_descriptors(command, data, writing),
            streams,
            {},
            "/",
            pass_fds=passed,
            before=terminal.control if terminal is not None and command.takes_terminal else None,
        )
    except OSError as error:
        os.close(reading)
        raise StartError(f'exec: "{command.argv[0]}": {error.strerror}', 126) from None
    finally:
        for descriptor in passed:
            os.close(descriptor)
        if terminal is not None:
            terminal.started()
    reader = await spawning.reader_of(open(reading, "rb", buffering=0))  # noqa: ASYNC230, SIM115  its transport closes it
    report = _report(await reader.read())
    if "error" in report:
        await program.wait()
        raise StartError(report["error"], report["code"])
    return program, report.get("child-pid") or program.pid


def trial(command: Command) -> str:
    """Run a command to its end; why it failed, empty if it did not."""
    (reading, writing), data = os.pipe(), _file(command.input)
    passed = (data, writing, *command.descriptors)
    try:
        result = subprocess.run(
            _with_descriptors(command, data, writing),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TRIAL,
            env={},
            pass_fds=passed,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        os.close(reading)
        return str(error)
    finally:
        for descriptor in passed:
            os.close(descriptor)
    with open(reading, "rb") as file:
        report = _report(file.read())
    if result.returncode == 0:
        return ""
    lines = result.stderr.strip().splitlines()
    return str(report.get("error") or (lines[-1] if lines else f"exit status {result.returncode}"))


def _with_descriptors(command: Command, data: int, writing: int) -> list[str]:
    numbers = {INPUT: str(data), INFO: str(writing)}
    return [numbers.get(argument, argument) for argument in command.argv]


def _file(content: bytes) -> int:
    """The descriptor of a file in memory."""
    descriptor = os.memfd_create("launch")
    with open(os.dup(descriptor), "wb") as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _report(text: bytes) -> dict[str, Any]:
    """The JSON objects that a program has reported, as one; empty if it ended before."""
    report: dict[str, Any] = {}
    decoder, rest = json.JSONDecoder(), text.decode().strip()
    while rest:
        try:
            item, end = decoder.raw_decode(rest)
        except ValueError:
            break
        report |= item
        rest = rest[end:].strip()
    return report
