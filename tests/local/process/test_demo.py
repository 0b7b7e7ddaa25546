"""`make demo` runs real programs and shows their results: as root and as a user, on each step of isolation."""

import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hack.distributions import ROOT
from tests.local.process.invocation import USER, as_root, volcanopy
from tests.nightly import nightly

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


def run_demo(
    home: Path,
    root: Path = ROOT,
    *,
    user: bool,
    path: str = "",
    options: tuple[str, ...] = (),
    through: tuple[str, ...] = (),
) -> list[str]:
    """The lines that the demo prints."""
    done = volcanopy([*demo_arguments(), *options], home, root, user=user, path=path, through=through)
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout.splitlines()


def check(lines: list[str], step: str) -> None:
    text = "\n".join(lines)
    assert lines[0].startswith(f"Process nodes use {step}"), lines[0]
    for result in RESULTS:
        assert re.search(result, text), f"{result} is not in:\n{text}"
    assert "is not executed" not in text
    assert len(lines) <= 19, "with the next step that make prints, 20"


def test_the_image_of_the_readme_shows_the_demo() -> None:
    """`python -m hack.demoimage` draws it."""
    text = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", (ROOT / "docs" / "images" / "demo.svg").read_text()))
    words = " ".join(html.unescape(text).split())
    for result in RESULTS:
        assert re.search(result.strip(), words), f"{result} is not in:\n{words}"


@nightly
@as_root
def test_as_root_the_demo_runs_as_plain_processes(open_folder: Path) -> None:
    check(run_demo(open_folder, user=False, options=("--isolation", "plain")), "plain processes")


@as_root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
def test_as_root_of_a_container_without_mounts_and_network_the_demo_runs_as_plain_processes(open_folder: Path) -> None:
    container = (sys.executable, str(Path(__file__).with_name("container.py")))
    if (done := subprocess.run([*container, "true"], text=True, capture_output=True, check=False)).returncode != 0:
        pytest.skip(f"a container cannot be made here: {done.stderr.strip()}")
    check(run_demo(open_folder, user=False, through=container), "plain processes")


@pytest.mark.parametrize("user", [pytest.param(False, marks=as_root), True], ids=["root", "user"])
def test_without_optional_programs_the_demo_runs_in_a_checkout_that_others_cannot_read(
    open_folder: Path, without_optional_programs: str, user: bool
) -> None:
    """As root in name spaces of the kernel, as a user on the best step that works."""
    checkout = open_folder / "closed"
    checkout.mkdir(mode=0o700)
    for name in ("volcanopy", "packages", "examples/demo"):
        shutil.copytree(ROOT / name, checkout / name)
    if user and os.geteuid() == 0:
        for path in (checkout, *checkout.rglob("*")):
            os.chown(path, USER, USER)
    check(run_demo(open_folder, checkout, user=user, path=without_optional_programs), "" if user else "namespaces")


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed: run `make packages`")
def test_as_a_user_the_demo_runs_in_bubblewrap(open_folder: Path) -> None:
    check(run_demo(open_folder, user=True), "bubblewrap")


@nightly
def test_as_a_user_the_demo_runs_as_plain_processes(open_folder: Path) -> None:
    check(run_demo(open_folder, user=True, options=("--isolation", "plain")), "plain processes")
