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
_LAUNCH = 'f=$(mktemp) && printf %s "$0" > "$f" && chmod 700 "$f" && exec "$f" "$@"'
"""Writes the script to a file, so that its first line names the program that runs it."""
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
    return result


def script(path: Path, arguments: list[str], before: str = "") -> list[str]:
    """Return the command that runs the text of a file; without a line ``#!`` it is a shell script. Raises CommandError.

    ``before`` are commands of the shell that run first, such as ``export``.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "not UTF-8 text"
        raise CommandError(f"--script: cannot read {path}: {reason}", 2) from None
    if len(text.encode()) > MAXIMUM_SCRIPT:
        raise CommandError(f"--script: {path} is longer than {MAXIMUM_SCRIPT // 1024} KiB: put it into the image", 2)
    text = text if text.startswith("#!") else f"#!/bin/sh\n{text}"
    return ["sh", "-c", literal(before + _LAUNCH), *map(literal, (text, *arguments))]


def literal(text: str) -> str:
    """Return a text in which Kubernetes replaces nothing: ``$(NAME)`` stays what it is."""
    return text.replace("$", "$$")


def run_here(container: Json, spec: Json) -> None:
    """Make the pod run in this directory with this environment, on a node that runs processes of this machine."""
    directory = os.getcwd()
    given = {variable["name"] for variable in container.get("env", ())}
    passed = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED | given}
    container["env"] = [
        *({"name": name, "value": literal(value)} for name, value in sorted(passed.items())),
        *container.get("env", ()),
    ]
    container["workingDir"] = directory
    container["volumeMounts"] = [{"name": "here", "mountPath": directory}]
    spec["volumes"] = [{"name": "here", "hostPath": {"path": directory, "type": "Directory"}}]
    spec["nodeSelector"] = {RUNTIME_LABEL: "process"}
