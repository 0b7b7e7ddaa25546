"""Chooses how containers are isolated: the strongest step that works here, tried by starting a program."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from volcanopy_local.process.container_spec import DEFAULT_PATH, ContainerSpec
from volcanopy_local.process.file_view import ContainerView, FileView
from volcanopy_local.process.isolation import Bubblewrap, Isolation, Namespaces, PlainProcesses, Process
from volcanopy_local.process.launching import trial
from volcanopy_local.process.users import User

BUBBLEWRAP, NAMESPACES, PLAIN = "bubblewrap", "namespaces", "plain"
STEPS = (BUBBLEWRAP, NAMESPACES, PLAIN)
"""The names of the steps, the strongest first."""


@dataclass(frozen=True)
class Choice:
    """The isolation that is used, None if none works, and why each step before it is not, by its name."""

    isolation: Isolation | None
    rejections: dict[str, str]

    @property
    def reasons(self) -> str:
        """The rejections as the end of a sentence."""
        return "; ".join(f"{name}: {reason}" for name, reason in self.rejections.items())


def choose(steps: tuple[str, ...], view: FileView, user: User) -> Choice:
    """Try steps in their order; programs run as `user` and see the `view`, which plain processes cannot give."""
    rejections: dict[str, str] = {}
    for name in steps:
        isolation = _isolation(name, view, user)
        if isinstance(isolation, str):
            rejections[name] = isolation
        elif reason := _failure(isolation, user):
            rejections[name] = f"rejected here: {reason}"
        else:
            return Choice(isolation, rejections)
    return Choice(None, rejections)


def _isolation(name: str, view: FileView, user: User) -> Isolation | str:
    """The isolation of a step, or why it is not tried."""
    if name == NAMESPACES:
        return Namespaces(view, user)
    if name == PLAIN:
        return PlainProcesses(user)
    if os.geteuid() == 0:
        return "not needed by root, for whom the kernel's own calls do the same"
    program = shutil.which("bwrap")
    if program is None:
        return "not installed"
    options = subprocess.run((program, "--help"), capture_output=True, text=True, check=False).stdout
    return Bubblewrap(program, view, user) if "--ro-bind-fd " in options else "too old: it has no option --ro-bind-fd"


def _failure(isolation: Isolation, user: User) -> str:
    """Why a program cannot be started; empty if it can."""
    with tempfile.TemporaryDirectory(prefix="volcanopy-trial-") as name:
        folder = Path(name).resolve()
        placement = ContainerView({}, folder / "tmp", folder / "hosts", "trial")
        placement.temporary.mkdir()
        placement.shared_memory.mkdir()
        placement.hosts.touch()
        for path in (folder, placement.temporary):
            path.chmod(0o755)
        command = tuple(_program(isolation.root))
        spec = ContainerSpec("trial", command, (), {"PATH": DEFAULT_PATH}, "", ())
        return trial(isolation.command(Process(spec, placement, user)))


def _program(root: Path) -> Iterator[str]:
    """A program that ends at once."""
    for path in ("/bin/true", "/usr/bin/true"):
        if os.path.exists(root / path.lstrip("/")):
            yield path
            return
