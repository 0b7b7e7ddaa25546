"""The second API server: finds, or builds once, the real kube-apiserver and etcd that the tests compare ours with.

Run as `python -m hack.controlplane` before the tests (`make controlplane`); the tests only call `assets()`
and never build. Where the programs come from, first match wins:

1. the folder in KUBEBUILDER_ASSETS, if it contains all of `PROGRAMS`;
2. `${XDG_CACHE_HOME:-~/.cache}/volcanopy/controlplane/<key>`, the key being a digest of the Go module `hack/envtest`;
3. `go`, if it is on PATH, which builds them into that folder from the published Go modules;
4. nothing: it prints one line and the tests on the second server are skipped. With CI set that is a failure instead.

kubectl is the one on PATH; where there is none it is built as well.
"""

import functools
import os
import re
import shutil
import sys
from pathlib import Path

from hack import gobuild
from hack.gobuild import BuildError

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")
NODE_PROGRAMS = ("kubelet", "kube-proxy", "kube-scheduler")
"""What `make realnode` needs besides."""
MODULE = Path(__file__).parent / "envtest"
VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
_log = gobuild.logger("control plane")


def assets() -> Path | None:
    """Return the folder with all of `PROGRAMS`, or None if they are not built. Builds nothing."""
    return next((folder for folder in _candidates() if not missing(folder)), None)


def kubectl() -> Path | None:
    """Return the kubectl on PATH, else the one beside `assets()`, else None."""
    if on_path := shutil.which("kubectl"):
        return Path(on_path)
    return next((folder / "kubectl" for folder in _candidates() if gobuild.runs(folder / "kubectl")), None)


def missing(folder: Path) -> list[str]:
    """Return those of `PROGRAMS` that `folder` lacks."""
    return [name for name in PROGRAMS if not gobuild.runs(folder / name)]


@functools.cache
def cache_folder() -> Path:
    """Return the folder of the build, which depends on the Go module and the platform."""
    return gobuild.cache_folder("controlplane", MODULE, sorted(MODULE.glob("cmd/*/*.go")))


def kubernetes_version() -> str:
    """Return the Kubernetes release that the Go module requires, such as `v1.36.3`."""
    match = re.search(r"^\s*k8s\.io/kubernetes (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if match is None:
        raise BuildError(f"{MODULE / 'go.mod'} does not require k8s.io/kubernetes: restore that line")
    return match[1]


def build(go: str) -> None:
    """Build what is lacking into `cache_folder()`; a second caller waits for the first instead of building too.

    Raises BuildError when Go fails.
    """
    folder = cache_folder()
    with gobuild.locked(folder, _log):
        if missing(folder):
            _go_build(go, "controlplane", folder)
            for name in PROGRAMS:
                _link(folder / name, "controlplane")
        if kubectl() is None:
            _go_build(go, "kubectl", folder)


def build_node_programs(go: str) -> Path:
    """Build `PROGRAMS` and `NODE_PROGRAMS` if they are missing, and return their folder. Raises BuildError."""
    folder = cache_folder()
    with gobuild.locked(folder, _log):
        for command, programs in (("controlplane", PROGRAMS), ("node", NODE_PROGRAMS)):
            if not all(gobuild.runs(folder / name) for name in programs):
                _go_build(go, command, folder)
                for name in programs:
                    _link(folder / name, command)
    return folder


def main() -> int:
    """Make the programs available; 0 also where that is impossible, unless CI is set."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given and (lacking := missing(Path(given))):
        _log(f"KUBEBUILDER_ASSETS={given} lacks {', '.join(lacking)}: looking elsewhere")
    if assets() and kubectl():
        return 0
    program = "kubectl" if assets() else f"Kubernetes {kubernetes_version()}"
    go = shutil.which("go")
    if go is None:
        reason = f"no Go on PATH to build {program} with, and none in {cache_folder()}"
    else:
        try:
            build(go)
        except BuildError as error:
            reason = str(error)
        else:
            return 0
    in_ci = bool(os.environ.get("CI"))
    _log(f"{reason}: {'CI must test on it' if in_ci else 'the tests on the second API server are skipped'}")
    return int(in_ci)


def _candidates() -> list[Path]:
    given = os.environ.get("KUBEBUILDER_ASSETS")
    return [Path(given), cache_folder()] if given else [cache_folder()]


def _link(link: Path, target: str) -> None:
    fresh = link.with_name(f".{link.name}.link")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


def _go_build(go: str, command: str, folder: Path) -> None:
    """Build one command of the module to `folder / command`, which appears whole or not at all."""
    version = kubernetes_version()
    major, minor, _patch = version.removeprefix("v").split(".", 2)
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitCommit": "", "gitTreeState": "clean"}
    names = {f"{package}.{name}": value for package in VERSION_PACKAGES for name, value in stamps.items()}
    about = f"{command} of Kubernetes {version}"
    gobuild.build(go, MODULE, f"./cmd/{command}", folder / command, about, names, _log)


if __name__ == "__main__":
    sys.exit(main())
