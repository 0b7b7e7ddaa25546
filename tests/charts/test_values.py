"""The table of values in the documents is the one of values.yaml."""

import yaml

from hack.chartvalues import BEGIN, END, PAGE, VALUES, table


def test_the_table_in_the_documents_is_up_to_date() -> None:
    written = PAGE.read_text().partition(BEGIN)[2].partition(END)[0].strip()
    assert written == table(), "run `make golden`"


def test_every_value_has_a_row() -> None:
    """A row tells of a value or of all that is in it."""
    rows = {line.split("`")[1] for line in table().splitlines()[2:]}

    def missing(values: object, path: str) -> list[str]:
        if path in rows:
            return []
        if isinstance(values, dict) and values:
            return [each for key, value in values.items() for each in missing(value, f"{path}.{key}".lstrip("."))]
        return [path]

    assert missing(yaml.safe_load(VALUES.read_text()), "") == []
