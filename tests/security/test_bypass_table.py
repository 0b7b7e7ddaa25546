"""The page about security lists exactly what the tests try, and the powers of users."""

from hack import powerstable
from tests.security import bypass_table
from tests.security.test_queue_bypasses import COUNTED, REFUSED


def test_the_list_of_bypasses_is_up_to_date() -> None:
    text = bypass_table.PAGE.read_text("utf-8")
    assert bypass_table.written(text) == text, "call make golden"


def test_the_table_of_powers_is_up_to_date() -> None:
    text = powerstable.PAGE.read_text("utf-8")
    assert powerstable.written(text) == text, "call make golden"


def test_at_least_a_hundred_ways_are_tried() -> None:
    assert len(REFUSED) + len(COUNTED) >= 100
