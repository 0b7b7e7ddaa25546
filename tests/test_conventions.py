"""The conventions that a machine can check: sizes, names, import contracts, lock files and workflows."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from hack.distributions import FOLDERS, IMPORT_PACKAGES, ROOT, VERSIONS, project

CODE = sorted(
    path
    for folder in (*IMPORT_PACKAGES, *(ROOT / name for name in ("bench", "chaos", "hack")))
    for path in folder.rglob("*.py")
)
LONGEST_FILE, LONGEST_FUNCTION = 450, 80
VAGUE = re.compile(r"(^|_)(util|utils|helper|helpers|common|misc|manager|managers)(_|$)")
TERMS = {"field_managers"}
"""Module names that are terms of Kubernetes or of a program."""
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = ("requirements.lock", "requirements-dev.lock")
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_has_one_subject_and_a_limited_size(path: Path) -> None:
    source = path.read_text()
    assert len(source.splitlines()) <= LONGEST_FILE, f"{path}: split it"
    assert path.stem in TERMS or not VAGUE.search(path.stem), f"{path}: name it for its content"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{path}:{node.lineno} {node.name} has {length} lines"


@pytest.mark.parametrize(("folder", "most"), [("volcanopy", 85_000), ("volcanopy/scheduler", 29_500)])
def test_the_product_stays_small_enough_to_carry_on(folder: str, most: int) -> None:
    lines = sum(len(path.read_text().splitlines()) for path in (ROOT / folder).rglob("*.py"))
    assert lines <= most, f"{folder} has {lines} lines: for what is added, remove or unify something"


VIOLATIONS = {
    "layers": ("volcanopy.api.quantity", "volcanopy.scheduler.model.resources"),
    "pure": ("volcanopy.jobcontroller.phases", "socket"),
    "start of controller and admission": ("volcanopy.installed.job_plugins", "volcanopy.scheduler.core"),
    "kopf": ("volcanopy.services.controllers.jobs", "kopf"),
    "start of the scheduler": ("volcanopy.services.scheduler.writers.applier", "volcanopy.whatif.engine"),
    "optional policies": ("volcanopy.scheduler.nodes.assignments", "volcanopy_policies.devices.deviceshare"),
    "optional policies, inside": ("volcanopy_policies.demand", "volcanopy_policies.primetime"),
    "scheduler": ("volcanopy.scheduler.ledger.ledger", "volcanopy.scheduler.engine.session"),
    "invariants": ("volcanopy.scheduler.invariants.gangs", "volcanopy.scheduler.model.subgroups"),
    "plugins": ("volcanopy.scheduler.policies.order.drf", "volcanopy.scheduler.policies.order.gang"),
    "job plugins": ("volcanopy.jobcontroller.plugins.mpi", "volcanopy.jobcontroller.plugins.ssh"),
    "api": ("volcanopy.api.model", "volcanopy.api.batch"),
    "job controller": ("volcanopy.jobcontroller.naming", "volcanopy.jobcontroller.pods"),
    "admission": ("volcanopy.admission.queue_tree", "volcanopy.admission.limits"),
    "cli": ("volcanopy.cli.framework.tables", "volcanopy.cli.views"),
    "embedded API server": ("embedded_apiserver.server", "volcanopy.kube.client"),
    "distributions": ("volcanopy.cli.top", "volcanopy_local.cluster"),
    "embedded API server, inside": ("embedded_apiserver.store.journal", "embedded_apiserver.crud.write"),
    "simulator": ("volcanopy_lab.simulate.workload", "time"),
    "simulator, inside": ("volcanopy_lab.simulate.workload", "volcanopy_lab.simulate.engine"),
    "lab": ("volcanopy_lab.simulate.workload", "volcanopy_lab.reports.report"),
    "simulated nodes": ("volcanopy_local.simulated.timers", "volcanopy_local.simulated.nodes"),
    "client of users": ("volcanopy.client.watch", "volcanopy.client.jobs.pods"),
    "client of users without a terminal": ("volcanopy.client.explain.report", "typer"),
    "client of Kubernetes": ("volcanopy.kube.cache.watch", "volcanopy.scheduler.model.plan"),
    "kube": ("volcanopy.kube.client.connection", "volcanopy.services.scheduler.state.store"),
    "services": ("volcanopy.services.process.health", "volcanopy.services.scheduler.scheduler_service"),
    "chaos": ("volcanopy_local.cluster", "chaos.stage"),
    "judge of chaos": ("chaos.judge", "volcanopy.api.names"),
    "local": ("volcanopy_local.simulated.kubelet", "volcanopy_local.cluster"),
}
"""For each import contract: a module, and another that the contract does not let it import."""


def test_every_import_contract_has_a_violation() -> None:
    assert {contract["name"] for contract in PROJECT["tool"]["importlinter"]["contracts"]} == VIOLATIONS.keys()


@pytest.fixture(scope="module")
def broken_contracts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """By the name of the contract, what import-linter reports about a copy of the code with all violations."""
    root = tmp_path_factory.mktemp("violations")
    for package in (ROOT / "chaos", *IMPORT_PACKAGES):
        shutil.copytree(package, root / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    for module, imported in VIOLATIONS.values():
        with (root / f"{module.replace('.', '/')}.py").open("a") as source:
            source.write(f"\nimport {imported}\n")
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
        ],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(root), "PATH": "", "COLUMNS": "500"},
    )
    assert run.returncode == 1, run.stdout + run.stderr
    sections = re.split(r"^(.+)\n-+\n", run.stdout[run.stdout.index("Broken contracts") :], flags=re.MULTILINE)
    return dict(zip(sections[1::2], sections[2::2], strict=True))


@pytest.mark.parametrize("contract", VIOLATIONS)
def test_an_import_contract_fails_on_a_violation(contract: str, broken_contracts: dict[str, str]) -> None:
    module, imported = VIOLATIONS[contract]
    assert re.search(rf"\b{re.escape(module)} -> {re.escape(imported)} \(l\.\d+\)", broken_contracts[contract])


def test_ruff_rejects_the_clock_and_randomness_in_deciding_code(tmp_path: Path) -> None:
    folder = tmp_path / "volcanopy" / "scheduler"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (folder / "impure.py").write_text(
        '"""Uses the clock."""\n\nfrom datetime import UTC, datetime\nfrom uuid import uuid4\n\nNOW = datetime.now(UTC)\nNAME = uuid4()\n'
    )
    run = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.count("TID251") >= 2, run.stdout


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_file_pins_every_dependency_with_hashes_and_names_no_host(lock: str) -> None:
    text = (ROOT / lock).read_text()
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert [entry.split()[0] for entry in entries if "==" not in entry or "--hash=sha256:" not in entry] == []
    assert not re.search(r"https?:|--(extra-)?index-url|--find-links", text)
    pins = [Requirement(entry.partition("\\")[0].strip()) for entry in entries]
    dependencies = [dependency for folder in FOLDERS for dependency in project(folder)["dependencies"]]
    dependencies += PROJECT["dependency-groups"]["build"]
    dependencies += PROJECT["project"]["optional-dependencies"]["dev"] if "dev" in lock else []
    for dependency in map(Requirement, dependencies):
        if dependency.name in VERSIONS:
            continue
        versions = [pin.specifier for pin in pins if _normal(pin.name) == _normal(dependency.name)]
        assert versions, f"{dependency.name} is not in {lock}: call make lock"
        for version in versions:
            assert dependency.specifier.contains(str(version).removeprefix("==")), f"{dependency}: call make lock"


def test_the_page_of_dependencies_lists_each_and_the_number_of_packages_is_that_of_the_lock() -> None:
    page, readme = (ROOT / "docs/dependencies.md").read_text(), (ROOT / "README.md").read_text()
    names = [Requirement(dependency).name for dependency in PROJECT["project"]["dependencies"]]
    assert re.findall(r"^\| ([a-z0-9-]+) \|.*\d \|", page, re.MULTILINE) == names
    packages = len(re.findall(r"^[a-z0-9].*==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert f"installs {packages} packages" in readme
    assert f"{packages} packages" in page


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_distribution_needs_the_versions_of_the_others_that_the_checkout_has(folder: Path) -> None:
    extras = project(folder).get("optional-dependencies", {}).values()
    needed = map(Requirement, [*project(folder)["dependencies"], *(text for extra in extras for text in extra)])
    for other in (requirement for requirement in needed if requirement.name in VERSIONS):
        assert other.specifier.contains(VERSIONS[other.name]), str(other)


def test_both_lock_files_pin_the_same_versions() -> None:
    run, dev = (set(re.findall(r"^([\w.-]+==[^\\ ]+)", (ROOT / lock).read_text(), re.MULTILINE)) for lock in LOCKS)
    assert run - dev == set()


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_a_workflow_only_calls_make_targets(workflow: Path) -> None:
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert commands
    for command in commands:
        program, *targets = command.split()
        assert program == "make", f"{workflow.name}: {command}"
        assert set(targets) <= TARGETS, f"{workflow.name}: {command}"


def test_every_make_target_is_phony_and_described() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == set(re.findall(r"^([a-z0-9-]+):.*## .", makefile, re.MULTILINE)) == TARGETS


def test_pre_commit_runs_programs_of_the_lock_and_downloads_nothing() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    checks = "".join(re.findall(r"^check-.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        program = hook["entry"].split()[0].removeprefix(".venv/bin/")
        assert f"$(BIN)/{program} " in checks.replace("\n", " \n"), f"{hook['id']} is not part of make check"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_no_text_installs_volcanopy_from_an_index_which_has_no_such_distribution() -> None:
    texts = [*CODE, *(path for folder in (".", "docs", "examples") for path in _pages(ROOT / folder))]
    installs = re.compile(r"pip install\s+['\"]?(kubectl-)?volcanopy\b")
    assert [str(path.relative_to(ROOT)) for path in texts if installs.search(path.read_text())] == []


def _pages(folder: Path) -> list[Path]:
    """The documents of a folder; of the root only those that describe the present."""
    pages = folder.glob("*.md") if folder == ROOT else folder.rglob("*.md")
    return sorted(path for path in pages if path.name != "CHANGELOG.md")
