"""``volcanopy queue tree``: the queues as a tree, with a bar each for what they hold, deserve and may hold of a resource.

All bars are to one scale, so that queues can be compared; what is drawn is also written beside it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from volcanopy.api import names, quantity
from volcanopy.cli.errors import CommandError
from volcanopy.cli.explaining.queue import policy, state
from volcanopy.cli.explaining.reading import parent_of
from volcanopy.cli.explaining.text import Line, Part
from volcanopy.cli.framework.kinds import key_of, spec_of, status_of
from volcanopy.kube.client.kinds import Json

WIDTH = 30
"""Characters of a bar of the largest amount."""
_HELD, _BORROWED, _DUE, _MAY = "█", "▓", "▒", "·"
_GAP = "   "
_USUAL = ("cpu", "memory")


class Amounts(NamedTuple):
    """What a queue holds, is due, may hold at most (None: no limit of its own) and waits for, in base units."""

    held: int
    deserved: int
    capability: int | None
    waiting: int


@dataclass(frozen=True)
class Twig:
    """A queue in its place: what is drawn before its name, and the queue."""

    stem: str
    queue: Json
    depth: int


def twigs(queues: Sequence[Json], top: str = "") -> list[Twig]:
    """The queues in the order in which they are drawn, below ``top`` or below those that have nobody above them."""
    by_name = {key_of(one).name: one for one in queues}
    children: dict[str, list[str]] = {}
    for name, queue in sorted(by_name.items()):
        parent = parent_of(queue)
        if parent in by_name:
            children.setdefault(parent, []).append(name)
    roots = [top] if top else [name for name, queue in sorted(by_name.items()) if parent_of(queue) not in by_name]
    made: list[Twig] = []
    drawn: set[str] = set()

    def draw(name: str, stem: str, indent: str, depth: int) -> None:
        if name in drawn:
            return
        drawn.add(name)
        made.append(Twig(stem, by_name[name], depth))
        below = children.get(name, [])
        for number, child in enumerate(below):
            last = number == len(below) - 1
            draw(child, indent + ("└─ " if last else "├─ "), indent + ("   " if last else "│  "), depth + 1)

    for name in sorted(roots, key=lambda name: (name != names.ROOT_QUEUE, name)):
        draw(name, "", "", 0)
    return made


def resources(queues: Sequence[Json]) -> list[str]:
    """The resources that any queue speaks of."""
    said: set[str] = set()
    for queue in queues:
        status, spec = status_of(queue), spec_of(queue)
        for amounts in (status.get("allocated"), status.get("deserved"), status.get("waiting"), spec.get("capability")):
            said |= set(amounts or {})
    return sorted(said)


def chosen_resource(queues: Sequence[Json], asked: str = "") -> str:
    """The resource to draw: the one asked for, or else the scarcest, by what is held and waited for of what is due.

    Raises Stop for a resource that no queue speaks of.
    """
    known = resources(queues)
    if asked:
        if asked not in known and known:
            raise CommandError(f"--resource: no queue speaks of {asked!r}, only of {', '.join(known)}", 2)
        return asked
    heads = [one for one in queues if parent_of(one) not in {key_of(other).name for other in queues}]
    held, due = (_sums(heads, key) for key in ("allocated", "deserved"))
    drawn = [name for name in known if name != "pods" and due.get(name)]
    if not drawn:
        return next((name for name in (*_USUAL, *known) if name in known), _USUAL[0])
    order = {name: place for place, name in enumerate(_USUAL)}
    return max(drawn, key=lambda name: (held.get(name, 0) / due[name], -order.get(name, len(order))))


def _sums(queues: Sequence[Json], key: str) -> dict[str, int]:
    sums: dict[str, int] = {}
    for queue in queues:
        for name, units in quantity.amounts(status_of(queue).get(key) or {}).items():
            sums[name] = sums.get(name, 0) + units
    return sums


def amounts_of(queue: Json, resource: str) -> Amounts:
    """What the queue has of the resource."""

    def units(part: Json, key: str) -> int | None:
        text = (part.get(key) or {}).get(resource)
        return None if text is None else quantity.amount(resource, text)

    status, spec = status_of(queue), spec_of(queue)
    return Amounts(
        units(status, "allocated") or 0,
        units(status, "deserved") or 0,
        units(spec, "capability"),
        units(status, "waiting") or 0,
    )


def bar(amounts: Amounts, scale: int, width: int = WIDTH) -> list[Part]:
    """What is held, of it what is borrowed, what is due beyond it, and what may be held beyond that; to a scale."""
    if scale <= 0:
        return [Part(" " * width)]

    def until(units: int) -> int:
        places = round(units * width / scale)
        return min(max(places, 1) if units else 0, width)

    own = until(min(amounts.held, amounts.deserved)) if amounts.deserved else until(amounts.held)
    held = max(until(amounts.held), own)
    due = max(until(amounts.deserved), held)
    may = max(until(amounts.capability or 0), due)
    return [
        Part(_HELD * own, "green"),
        Part(_BORROWED * (held - own), "yellow"),
        Part(_DUE * (due - held), "cyan"),
        Part(_MAY * (may - due), "dim"),
        Part(" " * (width - may)),
    ]


def lines(drawn: Sequence[Twig], resource: str) -> Iterator[Line]:
    """The tree, under its headings."""
    rows = [(twig, amounts_of(twig.queue, resource)) for twig in drawn]
    scale = max((max(one.held, one.deserved, one.capability or 0) for _, one in rows), default=0)
    cells = [_cells(twig, amounts, resource) for twig, amounts in rows]
    headings = ("HOLDS", "DESERVES", "MAY HOLD", "WAITING", "JOBS")
    widths = [max(len(line[place]) for line in (headings, *cells)) for place in range(len(headings))]
    stems = max([len("QUEUE"), *(len(twig.stem + key_of(twig.queue).name) for twig, _ in rows)])
    title = f"{'QUEUE'.ljust(stems)}{_GAP}{resource.upper().ljust(WIDTH)}{_GAP}"
    yield [Part(f"{title}{_numbers(headings, widths)}{_GAP}STATE", "bold")]
    for (twig, amounts), row in zip(rows, cells, strict=True):
        name = key_of(twig.queue).name
        yield [
            Part(twig.stem, "dim"),
            Part(name.ljust(stems - len(twig.stem)) + _GAP),
            *bar(amounts, scale),
            Part(_GAP + _numbers(row, widths) + _GAP),
            Part(row[-1], "yellow" if row[-1] != "Open" else ""),
        ]
    yield []
    yield [
        Part(_HELD, "green"),
        Part(" holds  "),
        Part(_BORROWED, "yellow"),
        Part(" has borrowed  "),
        Part(_DUE, "cyan"),
        Part(" deserves besides  "),
        Part(_MAY, "dim"),
        Part(" may hold besides"),
    ]


def _numbers(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(cell.rjust(width) for cell, width in zip(cells, widths, strict=False))


def _cells(twig: Twig, amounts: Amounts, resource: str) -> tuple[str, ...]:
    queue, status = twig.queue, status_of(twig.queue)
    stopped = policy(queue)
    stands = state(queue) if stopped == "None" else f"{state(queue)}, {stopped}"
    limit = "-" if amounts.capability is None else quantity.text(resource, amounts.capability)
    jobs = sum(int(status.get(kind, 0)) for kind in ("pending", "inqueue", "running", "unknown"))
    return (
        quantity.text(resource, amounts.held),
        quantity.text(resource, amounts.deserved) if amounts.deserved else "-",
        limit,
        quantity.text(resource, amounts.waiting) if amounts.waiting else "-",
        str(jobs),
        stands,
    )


def document(queues: Sequence[Json], top: str = "") -> Json:
    """The tree as an object: each queue with what it has, and those below it."""
    made: dict[str, Json] = {}
    heads: list[Json] = []
    for twig in twigs(queues, top):
        queue, name = twig.queue, key_of(twig.queue).name
        status, spec = status_of(queue), spec_of(queue)
        entry: Json = {"name": name, "state": state(queue), "stopPolicy": policy(queue)}
        entry |= {key: status[key] for key in ("allocated", "deserved", "borrowed", "waiting") if status.get(key)}
        entry |= {"capability": spec["capability"]} if spec.get("capability") else {}
        made[name] = entry
        above = made.get(parent_of(queue)) if twig.depth else None
        if above is None:
            heads.append(entry)
        else:
            above.setdefault("children", []).append(entry)
    return {"apiVersion": "volcanopy.io/v1alpha1", "kind": "QueueTree", "queues": heads}
