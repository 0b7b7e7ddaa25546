"""CEL over devices: which devices an expression of a claim or a class is true of.

An expression sees one variable, ``device``, with ``driver``, ``attributes`` and ``capacity``; the latter two by domain and
name (``device.attributes["gpu.example.com"].model``). A domain that a device says nothing about is empty, not missing.
The CEL library has no values of new kinds: quantities and versions are their own text, and what compares them reads it.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import cel
import msgspec
from cel import stdlib

from volcanopy.api import quantity
from volcanopy.api.devices import BasicDevice

_TEXT = re.compile(r"""\"((?:[^"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'""")
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")
_WORD = re.compile(r"\w+")
_WHOLE = re.compile(
    r"\b(?:all|exists|exists_one|map|filter|size|transformList|transformMap)\b|\.(?:attributes|capacity)(?!\[[\"'])"
)
"""What makes an expression look at more than the values that it names."""
_REMEMBERED = 8192
_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode
_FAULTS = (KeyError, IndexError, ZeroDivisionError, TypeError, ValueError, RuntimeError, OverflowError)


class Verdict:
    """What an expression says of a device."""

    __slots__ = ("fault", "holds")

    def __init__(self, holds: bool, fault: str = "") -> None:
        self.holds = holds
        self.fault = fault
        """Why it could not be said, empty if it could."""


class Expression:
    """One compiled expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.fault = ""
        self._domains = sorted({one or other for one, other in _TEXT.findall(text)})
        self._words = None if _WHOLE.search(text) else frozenset(_WORD.findall(text))
        self._context = cel.Context({})
        for name, function in _FUNCTIONS.items():
            self._context.add_function(name, function)
        self._known: dict[bytes, Verdict] = {}
        try:
            self._program = cel.compile(text)
        except ValueError as fault:
            self.fault = " ".join(str(fault).split())

    def judge(self, driver: str, device: BasicDevice) -> Verdict:
        """Whether the expression is true of a device of this driver.

        Devices that are equal in what the expression mentions are judged once.
        """
        if self.fault:
            return Verdict(False, self.fault)
        attributes, capacity = self._seen(device.attributes), self._seen(device.capacity)
        key = _ENCODE((driver, attributes, capacity))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[key] = self._judge(driver, attributes, capacity)
        return known

    def _seen(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Those of the values, by their qualified names, that the expression can be about."""
        words = self._words
        if words is None:
            return values
        return {name: value for name, value in values.items() if not words.isdisjoint(_WORD.findall(name))}

    def _judge(self, driver: str, attributes: Mapping[str, Any], capacity: Mapping[str, Any]) -> Verdict:
        subject: dict[str, Any] = {
            "driver": driver,
            "attributes": _by_domain(driver, {name: _value(said) for name, said in attributes.items()}),
            "capacity": _by_domain(driver, {name: _amount(said) for name, said in capacity.items()}),
        }
        for domain in self._domains:
            subject["attributes"].setdefault(domain, {})
            subject["capacity"].setdefault(domain, {})
        self._context.add_variable("device", subject)
        try:
            said = self._program.execute(self._context)
        except _FAULTS as fault:
            reason = fault.args[0] if fault.args else type(fault).__name__
            return Verdict(False, f"no such key: {reason}" if isinstance(fault, KeyError) else str(reason))
        if isinstance(said, bool):
            return Verdict(said)
        return Verdict(False, f"the result is of type {type(said).__name__}, not bool")


@lru_cache(maxsize=4096)
def expression(text: str) -> Expression:
    """The expression of this text, compiled once."""
    return Expression(text)


def _by_domain(driver: str, values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        domain, slash, short = name.rpartition("/")
        found.setdefault(domain if slash else driver, {})[short if slash else name] = value
    return found


def _value(said: Mapping[str, Any]) -> Any:
    """An attribute's value: ``{"int": 3}``, ``{"bool": true}``, ``{"string": "a"}`` or ``{"version": "1.2.3"}``."""
    return next(iter(said.values()), None)


def _amount(said: Any) -> str:
    """A capacity's value: ``{"value": "1Gi"}``; a bare quantity in v1beta1."""
    return str(said["value"] if isinstance(said, Mapping) else said)


def _compared(left: Any, right: Any) -> int:
    one, other = _VERSION.fullmatch(str(left)), _VERSION.fullmatch(str(right))
    if one and other:
        a, b = _version(one), _version(other)
        return (a > b) - (a < b)
    x, y = quantity.parse(left), quantity.parse(right)
    return (x > y) - (x < y)


def _version(found: re.Match[str]) -> tuple[Any, ...]:
    """Ordered as versions are: one with a pre-release part comes before the one without."""
    major, minor, patch, before = found.groups()
    parts = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in (before or "").split(".") if part]
    return int(major), int(minor), int(patch), before is None, parts


def _quantity(text: Any) -> str:
    quantity.parse(text)
    return str(text)


def _semver(text: Any) -> str:
    if not _VERSION.fullmatch(str(text)):
        raise ValueError(f"{text!r} is not a version such as 1.2.3")
    return str(text)


_FUNCTIONS: dict[str, Any] = {
    **stdlib.STDLIB_FUNCTIONS,
    "quantity": _quantity,
    "semver": _semver,
    "isQuantity": lambda text: _is(_quantity, text),
    "isSemver": lambda text: _is(_semver, text),
    "compareTo": _compared,
    "isGreaterThan": lambda left, right: _compared(left, right) > 0,
    "isLessThan": lambda left, right: _compared(left, right) < 0,
    "major": lambda text: _part(text, 1),
    "minor": lambda text: _part(text, 2),
    "patch": lambda text: _part(text, 3),
    "asInteger": lambda text: int(quantity.parse(text)),
    "sign": lambda text: _compared(text, "0"),
}


def _is(read: Any, text: Any) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _part(text: Any, number: int) -> int:
    found = _VERSION.fullmatch(str(text))
    if found is None:
        raise ValueError(f"{text!r} is not a version such as 1.2.3")
    return int(found.group(number))
