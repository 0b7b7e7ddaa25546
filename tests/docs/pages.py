"""Blocks of code in the documents, as data.

The first word of a block is its language; further words say how it is used:

- ``yaml``: manifests, applied to the cluster of the page. With ``yaml scheduler`` a configuration of the scheduler, with
  ``yaml policy`` one of admission, with ``yaml values`` values of the chart, with ``yaml part`` a part of an object.
- ``console``: commands after ``$`` with their output. ``...`` matches any text; ages and times are not compared.
  If the output begins with an error prefix, the command may fail.
- ``sh``: commands that must succeed. ``sh background``: a process that runs until the end of the page.
- ``python``: a program.
- ``text``, ``world``, ``mermaid``: figures and examples without commands; other tests check the worlds.
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
    """Return every document: README, docs and examples."""
    listed = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
    return [page for page in listed if page.is_file()]


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    text, listed = page.read_text("utf-8"), []
    for match in _FENCE.finditer(text):
        language, *words = match["words"].split() or [""]
        indent = match["indent"]
        lines = [line.removeprefix(indent) for line in match["text"].splitlines()]
        number = text.count("\n", 0, match.start()) + 1
        listed.append(Block(str(page.relative_to(ROOT)), number, language, tuple(words), "\n".join(lines) + "\n"))
    return listed


def commands(text: str) -> list[tuple[str, str]]:
    """Return the commands of a console with their output; lines after ``>`` continue the command above."""
    pairs: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            pairs.append((line[2:], ""))
        elif line.startswith("> ") and pairs and not pairs[-1][1]:
            pairs[-1] = (f"{pairs[-1][0]}\n{line[2:]}", "")
        elif pairs:
            command, printed = pairs[-1]
            pairs[-1] = (command, printed + line + "\n")
    return pairs


_VOLATILE = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?( UTC)?"  # timestamps
    r"|\b(\d+(\.\d+)?(ms|s|m|h|d))+\b"  # ages and times
    r"|127\.0\.0\.1:\d+"
    r"|(/[\w.-]+)+/volcanopy\.kubeconfig"
)


def like(shown: str, printed: str) -> bool:
    """Return whether the output matches the page, except for what differs from run to run."""
    pattern = "".join(
        ".*" if part == "..." else re.escape(part)
        for part in re.split(r"((?<![\w.])\.\.\.(?![\w.]))", _normalized(shown))
    )
    return re.fullmatch(pattern, _normalized(printed), re.DOTALL) is not None


def _normalized(text: str) -> str:
    # kubectl 1.37 adds the namespace to what it has deleted.
    text = re.sub(r"( deleted) from \S+ namespace$", r"\1", text, flags=re.MULTILINE)
    lines = (re.sub(r"\s+", " ", _VOLATILE.sub("?", line)).strip() for line in text.strip().splitlines())
    # The estimate of a start is written some seconds after the job began to wait.
    return "\n".join(line for line in lines if line and not line.startswith("estimated start "))
