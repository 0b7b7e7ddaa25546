"""Accounts as people read them: lines of a few styles, which a terminal shows in colour and a pipe as they are."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from volcanopy.cli.explaining.account import (
    Holding,
    JobAccount,
    Mark,
    PodsAlike,
    QueueAccount,
    Waiting,
    counted,
    listed,
)
from volcanopy.cli.render import plain_table


class Part(NamedTuple):
    """A piece of a line, and its style on a terminal."""

    text: str
    style: str = ""


Line = Sequence[Part]

_TICKS = {Mark.PASSED: "✓", Mark.HELD: "✗", Mark.UNASKED: "·", Mark.NEEDLESS: "-"}
_STYLES = {Mark.PASSED: "green", Mark.HELD: "red", Mark.UNASKED: "dim", Mark.NEEDLESS: "dim"}
_WORDS = {
    "waits": "yellow",
    "starts": "yellow",
    "runs": "cyan",
    "completed": "green",
    "failed": "red",
    "suspended": "red",
    "terminated": "red",
}
_GATE = 10
_SHOWN = 10
"""So many of those who wait in a queue are shown."""


def plain(lines: Iterable[Line]) -> str:
    """The lines without their styles."""
    return "\n".join("".join(part.text for part in line).rstrip() for line in lines)


def job_lines(account: JobAccount) -> Iterator[Line]:
    """What is said about a job."""
    yield [Part(account.verdict, f"bold {_WORDS.get(account.stands, '')}".strip())]
    facts = f"namespace {account.namespace}, queue {account.queue}, phase {account.phase}"
    place = account.numbers.get("position")
    yield [Part(f"  {facts}" + (f", place {place} in the line of its queue" if place else ""), "dim")]
    if account.gates:
        yield from _heading("Gates")
        for one in account.gates:
            text = one.text or (one.mark.value if one.mark in {Mark.UNASKED, Mark.NEEDLESS} else "")
            yield [
                Part(f"  {_TICKS[one.mark]} ", _STYLES[one.mark]),
                Part(one.name.ljust(_GATE) + " "),
                Part(text, "" if one.mark is Mark.HELD else "dim"),
            ]
    if account.nodes:
        yield from _heading("Nodes that refuse")
        width = max(len(str(number)) for number in account.nodes.values())
        for reason, number in account.nodes.items():
            yield [Part(f"  {str(number).rjust(width)}  {reason}")]
    yield from _section("Waits for", account.ahead)
    yield from _section("Would start with", [account.unblock] if account.unblock else [])
    yield from _kept(account)
    yield from _section("Tasks", account.tasks)
    yield from _pods(account.pods)
    yield from _section("Note", account.notes)


def _kept(account: JobAccount) -> Iterator[Line]:
    """Where the scheduler keeps room for the job, and when it is expected to start."""
    kept, expected = account.numbers.get("reserved"), account.numbers.get("expected")
    if kept:
        yield from _section("Room is kept", [f"{kept}{', start expected ' + expected if expected else ''}"])


def _pods(groups: Sequence[PodsAlike]) -> Iterator[Line]:
    if not groups:
        return
    yield from _heading("Pods")
    for one in groups:
        of = f" of task {one.task}" if one.task else ""
        yield [Part(f"  {counted(len(one.names), 'pod')}{of}, {_state(one)}: {listed(one.names)}")]
        if one.message:
            yield [Part(f"    {one.message}", "dim")]


def _state(one: PodsAlike) -> str:
    if len(one.names) == 1:
        return one.state
    return {
        "waits for a node": "wait for a node",
        "crashes": "crash",
        "is leaving": "leave",
        "is starting": "start",
    }.get(one.state, one.state)


def queue_lines(account: QueueAccount) -> Iterator[Line]:
    """What is said about a queue."""
    style = "bold" if account.stop_policy == "None" and account.state == "Open" else "bold yellow"
    yield [Part(account.verdict, style)]
    above = f"below {' < '.join(account.parents)}, " if account.parents else ""
    share = f", share {account.share}" if account.share else ""
    yield [Part(f"  {above}state {account.state}, stop policy {account.stop_policy}{share}", "dim")]
    if account.holdings:
        yield from _heading("Resources")
        yield from _table(account.holdings)
    yield from _section("Capped by", account.caps)
    if any(account.counts.values()):
        told = ", ".join(f"{number} {what}" for what, number in account.counts.items() if number)
        jobs = f"; {counted(account.jobs, 'unfinished BatchJob')}" if account.jobs else ""
        yield from _section("Pod groups", [told + jobs])
    if account.gates:
        yield from _heading("Who waits, by gate")
        width = max(map(len, account.gates))
        for gate, number in account.gates.items():
            yield [Part(f"  {gate.ljust(width)}  {number}")]
    yield from _line(account.waiting)
    yield from _section("Note", account.notes)


def _line(waiting: Sequence[Waiting]) -> Iterator[Line]:
    if not waiting:
        return
    yield from _heading("In line")
    for one in waiting[:_SHOWN]:
        place = f"{one.place}. " if one.place else ""
        yield [Part(f"  {place}{one.namespace}/{one.name} [{one.gate}] "), Part(one.message, "dim")]
    if len(waiting) > _SHOWN:
        yield [Part(f"  and {len(waiting) - _SHOWN} more", "dim")]


_COLUMNS = (
    ("RESOURCE", "resource"),
    ("HOLDS", "held"),
    ("DESERVES", "deserved"),
    ("MAY HOLD", "limit"),
    ("MAY TAKE", "left"),
    ("GUARANTEED", "guaranteed"),
    ("BORROWED", "borrowed"),
    ("LENDABLE", "lendable"),
    ("WAITING", "waiting"),
)


def _table(holdings: Sequence[Holding]) -> Iterator[Line]:
    shown = [(heading, key) for heading, key in _COLUMNS if any(getattr(one, key) for one in holdings)]
    rows = [[getattr(one, key) or "-" for _, key in shown] for one in holdings]
    for number, line in enumerate(plain_table([heading for heading, _ in shown], rows).splitlines()):
        yield [Part(f"  {line}", "" if number else "bold")]


def _heading(text: str) -> Iterator[Line]:
    yield []
    yield [Part(text, "bold")]


def _section(title: str, lines: Sequence[str]) -> Iterator[Line]:
    if lines:
        yield from _heading(title)
        for one in lines:
            yield [Part(f"  {one}")]
