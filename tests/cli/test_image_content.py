"""The image has neither the embedded API server nor the embedded cluster, and its modules need neither."""

import subprocess
import sys

import pytest

from hack.image import ROOT, context_files

WITHOUT = ("embedded_apiserver", "volcanopy_local")
"""What the image has not."""
BLOCKED = f"import sys; sys.modules.update(dict.fromkeys({WITHOUT}))\n"


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter in which the modules cannot be imported."""
    command = [sys.executable, "-c", BLOCKED + code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)


def test_every_module_of_the_image_but_those_of_volcanopy_local_can_be_imported_there() -> None:
    modules = [
        ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        for path in context_files()
        if path.suffix == ".py"
    ]
    assert len(modules) > 500
    assert [name for name in modules if name.startswith(WITHOUT)] == []
    others = ("volcanopy_local.", "volcanopy.backends.")  # what needs these, or the package of another tool
    importable = [name for name in modules if not name.startswith(others)]
    result = run(f"import importlib\nfor name in {importable}: importlib.import_module(name)")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("arguments", [["local", "up"], ["local", "run", "job.yaml"]])
def test_a_command_that_needs_the_embedded_cluster_says_so(arguments: list[str]) -> None:
    result = run("from volcanopy.__main__ import main; main()", *arguments)
    assert result.returncode == 1
    assert result.stderr.startswith("volcanopy: this installation has no embedded cluster"), result.stderr
