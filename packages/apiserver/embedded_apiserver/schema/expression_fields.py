"""The fields of objects that CEL expressions use: an object is handed to CEL without the others, which may be very many.

A path such as `object.metadata.labels` is used as a whole where it is followed by anything but the name of a field.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

Uses = dict[str, Any]
"""By name: the used fields of a variable or field, empty if it is used as a whole."""

_TOKEN = re.compile(r"""[rR]?(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|[A-Za-z_]\w*|\d[\w.]*|\S""")
_NAME = re.compile(r"[A-Za-z_]\w*")


def uses_of(expressions: Iterable[str], variables: Sequence[str]) -> Uses:
    """The fields of these variables that the expressions use."""
    uses: Uses = {}
    for expression in expressions:
        tokens = _TOKEN.findall(expression)
        for number, token in enumerate(tokens):
            if token in variables and (number == 0 or tokens[number - 1] != "."):
                _note(uses, _path(tokens, number))
    return uses


def _path(tokens: Sequence[str], start: int) -> list[str]:
    """The names from a variable on; a name that is called is a function."""
    path, number = [tokens[start]], start + 1
    while tokens[number : number + 1] == ["."] and _NAME.fullmatch("".join(tokens[number + 1 : number + 2])):
        if tokens[number + 2 : number + 3] == ["("]:
            break
        path.append(tokens[number + 1])
        number += 2
    return path


def _note(uses: Uses, path: Sequence[str]) -> None:
    for number, name in enumerate(path):
        if name in uses and not uses[name]:
            return  # used as a whole
        if number == len(path) - 1:
            uses[name] = {}
        else:
            uses = uses.setdefault(name, {})


def used_fields(value: Any, uses: Uses) -> Any:
    """A value without the fields that are not used."""
    if not uses or not isinstance(value, dict):
        return value
    return {name: used_fields(value[name], fields) for name, fields in uses.items() if name in value}
