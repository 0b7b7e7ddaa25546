"""Completion: what a shell offers when the script is sourced, in real shells where this machine has them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.fake_api_server import JOBS, FakeApiServer, a_job
from tests.cli.run_commands import read_until, terminal
from volcanopy.api.model import Json

QUEUES = "/apis/scheduling.volcanopy.io/v1beta1/queues"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the executables that the package installs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, module, function in (
        ("volcanopy", "volcanopy.cli.main", "main"),
        ("kubectl-volcanopy", "volcanopy.cli.main", "main"),
        ("kubectl_complete-volcanopy", "volcanopy.cli.main", "kubectl_completion"),
    ):
        program = folder / name
        program.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n")
        program.chmod(0o755)
    return folder


@pytest.fixture
def environment(programs: Path, server: FakeApiServer, tmp_path: Path) -> dict[str, str]:
    """What a shell needs to find the programs and the cluster."""
    server.has(JOBS.format("default"), a_job("training", "Running"), a_job("tuning", "Running"))
    queue: Json = {"metadata": {"name": "research"}, "spec": {}}
    server.has(QUEUES, queue)
    config = server.kubeconfig(tmp_path)
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "KUBECONFIG": str(config), "HOME": str(tmp_path)}


def bash(environment: dict[str, str], *words: str) -> list[str]:
    """What a real bash offers for the last word."""
    typed = " ".join(f"'{word}'" for word in words)
    script = f"""
        source <(volcanopy completion bash)
        function=$(complete -p volcanopy | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
        COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}
        $function volcanopy
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("volcanopy", "jo"), {"job", "jobflow", "jobtemplate"}),
        (("volcanopy", "job", "re"), {"resume", "restart"}),
        (("volcanopy", "job", "get", "t"), {"training", "tuning"}),
        (("volcanopy", "job", "list", "--queue", "r"), {"research"}),
        (("volcanopy", "job", "list", "-o", "j"), {"json"}),
        (("volcanopy", "job", "list", "--all"), {"--all-namespaces"}),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_bash_completes_commands_options_values_and_names(
    words: tuple[str, ...], offered: set[str], environment: dict[str, str]
) -> None:
    assert set(bash(environment, *words)) == offered


def test_an_unreachable_cluster_does_not_block_completion(environment: dict[str, str], server: FakeApiServer) -> None:
    assert bash({**environment, "KUBECONFIG": "/nonexistent"}, "volcanopy", "job", "get", "t") == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_of_other_shells(shell: str, environment: dict[str, str]) -> None:
    asked = {**environment, "_VOLCANOPY_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "volcanopy job su"}
    if shell == "fish":
        asked["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    answer = subprocess.run(["volcanopy"], env=asked, capture_output=True, text=True, check=False, timeout=60)
    assert {"submit", "suspend"} <= set(answer.stdout.replace('"', " ").replace(":", " ").split())


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed: run `make packages`")
def test_fish_completes_when_the_script_is_sourced(environment: dict[str, str]) -> None:
    script = 'volcanopy completion fish | source; complete -C "volcanopy job su"'
    done = subprocess.run(
        ["fish", "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=110
    )
    assert {"submit", "suspend"} <= set(done.stdout.split())
    assert done.stderr == ""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed: run `make packages`")
def test_zsh_completes_a_line_that_is_typed(environment: dict[str, str]) -> None:
    with terminal(["zsh", "-f", "-i"], environment) as (process, end):
        os.write(end, b"autoload -Uz compinit; compinit -u; source <(volcanopy completion zsh); echo rea''dy\n")
        read_until(end, process, "ready")
        os.write(end, b"volcanopy job susp\t")
        assert "suspend" in read_until(end, process, "suspend")


def test_kubectl_completes_its_plugin(environment: dict[str, str], kubectl_program: Path) -> None:
    asked = [str(kubectl_program), "__complete", "volcanopy", "job", "su"]
    answer = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert {"submit", "suspend"} <= set(answer.stdout.split())
