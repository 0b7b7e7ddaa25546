"""No circle of imports: neither between modules nor between folders, at any depth, the package itself included."""

from collections.abc import Iterator

import grimp
import networkx as nx
import pytest

PACKAGES = ("volcanopy", "embedded_apiserver", "hack", "bench")


def circles(graph: grimp.ImportGraph) -> Iterator[str]:
    """Yield the circles of each folder: between its files and folders, and the folder itself. Imports for types count."""
    for folder in sorted(module for module in graph.modules if graph.find_children(module)):
        inside = nx.DiGraph()
        for module in {folder} | graph.find_descendants(folder):
            for imported in graph.find_modules_directly_imported_by(module):
                if imported == folder or imported.startswith(f"{folder}."):
                    inside.add_edge(_place(module, folder), _place(imported, folder))
        inside.remove_edges_from(list(nx.selfloop_edges(inside)))
        names = [sorted(circle) for circle in nx.strongly_connected_components(inside) if len(circle) > 1]
        yield from (f"{folder}: {', '.join(circle)}" for circle in sorted(names))


def _place(module: str, folder: str) -> str:
    """Return the file or folder inside a folder that contains the module; the folder's name for itself."""
    return module.removeprefix(f"{folder}.").partition(".")[0] if module != folder else folder


@pytest.mark.parametrize("package", PACKAGES)
def test_no_imports_form_a_circle(package: str) -> None:
    assert list(circles(grimp.build_graph(package, cache_dir=None))) == []


def test_a_circle_of_folders_is_found() -> None:
    graph = grimp.ImportGraph()
    for importer, imported in (("p.a.x", "p.b.y"), ("p.b.z", "p.a"), ("p", "p.c"), ("p.c.d", "p.c.e")):
        graph.add_import(importer=importer, imported=imported)
    for module in ("p.a", "p.b"):
        graph.add_module(module)
    assert list(circles(graph)) == ["p: a, b"]
    graph.add_import(importer="p.c", imported="p")
    assert list(circles(graph)) == ["p: a, b", "p: c, p"]
