"""The page about security lists exactly what the tests try."""

from tests.security import bypass_table


def test_the_list_of_bypasses_is_up_to_date() -> None:
    text = bypass_table.PAGE.read_text("utf-8")
    assert bypass_table.written(text) == text, "call make golden"
