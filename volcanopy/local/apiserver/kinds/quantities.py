"""Quantities in the one spelling that a real API server stores: `0.5Gi` becomes `512Mi`, 1000m becomes 1."""

from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any

from volcanopy.api.quantity import QuantityError, parse

_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


@lru_cache(maxsize=16384)
def measure(text: str | float) -> Fraction | None:
    """The value of a quantity, or None if it is none."""
    try:
        return parse(text)
    except QuantityError:
        return None


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


def _shortest(value: Fraction, base: int, suffixes: tuple[str, ...], lowest: int) -> str:
    """The largest suffix that leaves a whole number."""
    if value == 0:
        return "0"
    for power in range(len(suffixes) - 1 + lowest, lowest - 1, -1):
        scaled = value / Fraction(base) ** power
        if scaled.denominator == 1:
            return f"{scaled.numerator}{suffixes[power - lowest]}"
    raise ArithmeticError(f"{value} is finer than the smallest unit")


def settle(amounts: Any) -> None:
    """Spell every quantity of a resource list canonically, in place."""
    if isinstance(amounts, dict):
        for name, amount in amounts.items():
            if isinstance(amount, (str, int, float)) and not isinstance(amount, bool):
                spelled = canonical(amount)
                if spelled is not amount:
                    amounts[name] = spelled
