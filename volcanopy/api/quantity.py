"""Kubernetes quantities, exactly: text to integers in base units and back.

The base unit of ``cpu`` is the milli-core; of everything else the unit itself (bytes, devices, pods).
Fractions of a base unit round up, as the Kubernetes API machinery rounds (`resource.Quantity.Value`).

The API server accepts quantities of any size. Amounts saturate instead of failing: a quantity at int64, the requests of one
pod at :data:`LIMIT`, so that sums over thousands of pods stay exact in int64.
"""

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

INT64_MAX = 2**63 - 1
LIMIT = 2**50
"""The largest amount of a resource that is counted for one pod: 1Pi, or 1.1e12 cores. One node offers less."""
GROUP_LIMIT = 2**56
"""The largest minimum resource that is counted for one group: 64Pi, or 7e13 cores."""
MAX_LENGTH = 1000
"""Longest text of a quantity, in characters."""

_SUFFIXES: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_FORM = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i))?")
_MOST_EXPONENT = 2000
"""Larger exponents count as this one: with any number of :data:`MAX_LENGTH` characters the amount is too large to be counted."""
_BINARY = (("Ei", 2**60), ("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


class QuantityError(ValueError):
    """A text that is not a Kubernetes quantity."""


@lru_cache(maxsize=16384)
def parse(text: str | float) -> Fraction:
    """The exact value of a quantity such as ``500m``, ``1.5Gi``, ``2e3`` or the plain number 3.

    As in Kubernetes, what does not fit an int64 is the nearest that does.
    """
    if isinstance(text, int):
        return _capped(Fraction(text))
    form = _FORM.fullmatch(str(text)) if len(str(text)) <= MAX_LENGTH else None
    if form is None:
        text = text if len(str(text)) <= MAX_LENGTH else f"{str(text)[:20]}..."
        raise QuantityError(
            f"{text!r} is not a quantity: must be a number with an optional suffix, such as 500m, 2 or 1.5Gi"
        )
    number, exponent, suffix = form.groups()
    value = Fraction(number)
    if exponent:
        return _capped(value * Fraction(10) ** max(-_MOST_EXPONENT, min(int(exponent[1:]), _MOST_EXPONENT)))
    return _capped(value * _SUFFIXES[suffix or ""])


def _capped(value: Fraction) -> Fraction:
    return max(Fraction(-INT64_MAX), min(value, Fraction(INT64_MAX)))


def base_units(resource: str) -> int:
    """Return how many base units one of a resource has: amounts of cpu are in thousandths."""
    return 1000 if resource == "cpu" else 1


@lru_cache(maxsize=16384)
def amount(resource: str, text: str | float) -> int:
    """A quantity of a resource as an integer of its base units, rounded up; what does not fit an int64 saturates.

    Raises QuantityError for what is no quantity.
    """
    value = parse(text) * base_units(resource)
    units = -(-value.numerator // value.denominator)
    return max(-INT64_MAX, min(units, INT64_MAX))


def amounts(resources: Mapping[str, str | int | float]) -> dict[str, int]:
    """A Kubernetes resource list as base units by name."""
    return {name: amount(name, text) for name, text in resources.items()}


def summed(lists: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sums of base units by name."""
    sums: dict[str, int] = {}
    for units in lists:
        for name, value in units.items():
            sums[name] = sums.get(name, 0) + value
    return sums


def bounded(units: Mapping[str, int], most: int = LIMIT) -> dict[str, int]:
    """The same amounts, none less than 0 or greater than ``most``."""
    return {name: max(0, min(value, most)) for name, value in units.items()}


def text(resource: str, units: int) -> str:
    """Base units of a resource as the shortest exact quantity: ``1500m``, ``2``, ``4Gi``."""
    if resource == "cpu":
        return f"{units}m" if units % 1000 else str(units // 1000)
    if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-"):
        for suffix, size in _BINARY:
            if units and units % size == 0:
                return f"{units // size}{suffix}"
    return str(units)


def shown(resource: str, units: int) -> str:
    """Base units of a resource for people: as :func:`text`, but ``19.2`` cpus instead of ``19200m``."""
    if resource == "cpu" and abs(units) > 1000:
        return f"{units / 1000:.3f}".rstrip("0").rstrip(".")
    return text(resource, units)


def counted(number: int, noun: str) -> str:
    """Return ``1 pod``, ``3 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def texts(units: Mapping[str, int]) -> dict[str, str]:
    """Base units by name as a Kubernetes resource list, ordered by name."""
    return {name: text(name, units[name]) for name in sorted(units)}
