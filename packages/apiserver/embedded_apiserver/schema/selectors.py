"""Label and field selectors of the embedded API server: text or object in, a matching function out.

Watches and lists ask a selector about every object that passes, so a selector is parsed once into plain tuples. The
messages of an invalid selector are those of a real API server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from embedded_apiserver.schema.metadata_validation import label_value_faults, qualified_faults


class SelectorError(ValueError):
    """A selector that cannot be understood; the text is the message for the user."""


class Requirement(NamedTuple):
    """One demand on one label; `operator` is in, notin, exists, !, gt or lt."""

    key: str
    operator: str
    values: tuple[str, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet the demand; an absent label meets `notin` and `!`."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values if value is not None else False
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        if value is None or not _INTEGER.fullmatch(value):
            return False
        bound = int(self.values[0])
        return int(value) > bound if self.operator == "gt" else int(value) < bound


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A conjunction of label requirements; empty means everything, `nothing` means no object at all."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """Read `a=b,c!=d,e in (f,g),!h`; raises SelectorError."""
        return cls(_LabelParser(text).requirements()) if text else EVERYTHING

    @property
    def empty(self) -> bool:
        """Whether every object matches."""
        return not self.requirements and not self.nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        if self.nothing:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)

    def required_texts(self) -> list[tuple[bytes, ...]]:
        """Return texts of which the encoded form of each selected object has one, for each requirement of a label."""
        return [
            tuple(f'"{requirement.key}":"{value}"'.encode() for value in requirement.values)
            for requirement in self.requirements
            if requirement.operator == "in" and not any(set(value) & {'"', "\\"} for value in requirement.values)
        ]


EVERYTHING = LabelSelector()

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_TOKEN = re.compile(r"\s*(?:(==|!=|[=!(),<>])|([^\s=!(),<>]+))")
_BINARY = "in, notin, =, ==, !=, gt, lt"
_OPERATORS = {"=": "in", "==": "in", "in": "in", "!=": "notin", "notin": "notin", ">": "gt", "<": "lt"}


def _requirement(key: str, operator: str, values: tuple[str, ...], path: str = "") -> Requirement:
    """A checked requirement; `path` is where an object names it, for the message."""
    if faults := qualified_faults(key):
        raise SelectorError(f'{path or "<nil>"}: Invalid value: "{key}": {"; ".join(faults)}')
    for index, value in enumerate(values):
        if faults := label_value_faults(value):
            raise SelectorError(f'{path}values[{index}][{key}]: Invalid value: "{value}": {"; ".join(faults)}')
    if operator in ("gt", "lt") and not _INTEGER.fullmatch(values[0]):
        raise SelectorError(
            f"{path}values[0]: Invalid value: \"{values[0]}\": for 'Gt', 'Lt' operators, the value must be an integer"
        )
    return Requirement(key, operator, values)


class _LabelParser:
    """Recursive descent over the tokens of one selector text."""

    def __init__(self, text: str) -> None:
        tokens = [(match.group(1) or match.group(2), match.group(2) is not None) for match in _TOKEN.finditer(text)]
        self._tokens: list[tuple[str, bool]] = [*tokens, ("", False)]
        self._next = 0

    def _peek(self) -> tuple[str, bool]:
        return self._tokens[self._next]

    def _take(self) -> tuple[str, bool]:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def requirements(self) -> tuple[Requirement, ...]:
        """All requirements, ordered by key as the real server orders them."""
        requirements: list[Requirement] = []
        while self._peek()[0]:
            literal, word = self._peek()
            if not word and literal != "!":
                raise SelectorError(f"found '{literal}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._requirement())
            except SelectorError as fault:
                raise SelectorError(f"unable to parse requirement: {fault}") from None
            literal, word = self._take()
            if not literal:
                break
            if literal != "," or word:
                raise SelectorError(f"found '{literal}', expected: ',' or 'end of string'")
            literal, word = self._peek()
            if not word and literal != "!":
                raise SelectorError(f"found '{literal}', expected: identifier after ','")
        return tuple(sorted(requirements, key=lambda requirement: requirement.key))

    def _requirement(self) -> Requirement:
        key, word = self._take()
        absent = key == "!" and not word
        if absent:
            key, word = self._take()
        if not word:
            raise SelectorError(f"found '{key}', expected: identifier")
        if faults := qualified_faults(key):
            raise SelectorError(f'<nil>: Invalid value: "{key}": {"; ".join(faults)}')
        if absent:
            return Requirement(key, "!", ())
        if self._peek()[0] in ("", ","):
            return Requirement(key, "exists", ())
        literal, word = self._take()
        if literal not in _OPERATORS:
            raise SelectorError(f"found '{literal}', expected: {_BINARY}")
        values = self._set() if word else self._exact()
        return _requirement(key, _OPERATORS[literal], values)

    def _exact(self) -> tuple[str, ...]:
        literal, word = self._peek()
        if not word and literal in ("", ","):
            return ("",)
        self._take()
        if not word:
            raise SelectorError(f"found '{literal}', expected: identifier")
        return (literal,)

    def _set(self) -> tuple[str, ...]:
        literal, _ = self._take()
        if literal != "(":
            raise SelectorError(f"found '{literal}' expected: '('")
        values: set[str] = set()
        current = ""
        while True:
            literal, word = self._take()
            if word and not current:
                current = literal
            elif literal == "," and not word:
                values.add(current)
                current = ""
            elif literal == ")":
                values.add(current)
                return tuple(sorted(values))
            else:
                expected = "',' or ')'" if current else "',', or identifier"
                raise SelectorError(f"found '{literal}', expected: {expected}")


_OBJECT_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def label_selector_from_object(selector: Mapping[str, Any] | None) -> LabelSelector:
    """The selector of a `{matchLabels, matchExpressions}` object; None selects nothing, {} everything."""
    if selector is None:
        return LabelSelector(nothing=True)
    requirements = [
        _requirement(key, "in", (str(value),)) for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for expression in selector.get("matchExpressions") or ():
        operator = expression.get("operator", "")
        if operator not in _OBJECT_OPERATORS:
            raise SelectorError(f'"{operator}" is not a valid label selector operator')
        values = tuple(sorted(set(expression.get("values") or ())))
        if operator in ("In", "NotIn") and not values:
            raise SelectorError("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")
        if operator in ("Exists", "DoesNotExist") and values:
            raise SelectorError(
                f"values: Invalid value: {list(values)}: values set must be empty for exists and does not exist"
            )
        requirements.append(_requirement(expression.get("key", ""), _OBJECT_OPERATORS[operator], values))
    return LabelSelector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A conjunction of field terms `(path, operator, value)`; the operator is `=` or `!=`."""

    terms: tuple[tuple[str, str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> FieldSelector:
        r"""Read `spec.nodeName=n1,status.phase!=Failed`; in values `,`, `=` and `\` are escaped by `\`."""
        terms = []
        for part in sorted(re.findall(r"(?:\\.|[^,\\])+|\\$", text, re.DOTALL)):
            match = re.search(r"!=|==|=", part)
            if match is None:
                raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
            operator = "!=" if match.group() == "!=" else "="
            terms.append((part[: match.start()], operator, _unescape(part[match.end() :])))
        return cls(tuple(terms))

    def matches(self, get: Callable[[str], str]) -> bool:
        """Whether the object whose fields `get` reads (empty text where unset) is selected."""
        return all((get(path) == value) == (operator == "=") for path, operator, value in self.terms)


def _unescape(value: str) -> str:
    """A field value with its escapes resolved."""
    out = []
    characters = iter(value)
    for character in characters:
        if character in ",=":
            raise SelectorError(f'invalid field selector: unescaped character in value: "{character}"')
        if character != "\\":
            out.append(character)
            continue
        escaped = next(characters, "")
        if escaped not in (",", "=", "\\"):
            raise SelectorError(f'invalid field selector: invalid escape sequence: "\\{escaped}"')
        out.append(escaped)
    return "".join(out)
