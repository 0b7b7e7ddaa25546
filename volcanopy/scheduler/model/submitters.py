"""Who asked for jobs: the name and the groups that admission has written into their pod groups, each kept once.

Jobs of the same submitter share a number, so that a column of numbers is all that a snapshot copies.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from volcanopy.api import names


class Submitter(NamedTuple):
    """A user as far as limits go: the name, and the groups. Without a name it is not known who asked."""

    user: str = ""
    groups: frozenset[str] = frozenset()


class Submitters:
    """All submitters by number; number 0 is nobody known."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {("", ""): 0}
        self._known: dict[Submitter, int] = {Submitter(): 0}
        self._all: tuple[Submitter, ...] | None = None

    def number(self, annotations: Mapping[str, str]) -> int:
        """The number of whoever the annotations of a pod group name."""
        said = (annotations.get(names.SUBMITTED_BY, ""), annotations.get(names.SUBMITTER_GROUPS, ""))
        number = self._numbers.get(said)
        if number is None:
            submitter = Submitter(said[0], frozenset(_groups(said[1])))
            number = self._known.setdefault(submitter, len(self._known))
            self._numbers[said] = number
            self._all = None
        return number

    @property
    def all(self) -> tuple[Submitter, ...]:
        """Each submitter at the place of its number."""
        if self._all is None:
            self._all = tuple(self._known)
        return self._all


def _groups(text: str) -> list[str]:
    """The groups in a JSON list; what is none holds none."""
    try:
        found = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
