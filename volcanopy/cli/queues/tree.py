"""``volcanopy queue tree``: queues as a tree, with a bar each for the amounts of one resource.

All bars have one scale, so that queues can be compared; the amounts are also printed as numbers.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from volcanopy.api import names, quantity
from volcanopy.api.core import Queue
from volcanopy.cli.explain.output import show
from volcanopy.cli.explain.text import Line, StyledText
from volcanopy.cli.framework.options import ClusterOptions
from volcanopy.cli.framework.tables import terminal_width
from volcanopy.client.errors import CommandError
from volcanopy.client.explain.hierarchy import UNFINISHED, full_state, parent_of, state, stop_policy
from volcanopy.client.kinds import read, readable
from volcanopy.client.objects import find_object
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import QUEUES

BAR = 30
"""Maximum width of a bar."""
_MIN_BAR = 8
_PIPE_WIDTH = 100
"""Width of a line where standard output is not a terminal."""
_ALLOCATED, _BORROWED, _FAIR_SHARE, _CAPABILITY = "█", "▓", "▒", "·"
_LEGEND = (
    (_ALLOCATED, "green", " allocated  "),
    (_BORROWED, "yellow", " borrowed  "),
    (_FAIR_SHARE, "cyan", " fair share  "),
    (_CAPABILITY, "dim", " capability"),
)
_GAP = "  "
_DEFAULT_RESOURCES = ("cpu", "memory")
_OPTIONAL = ("WAITING", "CAPABILITY", "JOBS", "FAIR SHARE")
"""Columns that are left out of narrow terminals, in this order; columns without values before others."""


class Amounts(NamedTuple):
    """Amounts of a queue in base units; ``capability`` is None without a limit of its own."""

    allocated: int
    fair_share: int
    capability: int | None
    waiting: int


@dataclass(frozen=True)
class Branch:
    """A queue in the tree: the lines drawn before its name, and its depth."""

    stem: str
    queue: Queue
    depth: int

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.queue.metadata.name


async def print_tree(cluster: ClusterOptions, top: str, resource: str, output: str) -> None:
    """Draw the tree below ``top`` (all queues if empty), or print it as a document."""
    async with cluster.client() as client:
        if top:
            top = read(Queue, await find_object(client, QUEUES, None, top)).metadata.name
        queues = readable(Queue, (await client.list(QUEUES)).items)
    if output == "name":
        print("\n".join(branch.name for branch in branches(queues, top)))
        return
    show(document(queues, top), _drawing(queues, top, resource), output)


def _drawing(queues: Sequence[Queue], top: str, resource: str) -> list[Line]:
    tree = branches(queues, top)
    width = terminal_width() if sys.stdout.isatty() else _PIPE_WIDTH
    return list(lines(tree, select_resource([branch.queue for branch in tree], resource), width))


def branches(queues: Sequence[Queue], top: str = "") -> list[Branch]:
    """Return the queues in the order of the tree, below ``top`` or below those without a parent."""
    by_name = {queue.metadata.name: queue for queue in sorted(queues, key=lambda queue: queue.metadata.name)}
    children: dict[str, list[str]] = {}
    for name, queue in by_name.items():
        children.setdefault(parent_of(queue), []).append(name)
    roots = [top] if top else [name for name, queue in by_name.items() if parent_of(queue) not in by_name]
    result: list[Branch] = []
    drawn: set[str] = set()

    def draw(name: str, stem: str, indent: str, depth: int) -> None:
        if name in drawn:
            return
        drawn.add(name)
        result.append(Branch(stem, by_name[name], depth))
        below = children.get(name, [])
        for number, child in enumerate(below):
            last = number == len(below) - 1
            draw(child, indent + ("└─ " if last else "├─ "), indent + ("   " if last else "│  "), depth + 1)

    for name in sorted(roots, key=lambda name: (name != names.ROOT_QUEUE, name)):
        draw(name, "", "", 0)
    return result


def resources_of(queues: Sequence[Queue]) -> set[str]:
    """Return the resources that queues have amounts of."""
    return {
        resource
        for queue in queues
        for amounts in (
            queue.status.allocated,
            queue.status.fair_share,
            queue.status.waiting,
            queue.status.usage,
            queue.spec.capability,
        )
        for resource in amounts
    }


def select_resource(queues: Sequence[Queue], name: str = "") -> str:
    """Return the resource to draw: ``name``, by default the scarcest, by allocated relative to the fair share.

    Raises CommandError for a resource that no queue has an amount of.
    """
    resources = sorted(resources_of(queues))
    if name:
        if name not in resources and resources:
            raise CommandError(f'--resource: no queue has resource "{name}": use one of {", ".join(resources)}', 2)
        return name
    queue_names = {queue.metadata.name for queue in queues}
    roots = [queue for queue in queues if parent_of(queue) not in queue_names]
    allocated, fair_share = (_sums(roots, field) for field in ("allocated", "fair_share"))
    candidates = [resource for resource in resources if resource != "pods" and fair_share.get(resource)]
    if not candidates:
        return next((resource for resource in (*_DEFAULT_RESOURCES, *resources) if resource in resources), "cpu")
    order = {resource: number for number, resource in enumerate(_DEFAULT_RESOURCES)}
    return max(
        candidates,
        key=lambda resource: (
            allocated.get(resource, 0) / fair_share[resource],
            -order.get(resource, len(order)),
        ),
    )


def _sums(queues: Sequence[Queue], field: str) -> dict[str, int]:
    return quantity.summed(quantity.amounts(getattr(queue.status, field)) for queue in queues)


def amounts_of(queue: Queue, resource: str) -> Amounts:
    """Return the queue's amounts of the resource."""

    def units(quantities: dict[str, Any]) -> int | None:
        return quantity.amount(resource, quantities[resource]) if resource in quantities else None

    status = queue.status
    return Amounts(
        units(status.allocated) or 0,
        units(status.fair_share) or 0,
        units(queue.spec.capability),
        units(status.waiting) or 0,
    )


def bar(amounts: Amounts, scale: int, width: int = BAR) -> list[StyledText]:
    """Return the bar: allocated, of it borrowed, then up to the fair share, then up to the capability."""
    if scale <= 0:
        return [StyledText(" " * width)]

    def end(units: int) -> int:
        return min(max(round(units * width / scale), 1) if units else 0, width)

    own = end(min(amounts.allocated, amounts.fair_share)) if amounts.fair_share else end(amounts.allocated)
    allocated = max(end(amounts.allocated), own)
    fair_share = max(end(amounts.fair_share), allocated)
    capability = max(end(amounts.capability or 0), fair_share)
    return [
        StyledText(_ALLOCATED * own, "green"),
        StyledText(_BORROWED * (allocated - own), "yellow"),
        StyledText(_FAIR_SHARE * (fair_share - allocated), "cyan"),
        StyledText(_CAPABILITY * (capability - fair_share), "dim"),
        StyledText(" " * (width - capability)),
    ]


def lines(tree: Sequence[Branch], resource: str, width: int = _PIPE_WIDTH) -> Iterator[Line]:
    """Return the lines of the tree with headings and legend, in ``width`` characters if possible.

    Narrow terminals get shorter bars, then fewer columns, then no bars.
    """
    rows = [(branch, amounts_of(branch.queue, resource)) for branch in tree]
    scale = max((max(amounts[0], amounts[1], amounts[2] or 0) for _, amounts in rows), default=0)
    cells = [_cells(branch.queue, amounts, resource) for branch, amounts in rows]
    states = [full_state(branch.queue) for branch in tree]
    stem = max(len("QUEUE"), *(len(branch.stem + branch.name) for branch in tree)) if tree else len("QUEUE")
    fixed = stem + len(_GAP) + max(map(len, ("STATE", *states)))
    columns, bar_width = _layout(cells, width - fixed)
    widths = [max(len(column), *(len(row[column]) for row in cells)) if cells else len(column) for column in columns]

    def numbers(texts: Sequence[str]) -> str:
        return "".join(text.rjust(size) + _GAP for text, size in zip(texts, widths, strict=True))

    title = f"{'QUEUE'.ljust(stem)}{_GAP}" + (f"{resource.upper().ljust(bar_width)}{_GAP}" if bar_width else "")
    yield [StyledText(f"{title}{numbers(columns)}STATE", "bold")]
    for (branch, amounts), row, text in zip(rows, cells, states, strict=True):
        yield [
            StyledText(branch.stem, "dim"),
            StyledText(branch.name.ljust(stem - len(branch.stem)) + _GAP),
            *([*bar(amounts, scale, bar_width), StyledText(_GAP)] if bar_width else ()),
            StyledText(numbers([row[column] for column in columns])),
            StyledText(text, "yellow" if text != "Open" else ""),
        ]
    if bar_width:
        yield []
        yield [text for mark, style, name in _LEGEND for text in (StyledText(mark, style), StyledText(name))]


def _layout(cells: Sequence[dict[str, str]], width: int) -> tuple[list[str], int]:
    """Return the columns that fit into ``width``, and the width of the bar."""
    columns = list(cells[0]) if cells else ["ALLOCATED"]
    sizes = {column: max([len(column), *(len(row[column]) for row in cells)]) + len(_GAP) for column in columns}
    unused = [name for name in _OPTIONAL if all(row.get(name, "-") in {"-", "0"} for row in cells)]
    for column in (*unused, *(name for name in _OPTIONAL if name not in unused), ""):
        rest = width - sum(sizes[name] for name in columns) - len(_GAP)
        if rest >= _MIN_BAR:
            return columns, min(rest, BAR)
        if column in columns:
            columns.remove(column)
    return columns, 0


def _cells(queue: Queue, amounts: Amounts, resource: str) -> dict[str, str]:
    return {
        "ALLOCATED": quantity.shown(resource, amounts.allocated),
        "FAIR SHARE": quantity.shown(resource, amounts.fair_share) if amounts.fair_share else "-",
        "CAPABILITY": "-" if amounts.capability is None else quantity.shown(resource, amounts.capability),
        "WAITING": quantity.shown(resource, amounts.waiting) if amounts.waiting else "-",
        "JOBS": str(sum(getattr(queue.status, phase) for phase in UNFINISHED)),
    }


def document(queues: Sequence[Queue], top: str = "") -> Json:
    """Return the tree as an object: each queue with its amounts and children."""
    entries: dict[str, Json] = {}
    roots: list[Json] = []
    for branch in branches(queues, top):
        queue, status = branch.queue, branch.queue.status
        entry: Json = {"name": branch.name, "state": state(queue), "stopPolicy": stop_policy(queue)}
        amounts = {
            "allocated": status.allocated,
            "fairShare": status.fair_share,
            "borrowed": status.borrowed,
            "waiting": status.waiting,
            "capability": queue.spec.capability,
        }
        entry |= {key: quantities for key, quantities in amounts.items() if quantities}
        entries[branch.name] = entry
        parent = entries.get(parent_of(queue)) if branch.depth else None
        if parent is None:
            roots.append(entry)
        else:
            parent.setdefault("children", []).append(entry)
    return {"apiVersion": "volcanopy.io/v1alpha1", "kind": "QueueTree", "queues": roots}
