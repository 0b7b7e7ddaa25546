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

from hack import generated_section

ROOT = Path(__file__).parents[1]
VALUES, PAGE = ROOT / "charts" / "volcanopy" / "values.yaml", ROOT / "docs" / "install.md"
BEGIN, END = "<!-- values: begin (python -m hack.chartvalues) -->", "<!-- values: end -->"
_KEY = re.compile(r"^( *)([\w-]+):(.*)$")


def table() -> str:
    """Return the table: key, default and the comment above the key; a structure is one row."""
    text = VALUES.read_text()
    defaults = yaml.safe_load(text)
    rows = ["| value | default | meaning |", "|---|---|---|"]
    for path, comment in _comments(text):
        default = defaults
        for key in path:
            default = default[key]
        rows.append(f"| `{'.'.join(path)}` | {_shown(default)} | {comment} |")
    return "\n".join(rows)


def _comments(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the keys with a comment, without groups whose keys have comments themselves."""
    comment: list[str] = []
    path: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            comment.append(stripped.removeprefix("#").strip())
            continue
        match = _KEY.match(line)
        if match and len(match[1]) % 2 == 0 and len(match[1]) // 2 <= len(path):
            path[len(match[1]) // 2 :] = [match[2]]
            opens = not match[3].strip() and path != ["scheduler", "config"]
            if comment and not (opens and path[-1] != "resources"):
                yield tuple(path), " ".join(comment)
        comment = []


def _shown(default: Any) -> str:
    """Return a default for the table, empty for empty values."""
    if default in ("", [], {}):
        return ""
    if isinstance(default, dict) and "tiers" in default:
        return "Volcano's"
    text = json.dumps(default, separators=(", ", ": ")) if isinstance(default, dict | list) else str(default)
    return f"`{text.lower() if isinstance(default, bool) else text}`".replace('"', "")


def main() -> int:
    """Write the table."""
    PAGE.write_text(generated_section.replaced(PAGE.read_text(), BEGIN, END, f"\n{table()}\n"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
