"""Pages that are written from the code say what the code says."""

import pytest

from hack import clipage, configurationpage

PAGES = [clipage, configurationpage]


@pytest.mark.parametrize("writer", PAGES, ids=lambda writer: writer.PAGE.name)
def test_a_written_page_is_up_to_date(writer: object) -> None:
    page, kept = writer.page(), writer.PAGE.read_text("utf-8")  # type: ignore[attr-defined]
    assert page == kept, "call make golden"


def test_every_argument_says_what_it_is_for() -> None:
    """No row of a table of arguments ends empty."""
    empty = [line for line in configurationpage.page().splitlines() if line.startswith("| `") and line.endswith("|  |")]
    assert [line for line in empty if line.count("|") == 4 and "predicateErrorCacheEnable" not in line] == [
        line for line in empty if line.startswith(("| `enqueue`", "| `shuffle`"))
    ]
