"""The image has neither the embedded cluster nor the simulator, and its modules need neither."""

import re
import subprocess
import sys

import pytest

from hack.image import ROOT, context_files

WITHOUT = ("embedded_apiserver", "volcanopy_lab", "volcanopy_local")
"""What the image has not."""
MAIN = "from volcanopy.__main__ import main; main()"
BLOCKED = f"import sys; sys.modules.update(dict.fromkeys({WITHOUT}))\n"


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter in which the modules cannot be imported."""
    command = [sys.executable, "-c", BLOCKED + code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)


def test_every_module_of_the_image_can_be_imported_there() -> None:
    modules = [
        ".".join(path.with_suffix("").parts).removeprefix("packages.policies.").removesuffix(".__init__")
        for path in context_files()
        if path.suffix == ".py"
    ]
    assert len(modules) > 500
    assert {name.partition(".")[0] for name in modules} == {"volcanopy", "volcanopy_policies"}
    result = run(f"import importlib\nfor name in {modules}: importlib.import_module(name)")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("arguments", "content", "extra"),
    [
        (["local", "--help"], "embedded cluster", "local"),
        (["local", "up"], "embedded cluster", "local"),
        (["local", "run", "job.yaml"], "embedded cluster", "local"),
        (["simulate", "ml", "--seeds", "2"], "simulator", "lab"),
        (["simulate", "--help"], "simulator", "lab"),
    ],
)
def test_a_command_of_another_distribution_names_the_extra_that_installs_it(
    arguments: list[str], content: str, extra: str
) -> None:
    result = run(MAIN, *arguments)
    assert result.returncode == 1
    sentence = f"volcanopy: this installation has no {content}, which this command needs: install volcanopy[{extra}]"
    assert result.stderr.startswith(sentence), result.stderr
    assert result.stderr.count("\n") == 1


def test_the_help_lists_the_commands_of_other_distributions() -> None:
    text = run(MAIN, "--help").stdout
    assert "\n  local " in text
    assert re.search(r"^  simulate +Not installed\.$", text, re.MULTILINE), text


@pytest.mark.parametrize(
    ("setting", "output"),
    [
        ("os.environ.update(_VOLCANOPY_COMPLETE='complete_bash', COMP_WORDS='volcanopy local ', COMP_CWORD='2')", ""),
        ("from volcanopy.cli.main import kubectl_completion as main; sys.argv[1:] = ['local', '']", ":4\n"),
    ],
    ids=["bash", "kubectl"],
)
def test_completion_has_no_words_for_commands_that_are_not_installed(setting: str, output: str) -> None:
    result = run(f"import os\nfrom volcanopy.__main__ import main\n{setting}\nmain()")
    assert (result.stdout, result.stderr) == (output, "")
