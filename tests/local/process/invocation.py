"""Runs volcanopy as a program of this user, or as root for an ordinary user."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

import embedded_apiserver

ROOT = Path(__file__).resolve().parents[3]
USER = 54321
"""An ordinary user, if the tests run as root."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@functools.cache
def interpreter(uid: int) -> str | None:
    """A Python that this user can run the product with, None if there is none."""
    for path in (sys.executable, "/usr/bin/python3"):
        check = "import sys, volcanopy.cli.main; print(*sys.version_info[:2])"
        try:
            done = subprocess.run(
                [path, "-c", check], user=uid, group=uid, extra_groups=[], cwd=ROOT, env=environment(Path("/tmp")), text=True,
                capture_output=True, check=False,
            )  # fmt: skip
        except OSError:
            continue
        if done.returncode == 0 and done.stdout.split() == [str(number) for number in sys.version_info[:2]]:
            return path
    return None


def environment(home: Path) -> dict[str, str]:
    installed = next(path for path in sys.path if path.endswith("site-packages"))
    packages = os.pathsep.join((installed, str(Path(embedded_apiserver.__file__).parents[1])))
    return {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"}


def volcanopy(
    arguments: list[str],
    home: Path,
    root: Path = ROOT,
    *,
    user: bool,
    path: str = "",
    through: tuple[str, ...] = (),
    seconds: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run volcanopy from the folder `root`, with another PATH if given; `user`: as an ordinary user; `through`: a program."""
    as_user = user and os.geteuid() == 0
    python = interpreter(USER) if as_user else sys.executable
    if python is None:
        pytest.skip("this Python or these files cannot be read by an ordinary user")
    variables = environment(home)
    variables["PATH"] = path or variables["PATH"]
    identity = {"user": USER, "group": USER, "extra_groups": []} if as_user else {}
    if as_user:
        os.chown(home, USER, USER)
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [*through, python, "-m", "volcanopy", *arguments], cwd=root, env=variables, text=True, capture_output=True, check=False,
        timeout=seconds, **identity,  # type: ignore[call-overload]
    )  # fmt: skip
    return done
