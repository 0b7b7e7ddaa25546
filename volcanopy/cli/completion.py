"""Completion in shells: the scripts that ``volcanopy completion`` prints, and the answers to kubectl for its plugin.

A shell, or kubectl, calls the program itself with what has been typed so far; ``VARIABLE`` of the environment says so.
"""

import os
import sys

from typer.completion import get_completion_inspect_parameters, shell_complete

PROGRAM = "volcanopy"
_NO_FILES = ":4"
"""What kubectl understands as: nothing else is to be completed."""


def register_shells() -> None:
    """Let Typer know how each shell asks; it does so only on the way to options that we do not offer."""
    get_completion_inspect_parameters()


def script(shell: str) -> None:
    """Print the script for a shell, to be sourced."""
    from volcanopy.cli.main import VARIABLE, root

    register_shells()
    shell_complete(root(), {}, PROGRAM, VARIABLE, f"source_{shell}")


def kubectl() -> None:
    """Answer kubectl, which calls ``kubectl_complete-volcanopy`` with the words after its plugin's name."""
    from volcanopy.cli.main import VARIABLE, root

    words = [PROGRAM, *sys.argv[1:]]
    # The words stand in lines: that is how bash hands them over, and what is read here.
    os.environ.update({"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1), VARIABLE: "complete_bash"})
    try:
        root().main(prog_name=PROGRAM, complete_var=VARIABLE)
    except SystemExit:
        print(_NO_FILES)
