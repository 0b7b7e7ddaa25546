"""A standard stream that is full, closed or of another encoding gives a sentence at most, never a traceback."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.explain.golden_cases import world
from tests.cli.run_commands import COMMAND, run_in_process

COMMANDS = (["--help"], ["crd"], ["--version"])
READS = (
    "queue tree",
    "queue list",
    "queue describe research",
    "job list -o wide",
    "job describe training",
    "explain podgroup training-uid-of-training",
    "pod list",
    "explain job training",
    "explain queue research",
    "--help",
)
LATIN = {"PYTHONIOENCODING": "latin-1"}
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_full_device_is_one_sentence(words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMAND, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == "volcanopy: standard output cannot be written: No space left on device\n"
    assert done.returncode == 1


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_reader_that_has_gone_ends_the_command_without_a_word(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run([*COMMAND, *words], stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == ""


def test_a_closed_output_is_no_error() -> None:
    script = '"$@" >&-'
    command = ["sh", "-c", script, "sh", *COMMAND, "--version"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", ["job submit --filename=-", "sbatch"])
def test_a_closed_input_is_an_empty_one(words: str) -> None:
    command = ["sh", "-c", '"$@" <&-', "sh", *COMMAND, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("volcanopy: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_an_encoding_without_a_character_replaces_it(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j, annotations: {a: 日本 █▓}}\n"
    )
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    done = subprocess.run([*COMMAND, "convert", "-f", str(path)], env=environment, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr
    assert (done.returncode, b"a: ?? ??" in done.stdout) == (0, True)


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    """A server with fixed responses."""
    with world() as path:
        yield path


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize("words", READS)
def test_what_people_read_is_printed_in_latin_1(words: str, kubeconfig: Path) -> None:
    done = run_in_process(*words.split(), kubeconfig=kubeconfig, encoding="latin-1")
    assert (done.status, done.err, bool(done.out)) == (0, "", True)
    assert "?" not in done.out, "every mark has one that the encoding has"


@pytest.mark.parametrize(
    ("words", "variables"), [("queue tree", LATIN), ("queue tree", C_LOCALE), ("explain job training", C_LOCALE)]
)
def test_the_encoding_of_the_environment_is_that_of_the_output(
    words: str, variables: dict[str, str], kubeconfig: Path
) -> None:
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    environment |= {"KUBECONFIG": str(kubeconfig), **variables}
    done = subprocess.run([*COMMAND, *words.split()], env=environment, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr
    assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr
    assert b"?" not in done.stdout, "every mark has one that the encoding has"


@pytest.mark.parametrize("words", ["job run --name a --here -- true", "local up --simulate 1"])
def test_a_current_directory_that_was_deleted_is_one_sentence(words: str, tmp_path: Path) -> None:
    (tmp_path / "deleted").mkdir()
    command = ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", *COMMAND, *words.split()]
    done = subprocess.run(command, cwd=tmp_path / "deleted", stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "volcanopy: the current directory was deleted: change to another one"
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
