"""The program in the README of the simulator runs."""

import re
import runpy
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "packages" / "lab" / "README.md"


def test_the_second_pair_of_jobs_waits_until_the_first_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    program = tmp_path / "readme.py"
    program.write_text(block, "utf-8")
    runpy.run_path(str(program))
    assert 3600 <= float(capsys.readouterr().out) < 3700
