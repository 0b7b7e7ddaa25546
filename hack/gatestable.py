"""``python -m hack.gatestable`` writes the table of gates into the documents that contain its markers."""

from pathlib import Path

from hack import generated_section
from volcanopy.api.gates import GATES, Gate

DOCS = Path(__file__).parents[1] / "docs"
_BEGIN = "<!-- gates: written by `make golden` -->\n"
_END = "<!-- end of gates -->\n"


def table() -> str:
    """Return the gates as a table in Markdown, in the order in which a job passes them."""
    rows = [f"| `{gate}` | {_checked(gate)} | {gate.description} | {gate.unblocked_by} |" for gate in GATES]
    head = ["| gate | checked | passed if | unblocked by |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def pages() -> list[Path]:
    """Return the documents that contain the table."""
    return [page for page in sorted(DOCS.rglob("*.md")) if _BEGIN in page.read_text("utf-8")]


def written(text: str) -> str:
    """Return the text of a document with the table up to date."""
    return generated_section.replaced(text, _BEGIN, _END, table())


def _checked(gate: Gate) -> str:
    stages = [("before pods are created", gate.before_pods), ("before pods are placed", gate.before_nodes)]
    return " and ".join(stage for stage, checked in stages if checked)


if __name__ == "__main__":
    for page in pages():
        page.write_text(written(page.read_text("utf-8")), "utf-8")
