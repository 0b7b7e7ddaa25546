"""What ``explain``, ``queue`` and ``snapshot`` look like, letter by letter."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.explain.golden_cases import CASES, GOLDEN, world
from tests.cli.fake_api_server import NOW
from tests.cli.golden_cases import Case, output_of


@pytest.fixture(scope="module")
def config() -> Iterator[Path]:
    """The way to a server with a fixed world."""
    with world() as path:
        yield path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_output_matches_the_golden_text(case: Case, config: Path) -> None:
    text = output_of(case, config)
    expected = (GOLDEN / f"{case.name}.txt").read_text(encoding="utf-8")
    assert text == expected, "python -m tests.cli.explain.golden_cases, if intended"


def test_every_golden_text_has_its_case() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {case.name for case in CASES}


def test_ages_depend_on_the_injected_clock_only(config: Path) -> None:
    """The age of a queue is 5h30m20s: it must not depend on the minute in which the test runs."""
    case = Case("queue-list-piped", ("queue", "list"))
    ages = [
        {row.split()[-1] for row in output_of(case, config, NOW + timedelta(seconds=later)).splitlines()[2:-1]}
        for later in (0, 39, 40)
    ]
    assert ages == [{"5h30m"}, {"5h30m"}, {"5h31m"}]
