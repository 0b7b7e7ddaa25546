"""The fields of objects that CEL expressions use: an object is handed to CEL without the others, which may be very many.

A path such as `object.metadata.labels` is used as a whole where it is followed by anything but the name of a field, a request for
its size, or a macro such as `all` that gives its elements a name: of these the fields are used that are read of that name.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

Uses = dict[str, Any]
"""By name: the used fields of a variable or field, empty if it is used as a whole."""
ELEMENT: Final = "*"
"""The name that stands for each element of a list or map."""
NOTHING: Final[Uses] = {"": {}}
"""Of a value only is used that it exists: no field has an empty name."""
_TOKEN = re.compile(r"""[rR]?(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|[A-Za-z_]\w*|\d[\w.]*|\S""")
_NAME = re.compile(r"[A-Za-z_]\w*")
_MACROS = frozenset({"all", "exists", "exists_one", "map"})


def uses_of(expressions: Iterable[str], variables: Sequence[str]) -> Uses:
    """The fields of these variables that the expressions use."""
    uses: Uses = {}
    for expression in expressions:
        tokens = _TOKEN.findall(expression)
        paths = {name: [[name]] for name in variables}
        declared = set()
        for number, token in enumerate(tokens):
            if token not in paths or number in declared or tokens[number - 1 : number] == ["."]:
                continue
            names, end = _names(tokens, number + 1)
            element = _element(tokens, end)
            sized = tokens[end : end + 4] == [".", "size", "(", ")"] or (
                tokens[max(number - 2, 0) : number] == ["size", "("] and tokens[end : end + 1] == [")"]
            )
            for start in tuple(paths[token]):
                path = [*start, *names]
                _note(uses, [*path, ELEMENT, ""] if element or sized else path)
                if element:
                    # A name that is declared twice may be that of either.
                    paths.setdefault(element, []).append([*path, ELEMENT])
            if element:
                declared.add(end + 3)
    return uses


def _names(tokens: Sequence[str], start: int) -> tuple[list[str], int]:
    """The names of fields from a position on, and where they end; a name that is called is a function."""
    names, number = list[str](), start
    while tokens[number : number + 1] == ["."] and _NAME.fullmatch("".join(tokens[number + 1 : number + 2])):
        if tokens[number + 2 : number + 3] == ["("]:
            break
        names.append(tokens[number + 1])
        number += 2
    return names, number


def _element(tokens: Sequence[str], start: int) -> str:
    """The name that a macro which is called here gives to the elements; empty if none is, or if it gives them two names."""
    if len(tokens) < start + 7 or tokens[start] != "." or tokens[start + 1] not in _MACROS or tokens[start + 2] != "(":
        return ""
    name, comma, _, after = tokens[start + 3 : start + 7]
    return name if _NAME.fullmatch(name) and comma == "," and after != "," else ""


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
    element: Uses = uses.get(ELEMENT, {})
    if isinstance(value, list) and element:
        return [used_fields(item, element) for item in value]
    if not uses or not isinstance(value, dict):
        return value
    names = value if ELEMENT in uses else uses
    return {name: used_fields(value[name], uses.get(name, element)) for name in names if name in value}
