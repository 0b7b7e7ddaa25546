"""Evaluation of the CEL selectors of device claims and device classes.

An expression sees one variable, ``device``, with ``driver``, ``attributes`` and ``capacity``; the latter two by domain and
name (``device.attributes["gpu.example.com"].model``). A domain without values is empty, not missing.
The CEL library has no custom value types: quantities and versions are strings, which the comparing functions parse.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from volcanopy.api import quantity
from volcanopy.api.builtin.devices import BasicDevice

_TEXT = re.compile(r"""\"((?:[^"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'""")
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")
_NAME = re.compile(r"\w+")
_READS_ALL = re.compile(
    r"\b(?:all|exists|exists_one|map|filter|size|transformList|transformMap)\b|\.(?:attributes|capacity)(?!\[[\"'])"
)
"""Matches an expression that reads more than the attributes it names."""
_CACHE_SIZE = 8192
_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode
_FAULTS = (KeyError, IndexError, ZeroDivisionError, TypeError, ValueError, RuntimeError, OverflowError)


class Verdict(NamedTuple):
    """The result of an expression for a device."""

    matches: bool
    fault: str = ""  # The error of the evaluation, empty without one.


class Expression:
    """One compiled expression."""

    def __init__(self, text: str) -> None:
        import cel  # noqa: PLC0415 - it loads a library for terminals, which takes a tenth of the start of a scheduler
        from cel import stdlib  # noqa: PLC0415

        self.fault = ""
        self._domains = sorted({double or single for double, single in _TEXT.findall(text)})
        self._names = None if _READS_ALL.search(text) else frozenset(_NAME.findall(text))
        self._context = cel.Context({})
        for name, function in {**stdlib.STDLIB_FUNCTIONS, **_FUNCTIONS}.items():
            self._context.add_function(name, function)
        self._known: dict[bytes, Verdict] = {}
        try:
            self._program = cel.compile(text)
        except ValueError as fault:
            self.fault = " ".join(str(fault).split())

    def evaluate(self, driver: str, device: BasicDevice) -> Verdict:
        """Return whether the expression is true for a device of this driver.

        Devices with equal values of the mentioned attributes are evaluated once.
        """
        if self.fault:
            return Verdict(False, self.fault)
        attributes, capacity = self._relevant(device.attributes), self._relevant(device.capacity)
        key = _ENCODE((driver, attributes, capacity))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _CACHE_SIZE:
                self._known.clear()
            known = self._known[key] = self._evaluate(driver, attributes, capacity)
        return known

    def _relevant(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the values, by qualified name, that the expression may read."""
        names = self._names
        if names is None:
            return values
        return {name: value for name, value in values.items() if not names.isdisjoint(_NAME.findall(name))}

    def _evaluate(self, driver: str, attributes: Mapping[str, Any], capacity: Mapping[str, Any]) -> Verdict:
        subject: dict[str, Any] = {
            "driver": driver,
            "attributes": _by_domain(driver, {name: _value(value) for name, value in attributes.items()}),
            "capacity": _by_domain(driver, {name: amount_of(value) for name, value in capacity.items()}),
        }
        for domain in self._domains:
            subject["attributes"].setdefault(domain, {})
            subject["capacity"].setdefault(domain, {})
        self._context.add_variable("device", subject)
        try:
            result = self._program.execute(self._context)
        except _FAULTS as fault:
            reason = fault.args[0] if fault.args else type(fault).__name__
            return Verdict(False, f"no such key: {reason}" if isinstance(fault, KeyError) else str(reason))
        if isinstance(result, bool):
            return Verdict(result)
        return Verdict(False, f"the result is of type {type(result).__name__}, not bool")


@lru_cache(maxsize=4096)
def expression(text: str) -> Expression:
    """Return the compiled expression of this text."""
    return Expression(text)


def _by_domain(driver: str, values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    domains: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        domain, slash, short = name.rpartition("/")
        domains.setdefault(domain if slash else driver, {})[short if slash else name] = value
    return domains


def _value(attribute: Mapping[str, Any]) -> Any:
    """Return an attribute's value: ``{"int": 3}``, ``{"bool": true}``, ``{"string": "a"}`` or ``{"version": "1.2.3"}``."""
    return next(iter(attribute.values()), None)


def amount_of(capacity: Any) -> str:
    """Return a capacity's value: ``{"value": "1Gi"}``; a bare quantity in v1beta1."""
    return str(capacity["value"] if isinstance(capacity, Mapping) else capacity)


def _compare(left: Any, right: Any) -> int:
    versions = _VERSION.fullmatch(str(left)), _VERSION.fullmatch(str(right))
    if versions[0] and versions[1]:
        a, b = _version(versions[0]), _version(versions[1])
        return (a > b) - (a < b)
    x, y = quantity.parse(left), quantity.parse(right)
    return (x > y) - (x < y)


def _version(match: re.Match[str]) -> tuple[Any, ...]:
    """Return the sort key of a version: a pre-release sorts before its release."""
    major, minor, patch, before = match.groups()
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
    "quantity": _quantity,
    "semver": _semver,
    "isQuantity": lambda text: _is(_quantity, text),
    "isSemver": lambda text: _is(_semver, text),
    "compareTo": _compare,
    "isGreaterThan": lambda left, right: _compare(left, right) > 0,
    "isLessThan": lambda left, right: _compare(left, right) < 0,
    "major": lambda text: _part(text, 1),
    "minor": lambda text: _part(text, 2),
    "patch": lambda text: _part(text, 3),
    "asInteger": lambda text: int(quantity.parse(text)),
    "sign": lambda text: _compare(text, "0"),
}


def _is(read: Any, text: Any) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _part(text: Any, number: int) -> int:
    match = _VERSION.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{text!r} is not a version such as 1.2.3")
    return int(match.group(number))
