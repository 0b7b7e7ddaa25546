"""How many pods of a job may be disturbed at once, where annotations say so."""

import re
from collections.abc import Iterator, Mapping

from volcanopy.api import names
from volcanopy.api.model import Problem

_KEYS = (names.JDB_MIN_AVAILABLE, names.JDB_MAX_UNAVAILABLE)
_FORM = re.compile(r"[1-9][0-9]{0,8}|[1-9][0-9]?%")


def budget_problems(said: Mapping[str, str], path: str = "metadata.annotations") -> Iterator[Problem]:
    """What is wrong with the budget that the annotations give."""
    given = [key for key in _KEYS if key in said]
    for key in given:
        if _FORM.fullmatch(said[key]) is None:
            told = f"{said[key]!r}: write a whole number above 0, or a percentage from 1% to 99%"
            yield Problem(f"{path}[{key}]", told)
    if len(given) > 1:
        yield Problem(f"{path}[{given[1]}]", f"stands beside {given[0]}: give one of them")
