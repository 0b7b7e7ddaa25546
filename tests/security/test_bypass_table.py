"""The page about security lists exactly what the tests try, and the powers of users."""

from tests.security import bypass_table
from tests.security.power_attempts import RESERVED
from tests.security.test_queue_bypasses import COUNTED, REFUSED


def test_the_list_of_bypasses_is_up_to_date() -> None:
    text = bypass_table.PAGE.read_text("utf-8")
    assert bypass_table.written(text) == text, "call make golden"


def test_the_table_of_powers_has_the_reserved_ones() -> None:
    rows = bypass_table.PAGE.read_text("utf-8").splitlines()
    for power in RESERVED:
        permitted = "administrators of the queue and subjects in `unpreemptable`; without both, everybody"
        assert (
            sum(row.startswith(f"| {power.name} | ") and row.endswith(f" | {permitted} | admission |") for row in rows)
            == 1
        )


def test_at_least_a_hundred_ways_are_tried() -> None:
    assert len(REFUSED) + len(COUNTED) >= 100
