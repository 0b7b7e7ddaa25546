"""Links in the documents are valid, and every document can be reached from the README."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, pages

_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\((?P<target>[^()\s]+)\)")
_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(?P<title>.+?) *$", re.MULTILINE)
_MARKUP = re.compile(r"\[([^\]]*)\]\([^)]*\)|[`*]")


def links(page: Path) -> list[str]:
    """Return the targets of links within the repository, outside of code blocks."""
    text = re.sub(r"`[^`\n]*`", "", _FENCED.sub("", page.read_text("utf-8")))
    targets = [match["target"] for match in _LINK.finditer(text)]
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub computes them."""
    counts: dict[str, int] = {}
    for match in _HEADING.finditer(_FENCED.sub("", text)):
        title = _MARKUP.sub(lambda match: match[1] or "", match["title"]).lower()
        anchor = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        counts[anchor] = counts.get(anchor, -1) + 1
        if counts[anchor]:
            counts[f"{anchor}-{counts[anchor]}"] = 0
    return set(counts)


def broken(page: Path) -> list[str]:
    """Return the invalid links of a page, with the reason."""
    problems = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        where = page.parent / path if path else page
        if not where.exists():
            problems.append(f"{target}: there is no such file")
        elif anchor and anchor not in anchors(where.read_text("utf-8")):
            problems.append(f"{target}: there is no such heading")
    return problems


def reached(start: Path) -> set[Path]:
    """Return all files that links lead to, directly or through other pages."""
    visited: set[Path] = set()
    waiting = [start]
    while waiting:
        page = waiting.pop().resolve()
        if page in visited or not page.exists():
            continue
        visited.add(page)
        if page.suffix == ".md":
            waiting += [page.parent / path for target in links(page) if (path := target.partition("#")[0])]
    return visited


@pytest.mark.parametrize("page", [*pages(), ROOT / "CHANGELOG.md"], ids=lambda page: f"{page.parent.name}/{page.name}")
def test_every_link_of_a_page_is_valid(page: Path) -> None:
    assert broken(page) == []


def test_every_document_is_reachable_from_the_readme() -> None:
    visited = reached(ROOT / "README.md")
    assert [str(page.relative_to(ROOT)) for page in pages() if page.resolve() not in visited] == []


def test_links_in_blocks_and_external_links_are_ignored(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a](b.md) `[c](d.md)` [e](https://f)\n```text\n[g](h.md)\n```\n[i](#j)\n")
    assert links(page) == ["b.md", "#j"]
    assert broken(page) == ["b.md: there is no such file", "#j: there is no such heading"]


def test_anchors_are_computed_from_headings() -> None:
    text = "# One `two`: three\n## A job's life\n## A job's life\n```sh\n# no heading\n```\n## [x](y.md) and z\n"
    assert anchors(text) == {"one-two-three", "a-jobs-life", "a-jobs-life-1", "x-and-z"}
