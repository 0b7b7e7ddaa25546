"""What the README shows works: the fixture with kinds from files, and the command."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
DEFINITION, *_ = re.findall(r"^```yaml\n(# crds/widgets.yaml\n.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the files of the README."""
    (settings,) = re.findall(r"^```ini\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    (tmp_path / "pytest.ini").write_text(settings)
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds/widgets.yaml").write_text(DEFINITION)
    for number, module in enumerate(re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)):
        (tmp_path / f"test_readme_{number}.py").write_text(module)
    return tmp_path


def pytest_in(project: Path) -> str:
    """Run pytest in a project, which has only what is installed; return its output."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--quiet"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=300).stdout


def test_the_tests_of_the_readme_pass(project: Path) -> None:
    pytest.importorskip("kubernetes")
    output = pytest_in(project)
    assert "3 passed" in output, output


def test_each_test_has_a_cluster_of_its_own(project: Path) -> None:
    for name in ("a", "b"):
        (project / f"test_{name}.py").write_text(
            "def test(apiserver):\n"
            "    body = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'm'}, 'data': {}}\n"
            "    assert apiserver.apply(body)[0]['metadata']['resourceVersion'] != '0'\n"
            f"    body['data'] = {{{name!r}: 'x'}}\n"
            f"    assert list(apiserver.apply(body)[0]['data']) == [{name!r}]\n"
        )
    for module in project.glob("test_readme_*.py"):
        module.unlink()
    output = pytest_in(project)
    assert "2 passed" in output, output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Widget", "crds/wrong.yaml, document 1: apiVersion is missing"),
        ("[", "crds/wrong.yaml: neither YAML nor JSON"),
        ("{apiVersion: no/v1, kind: Such, metadata: {name: x}}", "kind Such of no/v1 is not served"),
        ("{apiVersion: example.io/v1, kind: Widget, metadata: {name: x}, spec: {size: 0}}", "spec.size: Invalid value"),
    ],
)
def test_a_manifest_that_is_wrong_ends_the_command_with_a_sentence(project: Path, text: str, message: str) -> None:
    (project / "crds/wrong.yaml").write_text(text)
    command = [sys.executable, "-m", "embedded_apiserver", "--filename", "crds"]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 1
    assert run.stderr.startswith("error: ")
    assert message in run.stderr
    assert "Traceback" not in run.stderr


@pytest.fixture
def command(project: Path) -> Iterator[str]:
    """The URL of a server that the command of the README runs."""
    (line,) = re.findall(r"^embedded-apiserver (.*)$", README, re.MULTILINE)
    arguments = [sys.executable, "-m", "embedded_apiserver", *line.split()]
    with subprocess.Popen(arguments, cwd=project, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


def test_the_command_serves_the_kinds_of_a_folder(project: Path, command: str) -> None:
    client = pytest.importorskip("kubernetes").client
    config = pytest.importorskip("kubernetes").config
    api = client.CustomObjectsApi(config.new_client_from_config(str(project / "kubeconfig")))
    assert command.startswith("http://127.0.0.1:")
    assert api.list_namespaced_custom_object("example.io", "v1", "default", "widgets")["items"] == []
