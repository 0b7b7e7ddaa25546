"""The command line of the measurements."""

import pytest

from bench.__main__ import main


def test_help_names_the_cases(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "Cases: scheduler, " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"), [(["--tenth"], "python -m bench [case"), (["shceduler"], "unknown case")]
)
def test_a_wrong_command_line_is_one_sentence_and_no_traceback(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert text in capsys.readouterr().out
