"""Reference implementation of NUMA node selection: every set of NUMA nodes is tried."""

from itertools import chain, combinations

from volcanopy.scheduler.nodes.cpus import cpu_assignment
from volcanopy.scheduler.nodes.cpus.cpu_assignment import Cpus, Hint, Layout


def hints(where: Layout, free: Cpus, count: int) -> list[tuple[int, Hint]]:
    """All sets of NUMA nodes that have so many free cpus, each with its mask."""
    places = range(len(where.numa))
    subsets = list(chain.from_iterable(combinations(places, width) for width in range(1, len(where.numa) + 1)))
    enough = [nodes for nodes in subsets if sum(where.numa[node].bit_count() for node in nodes) >= count]
    narrowest = min((len(nodes) for nodes in enough), default=0)
    return [
        (sum(1 << node for node in nodes), Hint(nodes, len(nodes) == narrowest))
        for nodes in subsets
        if sum(len(list(cpu_assignment.members(where.numa[node] & free))) for node in nodes) >= count
    ]


def merged(where: Layout, free: Cpus, count: int, policy: str) -> tuple[Hint | None, bool]:
    """The best of the hints by the rules of a policy, and whether the policy admits it."""
    known = hints(where, free, count)
    if policy == cpu_assignment.SINGLE:
        known = [(mask, hint) for mask, hint in known if hint.preferred and len(hint.nodes) == 1]
    preferred = [entry for entry in known if entry[1].preferred] or known
    best = min(preferred, key=lambda item: (len(item[1].nodes), item[0]), default=None)
    if best is None:
        return None, policy in {cpu_assignment.NONE, cpu_assignment.BEST_EFFORT}
    return best[1], policy in {cpu_assignment.NONE, cpu_assignment.BEST_EFFORT} or best[1].preferred
