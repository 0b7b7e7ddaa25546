"""Graphs of flows, queues, HyperNodes and the tasks of a job, and the walks in them.

networkx is imported when the first graph is built: 0.1 s of processor time and 22 MB, which many processes do without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import networkx as nx

Graph: TypeAlias = "nx.DiGraph"
"""A directed graph of names."""


def graph(edges: Iterable[tuple[str, str]], nodes: Iterable[str] = ()) -> Graph:
    """Return the graph of these nodes and edges, such as (parent, child) or (dependency, dependent), in their order."""
    import networkx as nx  # noqa: PLC0415

    result = nx.DiGraph()
    result.add_nodes_from(nodes)
    result.add_edges_from(edges)
    return result


def flow_graph(steps: Iterable[Any]) -> Graph:
    """Return the graph of the steps of a flow (of either model): an edge leads from a step to one that depends on it."""
    steps = tuple(steps)
    step_names = {step.name for step in steps}
    targets = ((step.name, step.depends_on.targets if step.depends_on else ()) for step in steps)
    edges = ((target, name) for name, names in targets for target in names if target in step_names)
    return graph(edges, (step.name for step in steps))


def hyper_node_graph(hyper_nodes: Mapping[str, Any]) -> Graph:
    """Return the graph of HyperNodes and the HyperNodes that they name as members."""
    members = ((name, member) for name, hyper_node in hyper_nodes.items() for member in hyper_node.spec.members)
    selected = ((name, member.selector.exact_match) for name, member in members if member.type == "HyperNode")
    return graph((name, exact.name) for name, exact in selected if exact is not None)


def parents(directed: Graph, name: str) -> list[str]:
    """Return the nodes with an edge to this one, by name; none if it is unknown."""
    return sorted(directed.predecessors(name)) if name in directed else []


def dependency_cycle(dependencies: Iterable[tuple[str, str]]) -> str:
    """Return a cycle of (dependent, dependency) pairs of tasks or jobs as ``a -> b -> a``; empty if there is none."""
    edges = tuple(dependencies)
    return cycle(graph(edges)) if edges else ""


def cycle(directed: Graph) -> str:
    """Return a cycle as ``a -> b -> a``; empty if there is none.

    ``find_cycle`` of a whole graph follows each path anew from each node. From a node on a cycle it takes one walk.
    """
    import networkx as nx  # noqa: PLC0415

    components = (directed.subgraph(nodes) for nodes in nx.strongly_connected_components(directed))
    directed = next((part for part in components if part.number_of_edges()), nx.DiGraph())
    try:
        edges = nx.find_cycle(directed)
    except nx.NetworkXNoCycle:
        return ""
    path = [tail for tail, *_ in edges]
    return " -> ".join([*path, path[0]])


def ancestors(parent: Callable[[str], str], name: str) -> list[str]:
    """Return the parent of a node of a tree and those above it, each once; ``parent`` returns "" for one without any."""
    result = dict.fromkeys([name])
    while (above := parent(name)) and above not in result:
        result[above], name = None, above
    return list(result)[1:]


def distances(children: Mapping[str, Iterable[str]], name: str) -> dict[str, int]:
    """Return the nodes that can be reached from a node, with their distances, the nearest first."""
    result, reached = {name: 0}, [name]
    for node in reached:
        new = [child for child in dict.fromkeys(children.get(node, ())) if child not in result]
        result |= dict.fromkeys(new, result[node] + 1)
        reached += new
    return {node: distance for node, distance in result.items() if distance}


def unreachable_after(directed: Graph, lost_nodes: Iterable[str], waiting: Iterable[str]) -> frozenset[str]:
    """Return the lost nodes, and the waiting ones that depend on them through waiting ones."""
    unreachable, waiting = set(lost_nodes), frozenset(waiting)
    ahead = list(unreachable)
    while ahead:
        below = waiting.intersection(directed.successors(ahead.pop())) - unreachable
        unreachable |= below
        ahead += below
    return frozenset(unreachable)


def levels(directed: Graph) -> dict[str, int]:
    """Return the level of each node, in the order of levels from 1: one more than the highest that it depends on."""
    import networkx as nx  # noqa: PLC0415

    generations = enumerate(nx.topological_generations(directed), 1)
    return {name: level for level, names in generations for name in names}


def critical_path(directed: Graph, seconds: Mapping[str, float]) -> list[str]:
    """Return the path with the longest sum of seconds: what delays one of its nodes delays the end."""
    import networkx as nx  # noqa: PLC0415

    timed = nx.DiGraph()
    for name in directed:
        # The empty name comes before all others.
        timed.add_edges_from([(before, name) for before in ("", *directed.predecessors(name))], seconds=seconds[name])
    return [name for name in nx.dag_longest_path(timed, weight="seconds") if name]
