"""Sentences about wrong usage of the command line: the option, the value and what is expected."""

import difflib
import re
import sys
from typing import Any

import typer
from typer.core import TyperCommand

from volcanopy.client.errors import CommandError

_NO_NUMBER = re.compile(r"'(?P<value>.*)' is not a valid (?P<type>int|float)", re.DOTALL)
_NOT_IN_RANGE = re.compile(r"(?P<value>\S+) is not in the range ")
_OPTIONAL = {"volcanopy_lab": ("simulator", "lab"), "volcanopy_local": ("embedded cluster", "local")}
"""By the import package of a distribution that an installation may lack: what it is, and the extra that installs it."""


def print_usage_error(fault: typer.TyperException) -> None:
    """Print what is wrong with the command line, with a pointer to the help."""
    if type(fault).__name__ == "NoArgsIsHelpError":
        print(fault.format_message())
        return
    context = getattr(fault, "ctx", None)
    help_command = f"{context.command_path} --help" if context is not None else "volcanopy --help"
    sentence = _sentence(fault)
    pointer = " See" if sentence.endswith("?") else "; see"
    print(f"volcanopy: {sentence}{pointer} `{help_command}`", file=sys.stderr)


def _sentence(fault: typer.TyperException) -> str:
    context, option = getattr(fault, "ctx", None), getattr(fault, "option_name", "")
    text = _folded(fault.format_message()).replace("...'", "'")  # an argument of several values
    if context is not None and option and text.startswith("No such option"):
        return f"No such option: {option}{_suggestion(option, context.command)}"
    if not text.startswith("Invalid value for") or (parameter := getattr(fault, "param", None)) is None:
        return text
    name = max(parameter.opts, key=len) if parameter.param_type_name == "option" else parameter.make_metavar(context)
    return f"{name}: {_invalid_value(fault.message, parameter.type)}"


def _invalid_value(message: str, expected: Any) -> str:
    """Return what is wrong with a value; ``expected`` is the type of the parameter."""
    if match := _NO_NUMBER.match(message):
        return f"{match['value']!r} is invalid: must be {'an integer' if match['type'] == 'int' else 'a number'}"
    if match := _NOT_IN_RANGE.match(message):
        below = expected.min is not None and float(match["value"]) < expected.min
        limit = f"at least {expected.min}" if below else f"at most {expected.max}"
        return f"{match['value']!r} is invalid: must be {limit}"
    return _folded(message)


def _folded(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def _suggestion(option: str, subcommand: TyperCommand) -> str:
    """Return the similar options of a command, as a clause."""
    options = [name for parameter in subcommand.params for name in parameter.opts if name.startswith("--")]
    similar = [name for name in options if name.startswith(option)] or difflib.get_close_matches(option, options, n=2)
    return f", did you mean {' or '.join(similar)}?" if similar else ""


def missing_part(fault: ModuleNotFoundError) -> CommandError | None:
    """Return the error for a command whose modules are not installed; None for another missing module."""
    content, extra = _OPTIONAL.get((fault.name or "").partition(".")[0], ("", ""))
    if not content:
        return None
    return CommandError(
        f"this installation has no {content}, which this command needs: install volcanopy[{extra}], the image has none"
    )
