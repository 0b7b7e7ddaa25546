"""``volcanopy local`` with a scheduler configuration of one's own."""

from pathlib import Path

from tests.cli.run_commands import run_program
from tests.e2e.world import EXAMPLES


def test_an_invalid_scheduler_file_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text("actions: allocte\n")
    done = run_program(
        "local", "run", str(EXAMPLES / "01-hello"), "--simulate", "3", "--scheduler-config", str(tmp_path / "conf")
    )
    assert done.returncode == 1
    assert done.stderr.strip().splitlines() == [
        f"volcanopy: scheduler failed: scheduler configuration {tmp_path / 'conf'}: actions: unknown action 'allocte', "
        "did you mean 'allocate'?"
    ]
