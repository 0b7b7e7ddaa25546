"""The page of limits has the values that the code applies."""

from hack import limitspage


def test_the_table_of_limits_is_up_to_date() -> None:
    text = limitspage.PAGE.read_text("utf-8")
    assert limitspage.written(text) == text, "call make golden"


def test_a_row_shows_the_value_of_its_constant() -> None:
    rows = {row.subject: row.value() for row in limitspage.ROWS}
    assert rows["annotations of a job with those of a pod template"] == "256 KiB"
    assert rows["period of audits of what users wrote"] == "15 to 30 s"
