"""Why not, in words and in numbers: what a gate says of a job that it does not let pass.

Plugins refuse thousands of jobs in a cycle, and most of these refusals are never read. So a gate may answer with a
:class:`Shortage`, a few numbers that become words when a job is found to wait; equal shortages share their words.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Protocol

from volcanopy.api import quantity
from volcanopy.scheduler.model.resources import UNLIMITED, Ints

_JOB = "job "
_UID = re.compile(r"(?<=[a-z0-9])(?<!/podgroup)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")

Amounts = tuple[int, ...]
"""One amount of each resource, in base units, in the order of the session's axis."""


@dataclass(frozen=True)
class Words:
    """What is said of a job that waits.

    ``message`` is the sentence for people. ``numbers`` are counts by name; ``amounts`` what is wanted, held, free and the
    limit, each as quantities by resource. ``unblock`` is the least that would have to change, ``ahead`` who has to go
    first (``job namespace/name``, ``queue name``).
    """

    message: str
    numbers: Mapping[str, str] = field(default_factory=dict)
    amounts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unblock: str = ""
    ahead: tuple[str, ...] = ()

    def words(self) -> "Words":
        """Itself: words need no making."""
        return self


class Shortage(NamedTuple):
    """More was asked of a limit than it has left, by resource. Compares by what it says."""

    kind: str
    """``share``, ``capability``, ``admission``, or ``cluster`` where the limit is that of the cluster itself."""
    holder: str
    """The queue whose limit it is."""
    names: tuple[str, ...]
    """The resources that the amounts are of."""
    wanted: Amounts
    """What is asked for in addition; empty where nothing in particular was."""
    held: Amounts
    limit: Amounts
    promised: Amounts = ()
    """What admitted jobs may still ask for."""
    each: int = 1
    """Of how many equal parts ``wanted`` consists: the sentence speaks of one."""
    own: Amounts = ()
    """What of ``held`` the asker itself would hold if it were given all that it asks for."""
    most: Amounts = ()
    """Beside a share: what the holder may ever hold."""
    total: Amounts = ()
    """What the cluster has in all: a limit that is no less than that is none of the holder's own."""
    due: Amounts = ()
    """What the holder deserves, where it may borrow only so much beyond it."""
    borrowing: Amounts = ()
    """How much that is; without end where it is not what binds."""

    def words(self) -> Words:
        """The sentence, the numbers and the least that is missing."""
        return _words(self.settled())

    @property
    def gate(self) -> str:
        """The gate that this is about."""
        return {"share": "share", "cluster": "nodes"}.get(self.settled().kind, "capability")

    def settled(self) -> "Shortage":
        """The same, of the limit that really binds: a share ends at what may be held, and that where the cluster ends."""
        why = self
        if why.kind == "share" and why.most:
            harder = why._replace(kind="capability", limit=why.most)
            why = harder if harder.short else why
        return why._replace(kind="cluster") if why.kind == "capability" and why.is_cluster else why

    @property
    def is_cluster(self) -> bool:
        """Whether the limit that has not enough left is where the cluster ends, and none of the holder's own."""
        short = self.short
        own = not self.total or any(self.limit[place] < self.total[place] for place in short)
        return self.kind == "cluster" or (self.kind != "share" and bool(short) and not own)

    def of_borrower(self, borrowed: tuple[Ints, Ints] | None) -> "Shortage":
        """The same of one who is due some (R,) amounts and may borrow others; None if it may borrow without end."""
        if borrowed is None:
            return self
        due, borrowing = borrowed
        return self._replace(due=tuple(due.tolist()), borrowing=tuple(borrowing.tolist()))

    def lent(self, place: int) -> bool:
        """Whether of this resource the limit is what may be borrowed."""
        return bool(self.borrowing) and self.due[place] + self.borrowing[place] == self.limit[place]

    def asked_by(self, wanted: Amounts) -> "Shortage":
        """The same for one who asks for this much."""
        return self._replace(wanted=wanted, each=1)

    @property
    def short(self) -> list[int]:
        """The resources, but not the count of pods, of which the limit has not enough left for what is wanted."""
        if not self.wanted:
            return []
        asked = zip(
            self.names, self.wanted, self.held, self.limit, self.promised or (0,) * len(self.names), strict=True
        )
        return [
            place
            for place, (name, more, held, limit, promised) in enumerate(asked)
            if more > 0 and name != "pods" and held + promised + more > limit
        ]


class Overpromise(NamedTuple):
    """More is asked for by admitted jobs than the cluster may promise. Compares by what it says."""

    names: tuple[str, ...]
    wanted: Amounts
    asked: Amounts
    """What all of them would ask for with this one."""
    room: Amounts

    @classmethod
    def of(cls, names: tuple[str, ...], wanted: Ints, asked: Ints, room: Ints) -> "Overpromise":
        """From (R,) columns."""
        return cls(names, tuple(wanted.tolist()), tuple(asked.tolist()), tuple(room.tolist()))

    def words(self) -> Words:
        """The sentence, the numbers and the least that is missing."""
        return _overpromise(self)


class Telling(Protocol):
    """What words can be made of."""

    def words(self) -> Words:
        """The words."""
        ...


Reason = str | Telling
"""A sentence; or words (:class:`Words`); or what words can be made of."""


def closed(queue: str, what: str = "") -> Words:
    """Of a queue that takes no jobs at present."""
    return Words(f"queue {queue} is closed{what}", {"queue": queue}, unblock=f"queue {queue} must be opened")


def stopped(queue: str, by: str, drains: bool) -> Words:
    """Of a queue in which nothing starts, as it or a queue above it is on hold or drained."""
    how = "is drained" if drains else "is on hold"
    whose = f"queue {queue} {how}" if by == queue else f"queue {by}, which queue {queue} is part of, {how}"
    message = f"{whose}: nothing {'stays' if drains else 'new starts'} there until its stopPolicy is None"
    return Words(message, {"queue": queue, "stoppedBy": by}, {}, f"queue {by} must be resumed", (f"queue {by}",))


def misplaced(queue: str, message: str, unblock: str) -> Words:
    """Of a queue that takes no jobs where it stands in the tree."""
    return Words(message, {"queue": queue}, unblock=unblock)


@lru_cache(maxsize=8192)
def by_name(text: str) -> str:
    """The text with the names of jobs as people gave them: the group of a BatchJob has its uid in its own name."""
    return _UID.sub("", text) if _JOB in text else text


def say(reason: Reason) -> Words:
    """The words of a reason."""
    return Words(reason) if isinstance(reason, str) else reason.words()


def listed(names: tuple[str, ...], amounts: Amounts, of: Amounts = ()) -> dict[str, str]:
    """Amounts as quantities by resource: those that are not zero, or where ``of`` is not; limits only where there are any."""
    of = of or amounts
    return {
        name: quantity.text(name, units)
        for name, units, counts in zip(names, amounts, of, strict=True)
        if counts and units < UNLIMITED // 2
    }


@lru_cache(maxsize=8192)
def _words(why: Shortage) -> Words:
    short = why.short
    promised = why.promised or (0,) * len(why.names)
    held = tuple(map(sum, zip(why.held, promised, strict=True)))
    counted = why.wanted or why.limit
    free = tuple(
        max(limit - now, 0) if limit < UNLIMITED else UNLIMITED for limit, now in zip(why.limit, held, strict=True)
    )
    amounts = {
        "wanted": listed(why.names, why.wanted) if why.wanted else {},
        "held": listed(why.names, why.held, counted),
        "promised": listed(why.names, promised, counted) if why.promised else {},
        "limit": listed(why.names, why.limit, counted),
        "free": listed(why.names, free, counted),
        "deserved": listed(why.names, why.due, tuple(map(_is_limit, why.borrowing))) if why.due else {},
        "borrowing": listed(why.names, why.borrowing, counted) if why.borrowing else {},
    }
    return Words(
        _sentence(why, short, held),
        {"queue": why.holder},
        {name: found for name, found in amounts.items() if found},
        _unblock(why, short, held),
        (f"queue {why.holder}",),
    )


def _sentence(why: Shortage, short: list[int], held: Amounts) -> str:
    if not short:
        limit = ", ".join(f"{name} {text}" for name, text in listed(why.names, why.limit).items()) or "nothing"
        return f"queue {why.holder} holds all that it deserves: {limit}"
    place = short[0]
    name = why.names[place]
    has, limit = quantity.text(name, why.held[place]), quantity.text(name, why.limit[place])
    more = quantity.text(name, why.wanted[place] // why.each)
    if why.kind == "share":
        return f"queue {why.holder} deserves {limit} {name} and holds {has}: {more} more is beyond its share"
    if why.kind == "cluster":
        return f"the cluster has {limit} {name} in all and queue {why.holder} holds {has}: {more} more is too much"
    if why.kind == "capability" and why.lent(place):
        return f"queue {why.holder} {_borrows(why, place)} and holds {has}: {more} more is too much"
    if why.kind == "capability":
        return f"queue {why.holder} may hold {limit} {name} and holds {has}: {more} more is too much"
    asked = quantity.text(name, held[place] + why.wanted[place])
    if why.is_cluster:
        return f"the cluster has {limit} {name} in all: with this job queue {why.holder} would have promised {asked}"
    if why.lent(place):
        return f"queue {why.holder} {_borrows(why, place)}: with this job it would have promised {asked}"
    return f"queue {why.holder} can hold {limit} {name} at most: with this job it would have promised {asked}"


def _is_limit(units: int) -> int:
    return int(units < UNLIMITED)


def _borrows(why: Shortage, place: int) -> str:
    name = why.names[place]
    due, borrowing = (quantity.text(name, amounts[place]) for amounts in (why.due, why.borrowing))
    return f"deserves {due} {name} and may borrow at most {borrowing} more"


def _unblock(why: Shortage, short: list[int], held: Amounts) -> str:
    """The least that must become free, or where that is never enough, how much the limit lacks."""
    if not short:
        return f"something that queue {why.holder} holds must become free, or its share grow"
    one = tuple(more // why.each for more in why.wanted)
    whole = tuple(map(sum, zip(one, why.own, strict=True))) if why.own else one
    never = [(why.names[place], whole[place] - why.limit[place]) for place in short if whole[place] > why.limit[place]]
    if never and why.is_cluster:
        return f"the cluster must grow by {_and(never)}, or the job ask for that much less"
    if never:
        missing = _and(never)
        limit = "deserve" if why.kind == "share" else "be allowed to hold"
        return f"queue {why.holder} must {limit} {missing} more, or the job ask for that much less"
    gaps = [(why.names[place], held[place] + one[place] - why.limit[place]) for place in short]
    gaps = [(name, gap) for name, gap in gaps if gap > 0]
    if not gaps:  # one more would pass: it is the rest of the gang that does not
        gaps = [(why.names[place], held[place] + why.wanted[place] - why.limit[place]) for place in short]
    kept = "holds or has promised" if why.promised else "holds"
    grow = ", or the cluster grow by as much" if why.is_cluster else ""
    return f"{_and(gaps)} that queue {why.holder} {kept} must become free{grow}"


def _and(amounts: list[tuple[str, int]]) -> str:
    return " and ".join(f"{quantity.text(name, units)} {name}" for name, units in amounts)


@lru_cache(maxsize=8192)
def _overpromise(why: Overpromise) -> Words:
    columns = list(zip(why.names, why.wanted, why.asked, why.room, strict=True))
    over = [(name, asked - room) for name, wanted, asked, room in columns if wanted > 0 and asked > room]
    name, gap = over[0]
    held = tuple(asked - wanted for _, wanted, asked, _ in columns)
    free = tuple(max(room - now, 0) for now, room in zip(held, why.room, strict=True))
    return Words(
        f"admitted jobs ask for so much {name} that this one exceeds what the cluster may promise by"
        f" {quantity.text(name, gap)}",
        {},
        {
            "wanted": listed(why.names, why.wanted),
            "promised": listed(why.names, held, why.wanted),
            "limit": listed(why.names, why.room, why.wanted),
            "free": listed(why.names, free, why.wanted),
        },
        f"{_and(over)} that pods hold or admitted jobs wait for must become free, or the cluster grow by as much",
    )
