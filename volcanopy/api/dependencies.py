"""What waits for what, and whether anything waits for itself in the end: tasks of a job, jobs of a flow."""

from collections.abc import Iterable

import networkx as nx


def circle(waits: Iterable[tuple[str, str]]) -> str:
    """A circle among pairs (who waits, for whom), as ``a -> b -> a``; empty if there is none."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_edges_from(waits)
    try:
        found = nx.find_cycle(graph)
    except nx.NetworkXNoCycle:
        return ""
    return " -> ".join([*(edge[0] for edge in found), found[0][0]])
