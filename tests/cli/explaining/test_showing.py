"""What ``explain``, ``queue`` and ``snapshot`` look like, letter by letter."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.explaining.showing import CASES, GOLDEN, world
from tests.cli.showing import Case, shown


@pytest.fixture(scope="module")
def config() -> Iterator[Path]:
    """The way to a server with a fixed world."""
    with world() as path:
        yield path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_looks_as_it_did(case: Case, config: Path) -> None:
    text = shown(case, config)
    expected = (GOLDEN / f"{case.name}.txt").read_text(encoding="utf-8")
    assert text == expected, "python -m tests.cli.explaining.showing, if intended"


def test_every_golden_text_has_its_case() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {case.name for case in CASES}
