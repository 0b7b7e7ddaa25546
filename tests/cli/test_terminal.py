"""What commands look like: letter by letter in a pipe and in a real terminal."""

from pathlib import Path

import pytest

from tests.cli.fake_api_server import FakeApiServer
from tests.cli.golden_cases import CASES, GOLDEN, Case, output_of, world
from tests.cli.run_commands import COMMAND, run_in_process, run_in_terminal
from volcanopy.cli.main import all_commands


@pytest.fixture(scope="module")
def config():  # type: ignore[no-untyped-def]
    """The way to a server with a fixed world."""
    with world() as (_, path):
        yield path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_output_matches_the_golden_text(case: Case, config: Path) -> None:
    text = output_of(case, config)
    assert text == (GOLDEN / f"{case.name}.txt").read_text(encoding="utf-8"), (
        "python -m tests.cli.golden_cases, if intended"
    )


def test_every_golden_text_has_its_case() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {case.name for case in CASES}


def test_no_help_is_truncated_at_eighty_columns() -> None:
    root = all_commands()
    for name in ("", *(name for name, command in root.commands.items() if hasattr(command, "commands"))):
        api = run_in_process(*([name] if name else []), "--help").out
        assert "..." not in api.partition("Commands:")[2], api


def test_pipes_and_dumb_terminals_get_no_colour(config: Path) -> None:
    assert "\x1b" not in run_in_process("job", "list", kubeconfig=config).out
    status, said = run_in_terminal("job", "list", kubeconfig=config, TERM="dumb")
    assert (status, "\x1b" in said) == (0, False)


def test_a_closed_pipe_is_no_error(server: FakeApiServer, tmp_path: Path) -> None:
    import subprocess

    from tests.cli.fake_api_server import JOBS, a_job

    server.has(JOBS.format("default"), *(a_job(f"job-{number:05}", "Running") for number in range(3000)))
    words = " ".join([*COMMAND, "job", "list", "--kubeconfig", str(server.kubeconfig(tmp_path))])
    piped = subprocess.run(
        ["bash", "-c", f"{words} | head -1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert piped.stderr == ""
    assert piped.stdout.splitlines()[0].startswith("NAME")
    assert piped.stdout.splitlines()[1] in {"141", "1"}
