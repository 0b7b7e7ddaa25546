"""The functions that Kubernetes adds to CEL and that the CEL library lacks.

CEL treats `x.f(y)` as `f(x, y)`, so one function serves the string and the list of the same name. The library cannot
carry values of new types; a quantity is therefore its own text, and the functions on quantities read it again.
"""

import re
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from types import ModuleType
from typing import Any, Final

from embedded_apiserver import quantities
from embedded_apiserver.schema.formats import FORMATS, pattern

_EMPTY = ModuleType("cel.cli")
# The package imports it and does not use it: its libraries for terminals take a tenth of the start of a server.
sys.modules.setdefault("cel.cli", _EMPTY)

import cel  # noqa: E402
from cel import stdlib  # noqa: E402

if sys.modules["cel.cli"] is _EMPTY:
    del sys.modules["cel.cli"]  # it can be imported as usual

__all__ = ["cel", "stdlib"]


def _amount(text: Any) -> Fraction:
    try:
        return quantities.parse(text if isinstance(text, str) else "")
    except quantities.QuantityError:
        raise ValueError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None


def _is_quantity(text: Any) -> bool:
    try:
        _amount(text)
    except ValueError:
        return False
    return True


def _quantity(text: Any) -> str:
    _amount(text)
    return str(text)


def _number(value: Any) -> Fraction:
    return Fraction(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else _amount(value)


def _text(value: Fraction) -> str:
    return str(Decimal(value.numerator) / Decimal(value.denominator))


def _compared(left: Any, right: Any) -> int:
    a, b = _amount(left), _amount(right)
    return (a > b) - (a < b)


def _index_of(where: Any, what: Any, *offset: int) -> int:
    if isinstance(where, str):
        return int(stdlib.index_of(where, what, *offset))
    return where.index(what) if what in where else -1


def _last_index_of(where: Any, what: Any, *offset: int) -> int:
    if isinstance(where, str):
        return int(stdlib.last_index_of(where, what, *offset))
    return len(where) - 1 - where[::-1].index(what) if what in where else -1


def _is_sorted(items: list[Any]) -> bool:
    return all(left <= right for left, right in pairwise(items))


def _find(text: str, expression: str) -> str:
    match = pattern(expression).search(text)
    return match.group() if match else ""


def _find_all(text: str, expression: str, limit: int = -1) -> list[str]:
    matches = [match.group() for match in pattern(expression).finditer(text)]
    return matches if limit < 0 else matches[:limit]


def _format(template: str, values: list[Any]) -> str:
    """`"%s has %d".format([...])` with the verbs of CEL's strings library."""
    remaining = list(values)

    def formatted(match: re.Match[str]) -> str:
        verb = match.group(2)
        if verb == "%":
            return "%"
        if not remaining:
            raise IndexError(f"index {len(values)} out of range")
        value = remaining.pop(0)
        if verb == "s":
            return _shown(value)
        precision = match.group(1) or (".6" if verb in "fe" else "")
        return format(value, f"{precision if verb in 'fe' else ''}{verb}")

    return re.sub(r"%(\.\d+)?([sdfebxXo%])", formatted, template)


def _shown(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case list():
            return f"[{', '.join(_shown(item) for item in value)}]"
        case dict():
            return "{" + ", ".join(f"{_shown(key)}: {_shown(item)}" for key, item in value.items()) + "}"
    return str(value)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **stdlib.STDLIB_FUNCTIONS,
    "isSorted": _is_sorted,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "find": _find,
    "findAll": _find_all,
    "format": _format,
    "isQuantity": _is_quantity,
    "quantity": _quantity,
    "isInteger": lambda text: _amount(text).denominator == 1,
    "asInteger": lambda text: int(_amount(text)),
    "asApproximateFloat": lambda text: float(_amount(text)),
    "isLessThan": lambda left, right: _compared(left, right) < 0,
    "isGreaterThan": lambda left, right: _compared(left, right) > 0,
    "compareTo": _compared,
    "sign": lambda text: (_amount(text) > 0) - (_amount(text) < 0),
    "add": lambda left, right: _text(_amount(left) + _number(right)),
    "sub": lambda left, right: _text(_amount(left) - _number(right)),
    "isURL": FORMATS["uri"],
    "isIP": lambda text: FORMATS["ipv4"](text) or FORMATS["ipv6"](text),
    "isCIDR": FORMATS["cidr"],
}
