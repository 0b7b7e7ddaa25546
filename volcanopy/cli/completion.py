"""Shell completion: the scripts of ``volcanopy completion``, and completions for kubectl's plugin.

A shell, or kubectl, calls the program with the line typed so far; an environment variable marks the call.
"""

import os
import sys
from collections.abc import Callable

from typer.completion import get_completion_inspect_parameters, shell_complete
from typer.core import TyperGroup

PROGRAM = "volcanopy"
_NO_FILES = ":4"
"""Directive for kubectl not to complete file names."""


def register_shells() -> None:
    """Register the shells with Typer, which does so only for options that we do not offer."""
    get_completion_inspect_parameters()


def script(commands: TyperGroup, variable: str, shell: str) -> None:
    """Print the script for a shell."""
    register_shells()
    shell_complete(commands, {}, PROGRAM, variable, f"source_{shell}")


def kubectl(commands: Callable[[], TyperGroup], variable: str) -> None:
    """Print completions for kubectl, which calls ``kubectl_complete-volcanopy`` with the arguments of its plugin."""
    line = [PROGRAM, *sys.argv[1:]]
    # One argument a line, as bash passes them to the completion of Typer.
    os.environ.update({"COMP_WORDS": "\n".join(line), "COMP_CWORD": str(len(line) - 1), variable: "complete_bash"})
    try:
        commands().main(prog_name=PROGRAM, complete_var=variable)
    except (SystemExit, ModuleNotFoundError):  # the commands of a distribution that is not installed have none
        print(_NO_FILES)
