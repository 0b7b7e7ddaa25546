"""The table of the chart's values in docs/install.md, written from the comments of values.yaml.

`python -m hack.chartvalues` (part of `make golden`) writes it anew between its two marks.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
VALUES, PAGE = ROOT / "charts" / "volcanopy" / "values.yaml", ROOT / "docs" / "install.md"
BEGIN, END = "<!-- values: begin (python -m hack.chartvalues) -->", "<!-- values: end -->"
_KEY = re.compile(r"^( *)([\w-]+):(.*)$")


def table() -> str:
    """The rows: key, default and what the comment above the key says; a whole structure is one row."""
    text = VALUES.read_text()
    defaults = yaml.safe_load(text)
    rows = ["| value | default | meaning |", "|---|---|---|"]
    for path, told in _told(text):
        default = defaults
        for key in path:
            default = default[key]
        rows.append(f"| `{'.'.join(path)}` | {_shown(default)} | {told} |")
    return "\n".join(rows)


def _told(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The keys that have a comment, with it. What is said of a group of which each key is told is no row of its own."""
    comment: list[str] = []
    path: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            comment.append(stripped.removeprefix("#").strip())
            continue
        found = _KEY.match(line)
        if found and len(found[1]) % 2 == 0 and len(found[1]) // 2 <= len(path):
            path[len(found[1]) // 2 :] = [found[2]]
            opens = not found[3].strip() and path != ["scheduler", "config"]
            if comment and not (opens and path[-1] != "resources"):
                yield tuple(path), " ".join(comment)
        comment = []


def _shown(default: Any) -> str:
    """A default as it is written in a table: short, and empty where it is empty."""
    if default in ("", [], {}):
        return ""
    if isinstance(default, dict) and "tiers" in default:
        return "Volcano's"
    text = json.dumps(default, separators=(", ", ": ")) if isinstance(default, dict | list) else str(default)
    return f"`{text.lower() if isinstance(default, bool) else text}`".replace('"', "")


def main() -> int:
    """Write the table."""
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
