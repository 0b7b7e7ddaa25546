"""Commands of other programs, with their output in the error if they fail."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from hack import gobuild

LONGEST_OUTPUT = 2000
log = gobuild.logger("realnode")


class CommandError(Exception):
    """A program failed; the message has its command and output."""


def run(*argv: str | Path, cwd: Path | None = None) -> str:
    """Run a program and return its output. Raises CommandError."""
    command = [str(word) for word in argv]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        output = (done.stdout + done.stderr)[-LONGEST_OUTPUT:].strip()
        raise CommandError(f"{' '.join(command)} failed with {done.returncode}:\n{output}")
    return done.stdout


def ip(commands: Sequence[str]) -> None:
    """Run commands of `ip`."""
    for command in commands:
        run("ip", *command.split())
