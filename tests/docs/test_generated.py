"""The generated pages are up to date."""

import pytest

from hack import clipage, configurationpage
from volcanopy.scheduler.core import builtin

PAGES = [clipage, configurationpage]


@pytest.mark.parametrize("generator", PAGES, ids=lambda generator: generator.PAGE.name)
def test_a_generated_page_is_up_to_date(generator: object) -> None:
    page, committed = generator.page(), generator.PAGE.read_text("utf-8")  # type: ignore[attr-defined]
    assert page == committed, "call make golden"


def test_every_argument_has_a_description() -> None:
    """No row of a table of arguments ends empty."""
    empty = [line for line in configurationpage.page().splitlines() if line.startswith("| `") and line.endswith("|  |")]
    actions = tuple(f"| `{name}`" for name, action in builtin().actions.items() if not action.arguments.model_fields)
    assert [line for line in empty if line.count("|") == 4 and not line.startswith(actions)] == []
