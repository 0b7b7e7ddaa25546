"""Quantities: exact values, sums in whole units, and the form that a real API server stores: `0.5Gi` becomes `512Mi`.

As in Kubernetes, what does not fit an int64 is the nearest that does. The unit of cpu is the thousandth, of everything else
the unit itself (bytes, devices, pods); fractions of a unit round up.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any

MAX_LENGTH = 1000
"""Longest text of a quantity, in characters."""
_INT64_MAX = 2**63 - 1
_MAX_EXPONENT = 2000
"""Larger exponents count as this one: with any number of :data:`MAX_LENGTH` characters the value does not fit an int64."""
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_FACTORS = {suffix: Fraction(1000) ** power for power, suffix in enumerate(_DECIMAL, start=-3)}
_FACTORS |= {suffix: Fraction(1024) ** power for power, suffix in enumerate(_BINARY)}
_FORM = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i))?")


class QuantityError(ValueError):
    """A text that is no quantity."""


@lru_cache(maxsize=16384)
def parse(text: str | float) -> Fraction:
    """The exact value of a quantity such as `500m`, `1.5Gi`, `2e3` or the plain number 3. Raises QuantityError."""
    if isinstance(text, int):
        return _capped(Fraction(text))
    form = _FORM.fullmatch(str(text)) if len(str(text)) <= MAX_LENGTH else None
    if form is None:
        text = text if len(str(text)) <= MAX_LENGTH else f"{str(text)[:20]}..."
        raise QuantityError(
            f"{text!r} is not a quantity: must be a number with an optional suffix, such as 500m, 2 or 1.5Gi"
        )
    number, exponent, suffix = form.groups()
    if exponent:
        power = max(-_MAX_EXPONENT, min(int(exponent[1:]), _MAX_EXPONENT))
        return _capped(Fraction(number) * Fraction(10) ** power)
    return _capped(Fraction(number) * _FACTORS[suffix or ""])


@lru_cache(maxsize=16384)
def measure(text: str | float) -> Fraction | None:
    """The value of a quantity, or None if it is none."""
    try:
        return parse(text)
    except QuantityError:
        return None


@lru_cache(maxsize=16384)
def amount(resource: str, text: str | float) -> int:
    """A quantity of a resource in its units. Raises QuantityError."""
    units = ceil(parse(text) * (1000 if resource == "cpu" else 1))
    return max(-_INT64_MAX, min(units, _INT64_MAX))


def amounts(resources: Mapping[str, str | int | float]) -> dict[str, int]:
    """A resource list in units by name. Raises QuantityError."""
    return {name: amount(name, text) for name, text in resources.items()}


def text(resource: str, units: int) -> str:
    """Units of a resource as the shortest exact quantity: `1500m`, `2`, `4Gi`."""
    if resource == "cpu":
        return f"{units}m" if units % 1000 else str(units // 1000)
    if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-"):
        return _shortest(Fraction(units), 1024, _BINARY, 0)
    return str(units)


def texts(units: Mapping[str, int]) -> dict[str, str]:
    """Units by name as a resource list, ordered by name."""
    return {name: text(name, units[name]) for name in sorted(units)}


@lru_cache(maxsize=16384)
def canonical(text: str | float) -> str:
    """The quantity as the server stores it; text that is no quantity stays as it is."""
    value = measure(text)
    if value is None:
        return str(text)
    written = str(text).strip()
    if written.endswith("i") and abs(value) >= 1024:
        return _shortest(Fraction(ceil(value)), 1024, _BINARY, 0)
    exponent = written.lower().rpartition("e")[2]
    if "e" in written.lower() and exponent.lstrip("+-").isdigit():
        return written
    return _shortest(Fraction(ceil(value * 10**9), 10**9), 1000, _DECIMAL, -3)


def settle(resources: Any) -> None:
    """Spell every quantity of a resource list canonically, in place."""
    if isinstance(resources, dict):
        for name, quantity in resources.items():
            if isinstance(quantity, (str, int, float)) and not isinstance(quantity, bool):
                spelled = canonical(quantity)
                if spelled is not quantity:
                    resources[name] = spelled


def _capped(value: Fraction) -> Fraction:
    return max(Fraction(-_INT64_MAX), min(value, Fraction(_INT64_MAX)))


def _shortest(value: Fraction, base: int, suffixes: tuple[str, ...], lowest: int) -> str:
    """The largest suffix that leaves a whole number."""
    if value == 0:
        return "0"
    for power in range(len(suffixes) - 1 + lowest, lowest - 1, -1):
        scaled = value / Fraction(base) ** power
        if scaled.denominator == 1:
            return f"{scaled.numerator}{suffixes[power - lowest]}"
    raise ArithmeticError(f"{value} is finer than the smallest unit")
