"""The programs of other systems, built once: Volcano and Kueue from copies of their sources, kube-scheduler from its published module."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from hack import controlplane, gobuild
from hack.gobuild import BuildError

SOURCE = "KUEUE_SOURCE"
"""The environment variable with the folder of Kueue's source."""
_log = gobuild.logger("peers")


def kube_scheduler() -> Path:
    """Return kube-scheduler of the release of the API server, which is built if it does not exist. Raises BuildError."""
    module = controlplane.MODULE
    program = gobuild.cache_folder("kube-scheduler", module) / "kube-scheduler"
    release = controlplane.kubernetes_version()
    major, minor, _patch = release.removeprefix("v").split(".", 2)
    stamps = {"gitVersion": release, "gitMajor": major, "gitMinor": minor}
    names = {f"{each}.{name}": value for each in controlplane.VERSION_PACKAGES for name, value in stamps.items()}
    _build(module, "k8s.io/kubernetes/cmd/kube-scheduler", program, f"kube-scheduler {release}", names)
    return program


@dataclass(frozen=True)
class Kueue:
    """Kueue's source, and its program."""

    chart: Path
    manager: Path


def kueue() -> Kueue:
    """Return Kueue, which is built if it does not exist. Raises BuildError."""
    given = os.environ.get(SOURCE)
    if not given:
        raise BuildError(f"{SOURCE} is not set: set it to a folder with Kueue's source")
    source = Path(given).absolute()
    chart = source / "charts" / "kueue"
    if not chart.is_dir():
        raise BuildError(f"{SOURCE}={given} has no folder charts/kueue: it is not Kueue's source")
    program = gobuild.cache_folder("kueue", source, [chart / "Chart.yaml"]) / "kueue"
    _build(source, "./cmd/kueue", program, "Kueue", {})
    return Kueue(chart, program)


def _build(module: Path, package: str, program: Path, about: str, stamps: dict[str, str]) -> None:
    with gobuild.locked(program.parent, _log):
        if gobuild.runs(program):
            return
        go = shutil.which("go")
        if go is None:
            raise BuildError(f"no Go on PATH to build {about} with")
        gobuild.build(go, module, package, program, about, stamps, _log)
