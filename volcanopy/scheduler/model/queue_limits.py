"""Limits of queues on jobs, users and groups, and the submitters of jobs.

A limit applies to a *subject*: the queue itself (number of jobs), a user, or a group of users, in the queue and its
descendants. The limits of a job are computed once per queue and submitter.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeGuard

from volcanopy.api import core, names, quantity
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.resources import UNLIMITED, Axis, Rows


class Submitter(NamedTuple):
    """A user as far as limits go: the name, and the groups. The name is empty if the submitter is unknown."""

    user: str = ""
    groups: frozenset[str] = frozenset()


class Submitters:
    """All submitters by number; number 0 is the unknown submitter."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {("", ""): 0}
        self._known: dict[Submitter, int] = {Submitter(): 0}

    def number(self, annotations: Mapping[str, str]) -> int:
        """The number of the submitter in the annotations of a pod group."""
        key = (annotations.get(names.SUBMITTED_BY, ""), annotations.get(names.SUBMITTER_GROUPS, ""))
        number = self._numbers.get(key)
        if number is None:
            submitter = Submitter(key[0], frozenset(_groups(key[1])))
            number = self._known.setdefault(submitter, len(self._known))
            self._numbers[key] = number
        return number

    @property
    def all(self) -> tuple[Submitter, ...]:
        """Each submitter at the place of its number."""
        return tuple(self._known)


def _groups(text: str) -> list[str]:
    """The groups in a JSON list; none if it is not one."""
    try:
        result = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return [group for group in result if isinstance(group, str)] if isinstance(result, list) else []


ANY_USER = "*"
"""In place of a user: every user that no entry names."""

Kind = Literal["queue", "user", "group"]


class Subject(NamedTuple):
    """The subject of a limit: a queue by its row, or one user or group in it and in the queues below it."""

    queue: int
    kind: Kind
    name: str = ""


class Cap(NamedTuple):
    """The limit of a subject: amounts by index on the axis, and the number of jobs (None: unlimited)."""

    amounts: tuple[tuple[int, int], ...] = ()
    jobs: int | None = None


Capped = tuple[Subject, Cap]


class _Entries(NamedTuple):
    """The limits of one queue by user and by group; the first entry with a name applies."""

    own: Cap
    users: dict[str, Cap]
    groups: dict[str, Cap]
    """In the order of the entries, and of the names in them."""


class Limits:
    """All limits of a tree of queues."""

    def __init__(self, axis: Axis, queues: Sequence[core.Queue | None], lines: Sequence[Rows]) -> None:
        self._entries = {row: _entries(axis, queue) for row, queue in enumerate(queues) if _has_limits(queue)}
        self._lines = lines

    @once
    def of(self, queue: int, submitter: Submitter) -> tuple[Capped, ...]:
        """Every limit that a job of this submitter in this queue is subject to: the queue's own first, then those above."""
        rows = [row for row in self._lines[queue].tolist() if row in self._entries]
        return tuple(cap for row in rows for cap in self._in(row, submitter))

    def _in(self, row: int, submitter: Submitter) -> Iterator[Capped]:
        entries = self._entries[row]
        if entries.own != Cap():
            yield Subject(row, "queue"), entries.own
        cap = entries.users.get(submitter.user) if submitter.user else None
        cap = cap or entries.users.get(ANY_USER)
        if cap is not None and cap != Cap():
            yield Subject(row, "user", submitter.user), cap
        group = next((name for name in entries.groups if name in submitter.groups), None)
        if group is not None and entries.groups[group] != Cap():
            yield Subject(row, "group", group), entries.groups[group]


def limits(axis: Axis, queues: Sequence[core.Queue | None], lines: Sequence[Rows]) -> Limits | None:
    """The limits of the queues; None without any. ``lines`` lead from each queue upwards."""
    return Limits(axis, queues, lines) if any(map(_has_limits, queues)) else None


def _has_limits(queue: core.Queue | None) -> TypeGuard[core.Queue]:
    if queue is None:
        return False
    entries = any(entry.resources or entry.max_running_jobs is not None for entry in queue.spec.limits)
    return queue.spec.max_running_jobs is not None or entries


def _entries(axis: Axis, queue: core.Queue) -> _Entries:
    users: dict[str, Cap] = {}
    groups: dict[str, Cap] = {}
    for entry in queue.spec.limits:
        amounts = quantity.bounded(quantity.amounts(entry.resources), UNLIMITED)
        cap = Cap(tuple((axis.index[name], units) for name, units in amounts.items()), entry.max_running_jobs)
        for name in entry.users:
            users.setdefault(name, cap)
        for name in entry.groups:
            groups.setdefault(name, cap)
    return _Entries(Cap((), queue.spec.max_running_jobs), users, groups)
