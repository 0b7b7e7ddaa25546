"""What is said to who waits for a limit of a user, of a group, or of the jobs in a queue."""

from functools import lru_cache
from typing import NamedTuple

from volcanopy.api import quantity
from volcanopy.scheduler.model.messages import Amounts, Words, listed


class Overlimit(NamedTuple):
    """A queue's limit on jobs, on a user or on a group has too little left. Compares by what it says."""

    queue: str
    """The queue whose limit it is."""
    kind: str
    """Whom it is about: ``queue`` (all of its jobs), ``user`` or ``group``."""
    name: str
    pool: int
    """The number of what those share whom it is about."""
    jobs: tuple[int, int] | None = None
    """How many jobs may be admitted, and how many are; None where the limit is one of amounts."""
    names: tuple[str, ...] = ()
    """The resources that the limit names; the amounts are of these."""
    limit: Amounts = ()
    held: Amounts = ()
    wanted: Amounts = ()
    """What is asked for in addition."""
    promised: Amounts = ()
    """What admitted jobs may still ask for; empty where a pod is refused, not a job."""
    each: int = 1
    """Of how many equal parts ``wanted`` consists: the sentence speaks of one."""
    own: Amounts = ()
    """What of ``held`` the asker itself would hold if it were given all that it asks for."""

    def words(self) -> Words:
        """The sentence, the numbers and the least that is missing."""
        return _of_jobs(self) if self.jobs is not None else _of_amounts(self)

    @property
    def who(self) -> str:
        """Whom the limit is about."""
        if self.kind == "queue":
            return f"queue {self.queue}"
        return f"{self.kind} {self.name}" if self.name else "a user whose name is not known"


def _about(why: Overlimit) -> dict[str, str]:
    return {"queue": why.queue} | ({why.kind: why.name} if why.kind != "queue" else {})


@lru_cache(maxsize=8192)
def _of_jobs(why: Overlimit) -> Words:
    assert why.jobs is not None
    most, admitted = why.jobs
    over = admitted - most + 1
    numbers = _about(why) | {"limit": str(most), "admitted": str(admitted)}
    lets = f"queue {why.queue} lets {why.who} run" if why.kind != "queue" else f"queue {why.queue} runs"
    of = f"of {why.who} in queue {why.queue}" if why.kind != "queue" else f"in queue {why.queue}"
    more = f"queue {why.queue} must " + (f"let {why.who} run jobs" if why.kind != "queue" else "be allowed to run jobs")
    if not most:
        return Words(f"{lets} no jobs", numbers, {}, more)
    limit = "1 job at a time" if most == 1 else f"{most} jobs at once"
    now = "1 is" if admitted == 1 else f"{admitted} are"
    ends = f"a job {of} must end" if over == 1 else f"{over} jobs {of} must end"
    return Words(f"{lets} {limit}, and {now} admitted", numbers, {}, ends)


@lru_cache(maxsize=8192)
def _of_amounts(why: Overlimit) -> Words:
    promised = why.promised or (0,) * len(why.names)
    taken = tuple(map(sum, zip(why.held, promised, strict=True)))
    columns = list(zip(why.names, why.wanted, taken, why.limit, strict=True))
    place, (name, wanted, now, most) = next(
        (place, one) for place, one in enumerate(columns) if one[1] > 0 and one[2] + one[1] > one[3]
    )
    lets = f"queue {why.queue} lets {why.who} hold {quantity.text(name, most)} {name}"
    if why.promised:
        sentence = f"{lets}: with this job {quantity.text(name, now + wanted)} would be held or promised"
    else:
        has, more = quantity.text(name, why.held[place]), quantity.text(name, wanted // why.each)
        sentence = f"{lets}, and {has} {'is' if has == '1' else 'are'} held: {more} more is too much"
    amounts = {
        "wanted": listed(why.names, why.wanted),
        "held": listed(why.names, why.held, why.wanted),
        "promised": listed(why.names, promised, why.wanted) if why.promised else {},
        "limit": listed(why.names, why.limit, why.wanted),
        "free": listed(
            why.names, tuple(max(most - now, 0) for most, now in zip(why.limit, taken, strict=True)), why.wanted
        ),
    }
    shown = {kind: found for kind, found in amounts.items() if found}
    return Words(sentence, _about(why), shown, _unblock(why, columns))


def _unblock(why: Overlimit, columns: list[tuple[str, int, int, int]]) -> str:
    """The least that must become free, or where that is never enough, how much the limit lacks."""
    own = why.own or (0,) * len(columns)
    one = [wanted // why.each for _, wanted, _, _ in columns]
    never = [
        (name, more + mine - most)
        for (name, _, _, most), more, mine in zip(columns, one, own, strict=True)
        if more > 0 and more + mine > most
    ]
    if never:
        return f"queue {why.queue} must let {why.who} hold {_and(never)} more, or the job ask for that much less"
    gaps = [(name, now + more - most) for (name, _, now, most), more in zip(columns, one, strict=True) if more > 0]
    gaps = [(name, gap) for name, gap in gaps if gap > 0]
    if not gaps:  # one more would pass: it is the rest of the gang that does not
        gaps = [(name, now + all_of_it - most) for name, all_of_it, now, most in columns if now + all_of_it > most]
    kept = "holds or has been promised" if why.promised else "holds"
    return f"{_and(gaps)} that {why.who} {kept} in queue {why.queue} must become free"


def _and(amounts: list[tuple[str, int]]) -> str:
    return " and ".join(f"{quantity.text(name, units)} {name}" for name, units in amounts)
