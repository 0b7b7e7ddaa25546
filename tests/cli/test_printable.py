"""Control characters in objects do not reach the terminal."""

from datetime import UTC, datetime

import pytest

from volcanopy.cli.framework.tables import Column, TableForm, plain_table
from volcanopy.kube.client.printable import printable

ESCAPE = "\x1b]0;owned\x07\x1b[2J"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode ✓\n\ttext", "plain ünïcode ✓\n\ttext"),
        (ESCAPE, "\\x1b]0;owned\\x07\\x1b[2J"),
        ("\r\b\x7f\x9b31m", "\\x0d\\x08\\x7f\\x9b31m"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
    ],
)
def test_control_characters_are_shown(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_tables_contain_no_escape_sequence() -> None:
    form = TableForm((Column("NAME", lambda item, _: str(item)),))
    assert form.cells([ESCAPE], datetime.now(UTC)) == [[printable(ESCAPE)]]
    assert "\x1b" not in plain_table(["A"], [[ESCAPE]])
