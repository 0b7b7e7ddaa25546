"""One parser reads the durations of all options, and every option of a duration is one of text."""

import pytest
from typer.core import TyperGroup

from volcanopy.cli.main import all_commands
from volcanopy.client.durations import positive_seconds, seconds, whole_seconds
from volcanopy.client.errors import CommandError


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30", 30), ("40s", 40), ("5m", 300), ("1h30m", 5400), ("2d", 172800), ("0.5", 0.5), ("0", 0)],
)
def test_a_duration_is_a_number_with_or_without_units(text: str, expected: float) -> None:
    assert seconds("--x", text) == expected


@pytest.mark.parametrize("text", ["", " ", "x", "-5s", "5 m", "1e3", "²", "10001d", "5m5"])
def test_another_text_is_an_error_with_option_and_value(text: str) -> None:
    with pytest.raises(CommandError, match=f"--x: {text!r} is "):
        seconds("--x", text)


def test_limits_of_durations_are_named() -> None:
    with pytest.raises(CommandError, match="use more than 0"):
        positive_seconds("--x", "0s")
    with pytest.raises(CommandError, match="whole seconds"):
        whole_seconds("--x", "500ms")
    with pytest.raises(CommandError, match="use at least 1s"):
        positive_seconds("--x", "500ms", minimum=1)
    assert whole_seconds("--x", "1h") == 3600


def test_no_option_takes_a_duration_as_a_number() -> None:
    def _is_of_time(parameter: object) -> bool:
        help_text = str(getattr(parameter, "help", None) or "")
        return getattr(parameter, "metavar", None) in {"SECONDS", "DURATION"} or help_text.lower().startswith(
            ("seconds", "time")
        )

    def numbers(group: TyperGroup, path: str) -> list[str]:
        found = []
        for name, command in group.commands.items():
            if isinstance(command, TyperGroup):
                found += numbers(command, f"{path} {name}")
                continue
            found += [
                f"{path} {name} {parameter.opts[-1]}"
                for parameter in command.params
                if parameter.opts[-1] == "--timeout" or _is_of_time(parameter)
                if parameter.type.name in {"int", "float", "int range", "float range"}
            ]
        return found

    assert numbers(all_commands(), "volcanopy") == []
