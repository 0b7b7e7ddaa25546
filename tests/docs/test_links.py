"""Links lead to where they say, and whoever begins at the README comes to every document."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, pages

_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\((?P<target>[^()\s]+)\)")
_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(?P<title>.+?) *$", re.MULTILINE)
_MARKUP = re.compile(r"\[([^\]]*)\]\([^)]*\)|[`*]")


def links(page: Path) -> list[str]:
    """Where the text of a page points to within this repository; what stands in its blocks is no link."""
    text = re.sub(r"`[^`\n]*`", "", _FENCED.sub("", page.read_text("utf-8")))
    found = [match["target"] for match in _LINK.finditer(text)]
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    for match in _HEADING.finditer(_FENCED.sub("", text)):
        title = _MARKUP.sub(lambda one: one[1] or "", match["title"]).lower()
        anchor = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        found[anchor] = found.get(anchor, -1) + 1
        if found[anchor]:
            found[f"{anchor}-{found[anchor]}"] = 0
    return set(found)


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        where = page.parent / path if path else page
        if not where.exists():
            found.append(f"{target}: there is no such file")
        elif anchor and anchor not in anchors(where.read_text("utf-8")):
            found.append(f"{target}: there is no such heading")
    return found


def reached(start: Path) -> set[Path]:
    """All that can be come to by following links."""
    found: set[Path] = set()
    waiting = [start]
    while waiting:
        page = waiting.pop().resolve()
        if page in found or not page.exists():
            continue
        found.add(page)
        if page.suffix == ".md":
            waiting += [page.parent / path for target in links(page) if (path := target.partition("#")[0])]
    return found


@pytest.mark.parametrize("page", [*pages(), ROOT / "CHANGELOG.md"], ids=lambda page: f"{page.parent.name}/{page.name}")
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_whoever_begins_at_the_readme_comes_to_every_document() -> None:
    found = reached(ROOT / "README.md")
    assert [str(page.relative_to(ROOT)) for page in pages() if page.resolve() not in found] == []


def test_links_in_blocks_and_addresses_elsewhere_are_not_followed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a](b.md) `[c](d.md)` [e](https://f)\n```text\n[g](h.md)\n```\n[i](#j)\n")
    assert links(page) == ["b.md", "#j"]
    assert broken(page) == ["b.md: there is no such file", "#j: there is no such heading"]


def test_anchors_are_those_of_headings() -> None:
    text = "# One `two`: three\n## A job's life\n## A job's life\n```sh\n# no heading\n```\n## [x](y.md) and z\n"
    assert anchors(text) == {"one-two-three", "a-jobs-life", "a-jobs-life-1", "x-and-z"}
