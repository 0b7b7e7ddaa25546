"""The command lines of Slurm's ``sbatch``, ``squeue`` and ``scancel``, where volcanopy is called by these names.

Workflow systems call them, such as Nextflow with ``executor = 'slurm'``: make links of these names to volcanopy.
"""

import getopt
import shlex
from collections.abc import Callable, Sequence

from volcanopy.client.errors import CommandError


def _sbatch(arguments: Sequence[str]) -> list[str]:
    from volcanopy.client.jobs.sbatch import split

    options, script = split(arguments)
    return ["sbatch", *([f"--options={shlex.join(options)}"] if options else []), "--", *script]


def _squeue(arguments: Sequence[str]) -> list[str]:
    long = {"-h": "noheader", "-o": "format", "-t": "states", "-p": "partition", "-j": "jobs"}
    values, _ = _parsed(
        "squeue", arguments, "ho:t:u:p:j:", ["noheader", "me", "user=", *(f"{name}=" for name in long.values())]
    )
    others = {"-u", "--user", "--me"}  # the jobs of the namespace are listed
    options = [(long.get(option, option.removeprefix("--")), value) for option, value in values if option not in others]
    return ["squeue", *(f"--{name}={value}" if value else f"--{name}" for name, value in options)]


def _scancel(arguments: Sequence[str]) -> list[str]:
    _, numbers = _parsed("scancel", arguments, "Q", ["quiet"])
    return ["scancel", *numbers]


def _parsed(
    program: str, arguments: Sequence[str], short: str, long: list[str]
) -> tuple[list[tuple[str, str]], list[str]]:
    try:
        return getopt.gnu_getopt(list(arguments), short, long)
    except getopt.GetoptError as error:
        raise CommandError(f"{program}: {error}", 2) from None


PROGRAMS: dict[str, Callable[[Sequence[str]], list[str]]] = {"sbatch": _sbatch, "squeue": _squeue, "scancel": _scancel}
"""The arguments of volcanopy for those of a program of Slurm."""
