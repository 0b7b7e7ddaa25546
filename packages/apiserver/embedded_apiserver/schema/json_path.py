"""The JSONPath of printer columns, scale and field selectors, compiled to functions.

Understood are member names (escaped dots, quoted in brackets), indexes, slices, `*`, `..name`, unions of names or
indexes, and filters such as `[?(@.type=="Ready")]`.
"""

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

Json = Any
Step = Callable[[Iterable[Json]], Iterator[Json]]


class JsonPathError(ValueError):
    """A path that cannot be parsed; the text names the part."""


_PART: Final = re.compile(
    r"""(?P<deep>\.\.(?P<below>[^.\[\s]+))|\.(?P<name>(?:\\.|[^.\[\\])+)|\[\?\((?P<filter>.*?)\)\]|\[(?P<inside>[^\]]*)\]|(?P<bare>^[^.\[@$]+)""",
    re.VERBOSE,
)
_FILTER: Final = re.compile(r"\s*(?P<left>.+?)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<right>.+?)\s*)?\Z", re.DOTALL)
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def compile_path(path: str) -> Callable[[Json], list[Json]]:
    """The function that finds every value at a path, in order; values that are missing are not found."""
    text = path.strip().removeprefix("{").removesuffix("}").strip().removeprefix("$")
    steps: list[Step] = []
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            raise JsonPathError(f"JSON path {path!r} is not understood from {text[position:]!r} on")
        steps.append(_step(match, path))
        position = match.end()

    def find(value: Json) -> list[Json]:
        values: Iterable[Json] = (value,)
        for step in steps:
            values = step(values)
        return list(values)

    return find


def _step(match: re.Match[str], path: str) -> Step:
    if match["deep"]:
        return _deep(match["below"])
    if match["filter"] is not None:
        return _filter(match["filter"], path)
    name = match["name"] or match["bare"]
    if name is not None:
        plain = re.sub(r"\\(.)", r"\1", name)
        return _every if plain == "*" else _members([plain])
    inside = match["inside"].strip()
    if inside == "*":
        return _every
    parts = [part.strip() for part in inside.split(",")]
    if all(re.fullmatch(r"-?\d+", part) for part in parts):
        return _indexes([int(part) for part in parts])
    if re.fullmatch(r"-?\d*:-?\d*(:-?\d*)?", inside):
        bounds = [int(part) if part else None for part in inside.split(":")]
        return lambda values: (item for value in values if isinstance(value, list) for item in value[slice(*bounds)])
    if all(re.fullmatch(r"'.*'|\".*\"", part) for part in parts):
        return _members([part[1:-1] for part in parts])
    raise JsonPathError(f"JSON path {path!r}: [{inside}] is neither an index, a name in quotes, nor a filter")


def _every(values: Iterable[Json]) -> Iterator[Json]:
    for value in values:
        yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _members(names: list[str]) -> Step:
    return lambda values: (
        value[name] for value in values if isinstance(value, dict) for name in names if name in value
    )


def _indexes(numbers: list[int]) -> Step:
    return lambda values: (
        value[number]
        for value in values
        if isinstance(value, list)
        for number in numbers
        if -len(value) <= number < len(value)
    )


def _deep(name: str) -> Step:
    def walk(value: Json) -> Iterator[Json]:
        if isinstance(value, dict):
            if name in value:
                yield value[name]
            children: Iterable[Json] = value.values()
        else:
            children = value if isinstance(value, list) else ()
        for child in children:
            yield from walk(child)

    return lambda values: (result for value in values for result in walk(value))


def _filter(text: str, path: str) -> Step:
    match = _FILTER.match(text)
    if match is None or not match["left"].startswith("@"):
        raise JsonPathError(f"JSON path {path!r}: the filter {text!r} must compare a path that starts with @")
    left = compile_path(match["left"][1:])
    if match["operator"] is None:
        return lambda values: (item for value in values if isinstance(value, list) for item in value if left(item))
    compare, right = _COMPARE[match["operator"]], _operand(match["right"], path)

    def passes(item: Json) -> bool:
        a, b = left(item), right(item)
        try:
            return bool(a and b) and compare(a[0], b[0])
        except TypeError:
            return False  # values of different types are not ordered

    return lambda values: (item for value in values if isinstance(value, list) for item in value if passes(item))


def _operand(text: str, path: str) -> Callable[[Json], list[Json]]:
    if text.startswith("@"):
        return compile_path(text[1:])
    if re.fullmatch(r"'[^']*'|\"[^\"]*\"", text):
        literal: Json = text[1:-1]
    else:
        try:
            literal = json.loads(text)
        except ValueError:
            raise JsonPathError(f"JSON path {path!r}: {text!r} is neither a text in quotes nor a number") from None
    return lambda _: [literal]
