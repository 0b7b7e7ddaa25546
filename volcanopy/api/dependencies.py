"""Dependency cycles of the tasks of a job and the jobs of a flow."""

from collections.abc import Iterable

import networkx as nx


def cycle(dependencies: Iterable[tuple[str, str]]) -> str:
    """Return a cycle of (dependent, dependency) pairs as ``a -> b -> a``; empty if there is none."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_edges_from(dependencies)
    try:
        edges = nx.find_cycle(graph)
    except nx.NetworkXNoCycle:
        return ""
    return " -> ".join([*(edge[0] for edge in edges), edges[0][0]])
