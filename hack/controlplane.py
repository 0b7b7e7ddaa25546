"""The second API server: finds, or builds once, the real kube-apiserver and etcd that the tests compare ours with.

Run as `python -m hack.controlplane` before the tests (`make controlplane`); the tests only call `assets()`
and never build. Where the programs come from, first match wins:

1. the folder in KUBEBUILDER_ASSETS, if it contains all of `PROGRAMS`;
2. `${XDG_CACHE_HOME:-~/.cache}/volcanopy/controlplane/<key>`, the key being a digest of the Go module `hack/envtest`;
3. `go`, if it is on PATH, which builds them into that folder from the published Go modules;
4. nothing: it prints one line and the tests on the second server are skipped. With CI set that is a failure instead.

kubectl is the one on PATH; where there is none it is built as well.

The release is that of `hack/envtest/go.mod`; KUBERNETES=1.30 takes the newest patch of another one, from a module of its
own in the cache, which Go resolves once.
"""

import functools
import json
import os
import re
import shutil
import subprocess
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


def module() -> Path:
    """Return the folder of the Go module: with KUBERNETES set one in the cache, which `resolve` writes."""
    minor = os.environ.get("KUBERNETES")
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "volcanopy" / "envtest" / minor if minor else MODULE


@functools.cache
def cache_folder() -> Path:
    """Return the folder of the build, which depends on the Go module and the platform."""
    folder = module()
    if not (folder / "go.sum").exists():
        return folder  # nothing is built before the module is resolved
    return gobuild.cache_folder("controlplane", folder, sorted(folder.glob("cmd/*/*.go")))


def kubernetes_version() -> str:
    """Return the Kubernetes release that the Go module requires, such as `v1.36.3`."""
    file = module() / "go.mod"
    if not file.exists():
        return f"v{os.environ['KUBERNETES']}"
    match = re.search(r"^\s*k8s\.io/kubernetes (v\S+)", file.read_text(), re.MULTILINE)
    if match is None:
        raise BuildError(f"{file} does not require k8s.io/kubernetes: restore that line")
    return match[1]


def resolve(go: str) -> None:
    """Write the module of the release in KUBERNETES, once: the commands of `MODULE` with that release's packages. Raises BuildError."""
    folder, minor = module(), os.environ.get("KUBERNETES")
    if minor is None or (folder / "go.sum").exists():
        return
    listed = _go(go, MODULE, "list", "-m", "-versions", "k8s.io/kubernetes").split()
    patches = [version for version in listed if re.fullmatch(rf"v{re.escape(minor)}\.\d+", version)]
    if not patches:
        raise BuildError(f"KUBERNETES={minor}: there is no such release; name one like 1.30")
    release = max(patches, key=lambda version: int(version.rpartition(".")[2]))
    described = json.loads(_go(go, MODULE, "mod", "download", "-json", f"k8s.io/kubernetes@{release}"))
    # Releases name the modules of their own tree at v0.0.0; the published ones have the number of the release.
    staged = re.findall(r"^\s*(k8s\.io/\S+) v0\.0\.0\s*$", Path(described["GoMod"]).read_text(), re.MULTILINE)
    published = release.replace("v1.", "v0.", 1)
    required = [
        f"k8s.io/kubernetes {release}",
        *(f"k8s.io/{name} {published}" for name in ("client-go", "component-base", "kubectl")),
    ]
    lines = [
        _module_head(),
        "require (",
        *required,
        ")",
        "replace (",
        *(f"{name} => {name} {published}" for name in staged),
        ")",
    ]
    with gobuild.locked(folder, _log):
        shutil.copytree(MODULE / "cmd", folder / "cmd", dirs_exist_ok=True)
        shutil.rmtree(folder / "cmd" / "node")  # kubelets are those of the release of MODULE only
        (folder / "go.mod").write_text("\n".join(lines) + "\n")
        _go(go, folder, "mod", "tidy")
    cache_folder.cache_clear()


def _module_head() -> str:
    return (MODULE / "go.mod").read_text().partition("require")[0]


def _go(go: str, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [go, *arguments], cwd=folder, env=os.environ | {"GOWORK": "off"}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BuildError(f"`go {' '.join(arguments)}` in {folder} failed with\n{done.stderr[-2000:]}")
    return done.stdout


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
            resolve(go)
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
    gobuild.build(go, module(), f"./cmd/{command}", folder / command, about, names, _log)


if __name__ == "__main__":
    sys.exit(main())
