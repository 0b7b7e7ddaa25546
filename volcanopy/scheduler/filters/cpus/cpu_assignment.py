"""Cpus by NUMA node, socket and core: which of them a container gets, as the kubelet's managers would decide.

A set of cpus is an integer with a bit for each. All is a question to the :class:`Layout` of a node and the set of its
free cpus, so that nodes which are alike are asked once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

Cpus = int
"""A set of cpus."""
Place = tuple[int, int, int]
"""The NUMA node, the socket and the core of a cpu."""

NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"
POLICIES = (NONE, BEST_EFFORT, RESTRICTED, SINGLE)
"""The policies of the kubelet's topology manager."""
MOST = 1 << 14
"""Cpu numbers are below this."""


def parse(text: str) -> Cpus:
    """A list of numbers and ranges such as ``0-3,8``; raises ValueError for what is none."""
    result = 0
    for part in text.split(","):
        if not part.strip():
            continue
        low, _, high = part.partition("-")
        first, last = int(low), int(high or low)
        if not 0 <= first <= last < MOST:
            raise ValueError(f"{part!r} is no range of cpus")
        result |= (1 << last + 1) - (1 << first)
    return result


def members(cpus: Cpus) -> Iterator[int]:
    """The numbers of the cpus of a set, in order."""
    while cpus:
        low = cpus & -cpus
        yield low.bit_length() - 1
        cpus ^= low


def text(cpus: Cpus) -> str:
    """A set as such a list."""
    parts: list[list[int]] = []
    for cpu in members(cpus):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


class Hint(NamedTuple):
    """NUMA nodes, by their place in the layout, that have the cpus; preferred if no fewer nodes could ever have them."""

    nodes: tuple[int, ...]
    preferred: bool


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the cpus of a node are: sets by NUMA node, by socket and by core, each in the order of their numbers.

    Nodes that are alike share one.
    """

    all: Cpus
    numa_ids: tuple[int, ...]
    numa: tuple[Cpus, ...]
    sockets: tuple[Cpus, ...]
    cores: tuple[Cpus, ...]

    def used(self, cpus: Cpus) -> dict[int, int]:
        """How many of the cpus are on each NUMA node, by its number."""
        return {
            number: (cpus & own).bit_count() for number, own in zip(self.numa_ids, self.numa, strict=True) if cpus & own
        }


@lru_cache(maxsize=1024)
def layout(places: tuple[tuple[int, Place], ...]) -> Layout:
    """The layout of cpus, each given with its place."""
    by_numa: dict[int, Cpus] = {}
    by_socket: dict[int, Cpus] = {}
    by_core: dict[tuple[int, int], Cpus] = {}
    for cpu, (numa, socket, core) in places:
        by_numa[numa] = by_numa.get(numa, 0) | 1 << cpu
        by_socket[socket] = by_socket.get(socket, 0) | 1 << cpu
        by_core[socket, core] = by_core.get((socket, core), 0) | 1 << cpu
    every = 0
    for own in by_numa.values():
        every |= own
    return Layout(every, tuple(sorted(by_numa)), _ordered(by_numa), _ordered(by_socket), _ordered(by_core))


def _ordered(sets: Mapping[int, Cpus] | Mapping[tuple[int, int], Cpus]) -> tuple[Cpus, ...]:
    return tuple(own for _, own in sorted(sets.items()))


def best_hint(where: Layout, free: Cpus, count: int) -> Hint | None:
    """The narrowest set of NUMA nodes with so many free cpus, of equals the first; None if there is none.

    This is the merged hint of a single provider: a preferred hint is narrower than all that are not.
    """
    most_free = sorted(((own & free).bit_count() for own in where.numa), reverse=True)
    largest = sorted((own.bit_count() for own in where.numa), reverse=True)
    width = _width(most_free, count)
    if width is None:
        return None
    # A set comes before another whose highest node is higher: the order of the masks as numbers.
    sets = sorted(combinations(range(len(where.numa)), width), key=lambda nodes: nodes[::-1])
    nodes = next(nodes for nodes in sets if sum((where.numa[one] & free).bit_count() for one in nodes) >= count)
    return Hint(nodes, width == _width(largest, count))


def _width(largest_first: Sequence[int], count: int) -> int | None:
    """How many of the largest together have so many."""
    total = 0
    for width, size in enumerate(largest_first, start=1):
        total += size
        if total >= count:
            return width
    return None


def admits(policy: str, hint: Hint | None) -> bool:
    """Whether the kubelet's topology manager takes a container with this best hint (None: with no alignment at all)."""
    if policy == SINGLE:
        return hint is not None and hint.preferred and len(hint.nodes) == 1
    if policy == RESTRICTED:
        return hint is not None and hint.preferred
    return True


def take(where: Layout, free: Cpus, count: int) -> Cpus | None:
    """So many of the free cpus: whole sockets, then whole cores, then threads of cores that are in use anyway.

    What is begun is gone on with: cores and threads of sockets of which something was taken come first, then those with
    the fewest free cpus, then by number. None if there are not enough.
    """
    if free.bit_count() < count:
        return None
    taken = 0
    for units in (where.sockets, where.cores):
        while True:
            left = count - taken.bit_count()
            whole = [unit for unit in units if unit & free & ~taken == unit and unit.bit_count() <= left]
            if not left or not whole:
                break
            taken |= min(
                whole, key=lambda unit: (-unit.bit_count(), *_leftover(where, free, taken, unit), unit & -unit)
            )
    while taken.bit_count() < count:
        threads = [1 << cpu for cpu in members(free & ~taken)]
        taken |= min(
            threads, key=lambda cpu: (*_leftover(where, free, taken, cpu), _idle(where, free, taken, cpu), cpu)
        )
    return taken


def _leftover(where: Layout, free: Cpus, taken: Cpus, unit: Cpus) -> tuple[bool, int]:
    """Whether the socket is new, and how much is free on it."""
    socket = next(one for one in where.sockets if one & unit)
    return not socket & taken, (socket & free & ~taken).bit_count()


def _idle(where: Layout, free: Cpus, taken: Cpus, cpu: Cpus) -> int:
    """How many threads of the cpu's core are free."""
    core = next(one for one in where.cores if one & cpu)
    return (core & free & ~taken).bit_count()


@lru_cache(maxsize=1 << 16)
def assign(where: Layout, free: Cpus, counts: tuple[int, ...], policy: str) -> tuple[Cpus, ...] | None:
    """The cpus of each container, one after the other, if the policy admits them all; a count of 0 needs none."""
    given: list[Cpus] = []
    for count in counts:
        if not count:
            given.append(0)
            continue
        hint = best_hint(where, free, count)
        if hint is None or not admits(policy, hint):
            return None
        aligned = 0
        for node in hint.nodes:
            aligned |= where.numa[node] & free
        own = take(where, aligned, count)
        assert own is not None, "the hint has enough"
        given.append(own)
        free &= ~own
    return tuple(given)


def reserved(where: Layout, count: int) -> Cpus:
    """The cpus that the kubelet keeps for the system: the first of all."""
    kept = take(where, where.all, count)
    return where.all if kept is None else kept


def union(sets: Iterable[Cpus]) -> Cpus:
    """All cpus of the sets."""
    whole = 0
    for one in sets:
        whole |= one
    return whole
