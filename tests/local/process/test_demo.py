"""`make demo` runs real programs and shows their results: as root and as a user, on each step of isolation."""

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
USER = 54321
"""An ordinary user, if the tests run as root."""
OPTIONAL = ("bwrap", "unshare", "nsenter", "setpriv")
RESULTS = (
    r"array-index-0 \| 303 primes from 0 to 1999",
    r"flow-sum-main-0 \| sum of 11 squares from 2 files: 385",
    r"gang-worker-0 \| 4 workers started within \d+\.\d\d s; sum of squares by a ring of sockets: 30",
    r"waiting +Pending +0 +2 +2",
    r"job waiting never starts .*1 node\(s\) didn't match pod anti-affinity rules",
    r"  starts with: 1 more node like \"local-1\"",
)


def demo_arguments() -> list[str]:
    """The arguments of volcanopy in the recipe of `make demo`."""
    recipe = re.search(r"\$\(BIN\)/volcanopy (local run .*)", (ROOT / "Makefile").read_text())
    assert recipe is not None
    return recipe[1].split()


@functools.cache
def interpreter(uid: int) -> str | None:
    """A Python that this user can run the product with, None if there is none."""
    for path in (sys.executable, "/usr/bin/python3"):
        check = "import sys, volcanopy.cli.main; print(*sys.version_info[:2])"
        try:
            done = subprocess.run(
                [path, "-c", check], user=uid, group=uid, extra_groups=[], cwd=ROOT, env=_environment(Path("/tmp")), text=True,
                capture_output=True, check=False,
            )  # fmt: skip
        except OSError:
            continue
        if done.returncode == 0 and done.stdout.split() == [str(number) for number in sys.version_info[:2]]:
            return path
    return None


def _environment(home: Path) -> dict[str, str]:
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    return {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def without_optional_programs(open_folder: Path) -> str:
    """A PATH on which the programs that isolation may use are missing."""
    folder = open_folder / "programs"
    folder.mkdir()
    for name in ("/usr/local/bin", "/usr/bin", "/bin"):
        for program in Path(name).iterdir():
            if program.name not in OPTIONAL and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return str(folder)


def run_demo(home: Path, root: Path = ROOT, *, user: bool, path: str = "", options: tuple[str, ...] = ()) -> list[str]:
    """The lines that the demo prints."""
    as_user = user and os.geteuid() == 0
    python = interpreter(USER) if as_user else sys.executable
    if python is None:
        pytest.skip("this Python or these files cannot be read by an ordinary user")
    environment = _environment(home)
    environment["PATH"] = path or environment["PATH"]
    identity = {"user": USER, "group": USER, "extra_groups": []} if as_user else {}
    if as_user:
        os.chown(home, USER, USER)
    done = subprocess.run(
        [python, "-m", "volcanopy", *demo_arguments(), *options], cwd=root, env=environment, text=True, capture_output=True, check=False,
        timeout=120, **identity,  # type: ignore[call-overload]
    )  # fmt: skip
    assert done.stderr == ""
    assert done.returncode == 0
    lines: list[str] = done.stdout.splitlines()
    return lines


def check(lines: list[str], step: str) -> None:
    text = "\n".join(lines)
    assert lines[0].startswith(f"Process nodes use {step}"), lines[0]
    for result in RESULTS:
        assert re.search(result, text), f"{result} is not in:\n{text}"
    assert "is not executed" not in text
    assert len(lines) <= 19, "with the next step that make prints, 20"


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@as_root
@pytest.mark.parametrize("hidden", [False, True], ids=["all programs", "without bubblewrap and unshare"])
def test_as_root_the_demo_runs_in_namespaces_of_the_kernel(
    open_folder: Path, without_optional_programs: str, hidden: bool
) -> None:
    check(run_demo(open_folder, user=False, path=without_optional_programs if hidden else ""), "namespaces")


@as_root
def test_as_root_the_demo_runs_as_plain_processes(open_folder: Path) -> None:
    check(run_demo(open_folder, user=False, options=("--isolation", "plain")), "plain processes")


@as_root
def test_as_root_the_demo_runs_in_a_checkout_that_others_cannot_read(open_folder: Path) -> None:
    checkout = open_folder / "closed"
    checkout.mkdir(mode=0o700)
    for name in ("volcanopy", "examples/demo"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    check(run_demo(open_folder, checkout, user=False), "namespaces")


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed: run `make packages`")
def test_as_a_user_the_demo_runs_in_bubblewrap(open_folder: Path) -> None:
    check(run_demo(open_folder, user=True), "bubblewrap")


def test_as_a_user_without_bubblewrap_the_demo_runs_on_the_best_step_that_works(
    open_folder: Path, without_optional_programs: str
) -> None:
    check(run_demo(open_folder, user=True, path=without_optional_programs), "")


def test_as_a_user_the_demo_runs_as_plain_processes(open_folder: Path) -> None:
    check(run_demo(open_folder, user=True, options=("--isolation", "plain")), "plain processes")
