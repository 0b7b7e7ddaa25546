"""Runs volcanopy as a program of this user, or as root for an ordinary user."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hack.distributions import IMPORT_PACKAGES, ROOT

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


def environment(home: Path, root: Path = ROOT) -> dict[str, str]:
    installed = next(path for path in sys.path if path.endswith("site-packages"))
    folders = [str(root / folder.parent.relative_to(ROOT)) for folder in IMPORT_PACKAGES]
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join([installed, *folders]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


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
    variables = environment(home, root)
    variables["PATH"] = path or variables["PATH"]
    identity = {"user": USER, "group": USER, "extra_groups": []} if as_user else {}
    if as_user:
        os.chown(home, USER, USER)
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [*through, python, "-m", "volcanopy", *arguments], cwd=root, env=variables, text=True, capture_output=True, check=False,
        timeout=seconds, **identity,  # type: ignore[call-overload]
    )  # fmt: skip
    return done
