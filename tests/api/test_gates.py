"""The gates of a job: one definition, and everything that repeats it agrees with it."""

import re

from hack import gatestable
from volcanopy.api.gates import GATES, Gate
from volcanopy.api.scheduling import Explanation


def test_the_description_of_the_field_lists_the_gates_in_order() -> None:
    description = Explanation.model_fields["gate"].description or ""
    assert description.rpartition(": ")[2].rstrip(".").split(", ") == [gate.value for gate in GATES]


def test_the_tables_in_the_documents_are_up_to_date() -> None:
    pages = gatestable.pages()
    assert {page.name for page in pages} >= {"glossary.md", "waiting.md"}
    for page in pages:
        text = page.read_text("utf-8")
        assert gatestable.written(text) == text, f"{page}: call make golden"


def test_the_page_about_waiting_has_a_section_for_each_gate_in_order() -> None:
    headings = re.findall(r"^## (\w+)$", (gatestable.DOCS / "waiting.md").read_text("utf-8"), re.MULTILINE)
    assert headings == [gate.value for gate in GATES]


def test_each_gate_has_complete_texts() -> None:
    for gate in Gate:
        assert gate.heading
        assert gate.description.endswith(".")
        assert gate.unblocked_by
        assert gate.before_pods or gate.before_nodes
