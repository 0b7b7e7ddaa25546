"""``python -m tests.security.bypass_table`` writes the ways around queues that the tests try into docs/security.md."""

from pathlib import Path

from hack import generated_section
from tests.security.test_queue_bypasses import COUNTED, REFUSED

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
_BEGIN = "<!-- bypasses: written by `make golden` -->\n"
_END = "<!-- end of bypasses -->\n"


def table() -> str:
    """Return what is tried, with its answer, as a table in Markdown."""
    refused = [f"| {what} | rejected: `... {answer} ...` |" for what, (_, answer) in REFUSED.items()]
    counted = [f"| {what} | {answer} |" for what, answer in COUNTED.items()]
    return "\n".join(["| tried | answer |", "|---|---|", *refused, *counted]) + "\n"


def written(text: str) -> str:
    """Return the text of the page with the table up to date."""
    return generated_section.replaced(text, _BEGIN, _END, table())


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
