"""The command line of the measurements."""

import contextlib

import pytest

from bench.__main__ import main


def test_help_names_the_cases(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "Cases: scheduler, " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("case", "text"),
    [("start", "start takes no options"), ("apiserver", "apiserver takes no options"), ("live", "--shape")],
)
def test_help_of_a_case_is_printed_and_nothing_is_measured(
    case: str, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.__main__.unit", lambda: pytest.fail("it measures"))
    with contextlib.suppress(SystemExit):  # of argparse
        assert main([case, "--help"]) == 0
    assert text in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--tenth"], "python -m bench [case"),
        (["shceduler"], "unknown case"),
        (["memory", "start", "--tenth"], "unknown option '--tenth':\nstart takes no options"),
        (["apiserver", "--tenth"], "apiserver takes no options"),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_no_traceback(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert text in capsys.readouterr().out
