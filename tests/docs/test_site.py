"""The docs site contains every document, and the documents name files and gates that exist."""

import re

import pytest
import yaml

from hack import docs_site
from tests.docs.pages import ROOT, pages
from volcanopy.api.gates import GATES

_PATH = re.compile(r"`((?:\.?[\w-]+/)+[\w.-]*|[\w.-]+\.(?:md|py|toml|lock|yml|yaml))`")


def nav_paths(nav: object) -> list[str]:
    """Return the paths of all pages in a navigation tree of MkDocs."""
    match nav:
        case str():
            return [nav]
        case list():
            return [path for item in nav for path in nav_paths(item)]
        case dict():
            return [path for item in nav.values() for path in nav_paths(item)]
    raise TypeError(f"not a navigation tree: {nav!r}")


def test_the_navigation_contains_every_document_once() -> None:
    text = re.sub(r"!!python/\S+( \{.*\})?", "", (ROOT / "mkdocs.yml").read_text("utf-8"))
    documents = [*pages(), *(ROOT / name for name in docs_site.PAGES if name.endswith(".md") and name != "README.md")]
    expected = [docs_site.site_path(page.relative_to(ROOT).as_posix()) for page in documents]
    assert sorted(nav_paths(yaml.safe_load(text)["nav"])) == sorted(expected)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("README.md", "index.md"),
        ("docs/jobs.md", "jobs.md"),
        ("docs/decisions", "decisions/README.md"),
        ("examples/02-gang", "examples/02-gang/job.yaml"),
        ("CHANGELOG.md", "CHANGELOG.md"),
    ],
)
def test_a_file_of_the_repository_has_a_path_in_the_site(path: str, expected: str) -> None:
    assert docs_site.site_path(path) == expected


@pytest.mark.parametrize(
    "page",
    [
        "CONTRIBUTING.md",
        "SECURITY.md",
        *(f"docs/{path.relative_to(ROOT / 'docs')}" for path in sorted((ROOT / "docs").rglob("*.md"))),
    ],
)
def test_every_repository_file_in_backticks_exists(page: str) -> None:
    names = {
        name
        for name in _PATH.findall((ROOT / page).read_text("utf-8"))
        if name.split("/")[0] in TOP and "NAME" not in name
    }
    assert [
        name for name in sorted(names) if not any((root / name).exists() for root in (ROOT, ROOT / "volcanopy"))
    ] == []


TOP = {
    path.name for folder in (ROOT, ROOT / "volcanopy") for path in folder.iterdir() if path.name not in {"dist", "site"}
}
"""First parts of paths that are files of the repository or the package."""


def test_the_concepts_list_the_gates_in_order() -> None:
    assert f"\n{' > '.join(GATES)}\n" in (ROOT / "docs" / "concepts.md").read_text("utf-8")


SCHEDULER = ROOT / "volcanopy" / "scheduler"


def test_the_map_of_the_scheduler_lists_every_folder() -> None:
    listed = re.findall(r"^\| `(\w+)/` \|", (SCHEDULER / "README.md").read_text("utf-8"), re.MULTILINE)
    folders = [path.name for path in SCHEDULER.iterdir() if (path / "__init__.py").exists()]
    assert sorted(listed) == sorted(folders)


def test_every_file_that_the_map_of_the_scheduler_names_exists() -> None:
    text = (SCHEDULER / "README.md").read_text("utf-8")
    names = set(re.findall(r"`([\w/]+(?:\.py|/))`", text))
    assert len(names) > 20
    assert [name for name in sorted(names) if not (SCHEDULER / name).exists()] == []
