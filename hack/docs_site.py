"""MkDocs hook: adds the pages outside docs/ to the site and adapts links between files of the repository to it."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
HOME = {"README.md": "index.md"}
"""Files of the repository that have another path in the site."""
PAGES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE",
    "volcanopy/scheduler/README.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("packages/*/README.md")),
)
_LINK = re.compile(r"(?P<text>\[[^\]\n]*\])\((?P<target>[^()\s#]+)(?P<anchor>#[^()\s]*)?\)")
_FENCE_OPTIONS = re.compile(r"^( *```\w+) [\w ]+$", re.MULTILINE)
_FENCE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README, the project's other pages and the examples."""
    examples = [
        path for path in sorted((ROOT / "examples").rglob("*")) if path.is_file() and "__pycache__" not in path.parts
    ]
    for path in [*(ROOT / name for name in PAGES), *examples]:
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, HOME.get(name, name), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with links that hold in the site instead of the repository."""
    source = Path(page.file.abs_src_path or "").relative_to(ROOT).as_posix()
    # What follows the language is for the tests of the pages; the renderer does not know it.
    parts = _FENCE.split(_FENCE_OPTIONS.sub(r"\1", markdown))
    parts[::2] = [_LINK.sub(lambda link: _site_link(link, source, page.file.src_uri), part) for part in parts[::2]]
    return "".join(parts)


def site_path(path: str) -> str:
    """Return the path in the site of a file or folder of the repository; a folder is its README or its first file."""
    if (ROOT / path).is_dir():
        names = sorted(file.name for file in (ROOT / path).iterdir() if file.is_file())
        path = posixpath.join(path, "README.md" if "README.md" in names else names[0])
    return HOME.get(path, path.removeprefix("docs/"))


def _site_link(link: re.Match[str], source: str, page: str) -> str:
    target = link["target"]
    if re.match(r"[a-z]+:", target):
        return link[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    relative = posixpath.relpath(site_path(path), posixpath.dirname(page) or ".")
    return f"{link['text']}({relative}{link['anchor'] or ''})"
