"""Assignment of cpus to containers by NUMA node, socket and core, as the kubelet's topology and cpu managers decide.

A set of cpus is an integer with one bit per cpu. Every function depends only on the :class:`Layout` of a node and the set
of its free cpus, so that results are cached for equal nodes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import accumulate, combinations
from operator import or_
from typing import NamedTuple

Cpus = int  # A set of cpus as a bit mask.
Location = tuple[int, int, int]  # The NUMA node, the socket and the core of a cpu.

NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"
POLICIES = (NONE, BEST_EFFORT, RESTRICTED, SINGLE)  # The policies of the kubelet's topology manager.
MAX_CPUS = 1 << 14  # Cpu numbers must be below this.


def parse_cpus(value: str) -> Cpus:
    """Parse a list of numbers and ranges such as ``0-3,8``; raises ValueError if it is invalid."""
    result = 0
    for part in value.split(","):
        if not part.strip():
            continue
        low, _, high = part.partition("-")
        first, last = int(low), int(high or low)
        if not 0 <= first <= last < MAX_CPUS:
            raise ValueError(f"{part!r} is not a range of cpus")
        result |= (1 << last + 1) - (1 << first)
    return result


def members(cpus: Cpus) -> Iterator[int]:
    """Yield the numbers of the cpus of a set, in order."""
    while cpus:
        low = cpus & -cpus
        yield low.bit_length() - 1
        cpus ^= low


def format_cpus(cpus: Cpus) -> str:
    """Format a set as such a list."""
    parts: list[list[int]] = []
    for cpu in members(cpus):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


class Hint(NamedTuple):
    """NUMA nodes, by index in the layout, with enough cpus; preferred if no smaller set could ever have enough."""

    nodes: tuple[int, ...]
    preferred: bool


@dataclass(frozen=True, eq=False)
class Layout:
    """The cpus of a node by NUMA node, by socket and by core, each in the order of their numbers.

    Equal nodes share one layout.
    """

    all: Cpus
    numa_ids: tuple[int, ...]
    numa: tuple[Cpus, ...]
    sockets: tuple[Cpus, ...]
    cores: tuple[Cpus, ...]

    def used(self, cpus: Cpus) -> dict[int, int]:
        """Return the number of the cpus on each NUMA node, by its id."""
        return {
            number: (cpus & local).bit_count()
            for number, local in zip(self.numa_ids, self.numa, strict=True)
            if cpus & local
        }


@lru_cache(maxsize=1024)
def build_layout(locations: tuple[tuple[int, Location], ...]) -> Layout:
    """Return the layout of cpus, each given with its location."""
    by_numa: dict[int, Cpus] = {}
    by_socket: dict[int, Cpus] = {}
    by_core: dict[tuple[int, int], Cpus] = {}
    for cpu, (numa, socket, core) in locations:
        by_numa[numa] = by_numa.get(numa, 0) | 1 << cpu
        by_socket[socket] = by_socket.get(socket, 0) | 1 << cpu
        by_core[socket, core] = by_core.get((socket, core), 0) | 1 << cpu
    return Layout(
        union(by_numa.values()), tuple(sorted(by_numa)), _ordered(by_numa), _ordered(by_socket), _ordered(by_core)
    )


def _ordered(sets: Mapping[int, Cpus] | Mapping[tuple[int, int], Cpus]) -> tuple[Cpus, ...]:
    return tuple(cpus for _, cpus in sorted(sets.items()))


def best_hint(layout: Layout, free: Cpus, count: int) -> Hint | None:
    """Return the smallest set of NUMA nodes with ``count`` free cpus, the first of equal size; None without one.

    This is the merged hint of a single provider: a preferred hint is smaller than all that are not preferred.
    """
    most_free = sorted(((cpus & free).bit_count() for cpus in layout.numa), reverse=True)
    largest = sorted((cpus.bit_count() for cpus in layout.numa), reverse=True)
    width = _width(most_free, count)
    if width is None:
        return None
    # A set comes before another whose highest node is higher: the order of the masks as numbers.
    sets = sorted(combinations(range(len(layout.numa)), width), key=lambda nodes: nodes[::-1])
    nodes = next(nodes for nodes in sets if sum((layout.numa[node] & free).bit_count() for node in nodes) >= count)
    return Hint(nodes, width == _width(largest, count))


def _width(largest_first: Sequence[int], count: int) -> int | None:
    """Return how many of the largest sizes are needed for a total of ``count``; None if all are not enough."""
    return next((width for width, total in enumerate(accumulate(largest_first), start=1) if total >= count), None)


def admits(policy: str, hint: Hint | None) -> bool:
    """Return whether the kubelet's topology manager admits a container with this best hint (None: no alignment)."""
    if policy == SINGLE:
        return hint is not None and hint.preferred and len(hint.nodes) == 1
    if policy == RESTRICTED:
        return hint is not None and hint.preferred
    return True


def take(layout: Layout, free: Cpus, count: int) -> Cpus | None:
    """Return ``count`` free cpus: whole sockets, then whole cores, then threads of cores in use; None if not enough are free.

    Cores and threads of sockets that are already taken from come first, then those with the fewest free cpus, then by
    number.
    """
    if free.bit_count() < count:
        return None
    taken = 0
    for units in (layout.sockets, layout.cores):
        while True:
            left = count - taken.bit_count()
            whole = [unit for unit in units if unit & free & ~taken == unit and unit.bit_count() <= left]
            if not left or not whole:
                break
            taken |= min(
                whole, key=lambda unit: (-unit.bit_count(), *_socket_order(layout, free, taken, unit), unit & -unit)
            )
    while taken.bit_count() < count:
        threads = [1 << cpu for cpu in members(free & ~taken)]
        core_of = {cpu: next(core for core in layout.cores if core & cpu) & free & ~taken for cpu in threads}
        order = {cpu: (*_socket_order(layout, free, taken, cpu), core_of[cpu].bit_count(), cpu) for cpu in threads}
        taken |= min(threads, key=order.__getitem__)
    return taken


def _socket_order(layout: Layout, free: Cpus, taken: Cpus, unit: Cpus) -> tuple[bool, int]:
    """Return whether nothing is taken from the socket, and its number of free cpus."""
    socket = next(socket for socket in layout.sockets if socket & unit)
    return not socket & taken, (socket & free & ~taken).bit_count()


@lru_cache(maxsize=1 << 16)
def assign(layout: Layout, free: Cpus, counts: tuple[int, ...], policy: str) -> tuple[Cpus, ...] | None:
    """Return the cpus of each container in order, None if the policy rejects one; a count of 0 needs no cpus."""
    assigned: list[Cpus] = []
    for count in counts:
        if not count:
            assigned.append(0)
            continue
        hint = best_hint(layout, free, count)
        if hint is None or not admits(policy, hint):
            return None
        taken = take(layout, union(layout.numa[node] for node in hint.nodes) & free, count)
        assert taken is not None, "the hint has enough"
        assigned.append(taken)
        free &= ~taken
    return tuple(assigned)


def reserved(layout: Layout, count: int) -> Cpus:
    """Return the cpus that the kubelet reserves for the system: the first ones."""
    cpus = take(layout, layout.all, count)
    return layout.all if cpus is None else cpus


def union(sets: Iterable[Cpus]) -> Cpus:
    """Return the union of sets of cpus."""
    return reduce(or_, sets, 0)
