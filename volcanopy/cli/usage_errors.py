"""Sentences about wrong usage of the command line: the option, the value and what is expected."""

import difflib
import sys

import typer
from pydantic import ValidationError
from typer.core import TyperCommand

_EXPECTED = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "int_parsing": "must be an integer",
    "int_from_float": "must be an integer",
    "float_parsing": "must be a number",
}
"""What is expected, by the type of the error."""


def print_usage_error(fault: typer.TyperException) -> None:
    """Print what is wrong with the command line, with a pointer to the help."""
    if type(fault).__name__ == "NoArgsIsHelpError":
        print(fault.format_message())
        return
    context = getattr(fault, "ctx", None)
    help_command = f"{context.command_path} --help" if context is not None else "volcanopy --help"
    print(f"volcanopy: {_sentence(fault)}; see `{help_command}`", file=sys.stderr)


def _sentence(fault: typer.TyperException) -> str:
    context, option = getattr(fault, "ctx", None), getattr(fault, "option_name", "")
    text = _folded(fault.format_message())
    if context is not None and option and text.startswith("No such option"):
        return f"No such option: {option}{_suggestion(option, context.command)}"
    if not text.startswith("Invalid value for") or (parameter := getattr(fault, "param", None)) is None:
        return text
    name = max(parameter.opts, key=len) if parameter.param_type_name == "option" else parameter.make_metavar(context)
    return f"{name}: {_invalid_value(fault)}"


def _invalid_value(fault: typer.TyperException) -> str:
    """Return what is wrong with a value."""
    if not isinstance(fault.__cause__, ValidationError):
        return _folded(fault.message)
    first = fault.__cause__.errors()[0]
    expected = _EXPECTED.get(first["type"])
    if expected is None:
        return _folded(str(first["msg"]))
    return f"{first['input']!r} is invalid: {expected.format(**first.get('ctx', {}))}"


def _folded(text: str) -> str:
    return " ".join(text.split()).rstrip(".").replace("Value error, ", "")


def _suggestion(option: str, subcommand: TyperCommand) -> str:
    """Return the similar options of a command, as a clause."""
    options = [name for parameter in subcommand.params for name in parameter.opts if name.startswith("--")]
    similar = [name for name in options if name.startswith(option)] or difflib.get_close_matches(option, options, n=2)
    return f", did you mean {' or '.join(similar)}?" if similar else ""
