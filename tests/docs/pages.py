"""The blocks of code in the documents, as data.

What a block is for follows from its first word, and what more must be known from the words behind it:

- ``yaml``: manifests; the page's cluster must take them. With ``yaml scheduler`` a scheduler configuration, with
  ``yaml policy`` one of admission, with ``yaml values`` values of the chart, with ``yaml part`` a piece of an object.
- ``console``: commands after ``$``, and what they print. ``...`` stands for anything, and so do ages and times.
  A command may fail whose output begins as a complaint does.
- ``sh``: commands, in order, each of which must end well. ``sh background``: they run until the page ends.
- ``python``: a program.
- ``text``, ``world``, ``mermaid``: pictures and examples that are no commands; tests of their own decide the worlds.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^(?P<indent> *)```(?P<words>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Every document that a reader may come upon."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
    return [page for page in found if page.is_file()]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text, found = page.read_text("utf-8"), []
    for match in _FENCE.finditer(text):
        language, *words = match["words"].split() or [""]
        indent = match["indent"]
        lines = [line.removeprefix(indent) for line in match["text"].splitlines()]
        number = text.count("\n", 0, match.start()) + 1
        found.append(Block(str(page.relative_to(ROOT)), number, language, tuple(words), "\n".join(lines) + "\n"))
    return found


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a console, each with what it prints; lines after ``>`` belong to the command above."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", "")
        elif found:
            command, printed = found[-1]
            found[-1] = (command, printed + line + "\n")
    return found


_VOLATILE = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?"  # moments
    r"|\b(\d+(\.\d+)?(ms|s|m|h|d))+\b"  # ages and times
    r"|127\.0\.0\.1:\d+"
    r"|(/[\w.-]+)+/volcanopy\.kubeconfig"
)


def like(shown: str, printed: str) -> bool:
    """Whether what was printed is what the page shows, but for what differs from one run to the next."""
    pattern = "".join(
        ".*" if part == "..." else re.escape(part) for part in re.split(r"((?<![\w.])\.\.\.(?![\w.]))", _settled(shown))
    )
    return re.fullmatch(pattern, _settled(printed), re.DOTALL) is not None


def _settled(text: str) -> str:
    lines = (re.sub(r"\s+", " ", _VOLATILE.sub("?", line)).strip() for line in text.strip().splitlines())
    return "\n".join(line for line in lines if line)
