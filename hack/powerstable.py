"""``python -m hack.powerstable`` writes the table of powers into docs/security.md."""

from pathlib import Path

from hack import generated_section
from volcanopy.admission.powers import POWERS

PAGE = Path(__file__).parents[1] / "docs" / "security.md"
_BEGIN = "<!-- powers: written by `make golden` -->\n"
_END = "<!-- end of powers -->\n"


def table() -> str:
    """Return the powers as a table in Markdown."""
    rows = [f"| {each.name} | {each.effect} | {each.permitted} | {each.enforced_by or '-'} |" for each in POWERS]
    return "\n".join(["| power | effect | who may use it | enforced by |", "|---|---|---|---|", *rows]) + "\n"


def written(text: str) -> str:
    """Return the text of the page with the table up to date."""
    return generated_section.replaced(text, _BEGIN, _END, table())


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
