"""Shell completion: the scripts of ``volcanopy completion``, and completions for kubectl's plugin.

A shell, or kubectl, calls the program with the line typed so far; the environment variable ``VARIABLE`` marks the call.
"""

import os
import sys

from typer.completion import get_completion_inspect_parameters, shell_complete

PROGRAM = "volcanopy"
_NO_FILES = ":4"
"""Directive for kubectl not to complete file names."""


def register_shells() -> None:
    """Register the shells with Typer, which does so only for options that we do not offer."""
    get_completion_inspect_parameters()


def script(shell: str) -> None:
    """Print the script for a shell."""
    from volcanopy.cli.main import VARIABLE, root

    register_shells()
    shell_complete(root(), {}, PROGRAM, VARIABLE, f"source_{shell}")


def kubectl() -> None:
    """Print completions for kubectl, which calls ``kubectl_complete-volcanopy`` with the arguments of its plugin."""
    from volcanopy.cli.main import VARIABLE, root

    line = [PROGRAM, *sys.argv[1:]]
    # One argument a line, as bash passes them to the completion of Typer.
    os.environ.update({"COMP_WORDS": "\n".join(line), "COMP_CWORD": str(len(line) - 1), VARIABLE: "complete_bash"})
    try:
        root().main(prog_name=PROGRAM, complete_var=VARIABLE)
    except SystemExit:
        print(_NO_FILES)
