"""No circle of imports: neither between modules nor between folders, at any depth, the package itself included.

And the tests of the embedded API server run where only its own distribution is installed.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import grimp
import networkx as nx
import pytest

from hack.distributions import IMPORT_PACKAGES, ROOT

PACKAGES = (*(folder.name for folder in IMPORT_PACKAGES), "hack", "bench", "chaos")


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


def imported_modules(file: Path) -> Iterator[str]:
    """Yield the names of the modules that a file imports, and of their members."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def test_few_modules_know_that_there_are_several_apis() -> None:
    """Other modules have volcanopy's names only: the API of an object is translated at the edges."""
    importers = {
        str(path.relative_to(ROOT))
        for package in IMPORT_PACKAGES
        for path in package.rglob("*.py")
        if path.parent != ROOT / "volcanopy/api" and "volcanopy.api.bindings" in set(imported_modules(path))
    }
    assert len(importers) <= 12, sorted(importers)


def test_tests_of_the_embedded_api_server_need_no_other_distribution() -> None:
    """Neither they nor the modules of this repository that they import use volcanopy."""
    files = list((ROOT / "packages/apiserver/tests").rglob("*.py"))
    for file in files:
        names = set(imported_modules(file))
        assert not [name for name in names if name.startswith("volcanopy")], file
        paths = (ROOT / f"{name.replace('.', '/')}.py" for name in names if name.startswith(("tests.", "hack.")))
        files += [path for path in paths if path.is_file() and path not in files]
    assert ROOT / "tests/controlplane/plane.py" in files
