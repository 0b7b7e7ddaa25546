"""What the pods of ``job run`` execute: a command, a script, one index of an array; and where."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from volcanopy.api.names import RUNTIME_LABEL
from volcanopy.client.errors import CommandError
from volcanopy.kube.client.kinds import Json

MAXIMUM_SCRIPT = 96 * 1024
"""Bytes of a script: Linux limits the length of one argument of a program."""
MOST_INDEXES = 1_000_000
"""Indexes of an array: the replicas that a task may have."""
_LAUNCH = 'f=$(mktemp) && printf %s "$1" > "$f" && chmod 700 "$f" && shift && '
"""Writes the script to a file, so that its first line names the program that runs it. It is the name of the shell in errors."""
_RUN = '"$f" "$@"'
_WITH_SIGNAL = """trap '{signal}' TERM && {{ {command} & }}
wait $!
while kill -0 $! 2>/dev/null; do wait $!; done
wait $!"""
"""The trap comes first: the command may be ready, and its pod be stopped, before the shell is at its next line.

A signal ends a wait with a status of its own, and the command may end until the next line: only the last wait has its status.
"""
_ARRAY = re.compile(r"(\d+)-(\d+)(?:%(\d+))?")
_NOT_PASSED = frozenset({"_", "PWD", "OLDPWD", "SHLVL", "KUBECONFIG"})


@dataclass(frozen=True)
class Array:
    """Indexes of a job array, and how many of its pods may exist at a time."""

    first: int
    last: int
    parallelism: int | None = None

    @property
    def count(self) -> int:
        """Number of indexes."""
        return self.last - self.first + 1


def array(text: str) -> Array:
    """Return the array of ``1-100%10``: the indexes 1 to 100, ten at a time. Raises CommandError."""
    match = _ARRAY.fullmatch(text)
    if match is None:
        raise CommandError(f"--array: {text!r} is invalid: use FIRST-LAST or FIRST-LAST%PARALLELISM, as 1-100%10", 2)
    result = Array(int(match[1]), int(match[2]), int(match[3]) if match[3] else None)
    if result.count < 1 or result.parallelism == 0:
        raise CommandError(f"--array: {text!r} is empty: LAST must be at least FIRST, and PARALLELISM at least 1", 2)
    if result.count > MOST_INDEXES:
        raise CommandError(f"--array: {text!r} has {result.count} indexes: use at most {MOST_INDEXES}", 2)
    return result


def script(text: str, arguments: list[str], before: str = "", signal: str = "") -> list[str]:
    """Return the command that runs a script; without a line ``#!`` it is one of the shell. Raises CommandError.

    ``before`` are commands of the shell that run first, such as ``export``; ``signal`` is one for SIGTERM, as in ``with_signal``.
    """
    if len(text.encode()) > MAXIMUM_SCRIPT:
        raise CommandError(f"--script: longer than {MAXIMUM_SCRIPT // 1024} KiB: put it into the image", 2)
    text = text if text.startswith("#!") else f"#!/bin/sh\n{text}"
    launch = with_signal(_RUN, signal) if signal else f"exec {_RUN}"
    first_line = text.partition("\n")[0]
    return ["sh", "-c", *map(literal, (before + _LAUNCH + launch, first_line, text, *arguments))]


def with_signal(command: str, signal: str) -> str:
    """Return commands of the shell that run one, and another for SIGTERM, in which ``$!`` is the process of the first."""
    return _WITH_SIGNAL.format(command=command, signal=signal)


def literal(text: str) -> str:
    """Return a text in which Kubernetes replaces nothing: ``$(NAME)`` stays what it is."""
    return text.replace("$", "$$")


def run_here(container: Json, spec: Json, directory: str) -> None:
    """Make the pod run in a directory of this machine with this environment, on a node that runs processes."""
    directory = str(Path(directory).absolute())
    variables = {variable["name"] for variable in container.get("env", ())}
    passed = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED | variables}
    container["env"] = [
        *({"name": name, "value": literal(value)} for name, value in sorted(passed.items())),
        *container.get("env", ()),
    ]
    container["workingDir"] = directory
    container["volumeMounts"] = [{"name": "here", "mountPath": directory}]
    spec["volumes"] = [{"name": "here", "hostPath": {"path": directory, "type": "Directory"}}]
    spec["nodeSelector"] = {RUNTIME_LABEL: "process"}
