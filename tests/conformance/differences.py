"""Scenarios with intentionally different decisions, read from the document that lists them."""

import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "differences-from-volcano.md"
_ROW = re.compile(r"\|\s*`(?P<name>[^`]+:\d+ [^`]*)`\s*\|(?P<reason>.+)\|\s*$")


def differences() -> dict[str, str]:
    """The reason of each listed scenario, by its name."""
    rows = (_ROW.match(line) for line in DOCUMENT.read_text("utf-8").splitlines())
    return {row["name"]: row["reason"].strip() for row in rows if row}
