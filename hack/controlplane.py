"""The second API server: finds, or builds once, the real kube-apiserver and etcd that the tests compare ours with.

Run as `python -m hack.controlplane` before the tests (`make controlplane`); the tests themselves only ask `assets()`
and never build. Where the programs come from, first match wins:

1. the folder in KUBEBUILDER_ASSETS, if it holds all of `PROGRAMS`;
2. `${XDG_CACHE_HOME:-~/.cache}/volcanopy/controlplane/<key>`, the key being a digest of the Go module `hack/envtest`;
3. `go`, if it is on PATH, which builds them into that folder from the published Go modules;
4. nothing: one line says so and the tests on the second server are skipped. With CI set that is a failure instead.

kubectl is the one on PATH; where there is none it is built as well.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")
MODULE = Path(__file__).parent / "envtest"
PROGRESS_SECONDS = 15.0
VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


class BuildError(Exception):
    """The Go build failed; the message ends with the last lines that it printed."""


def assets() -> Path | None:
    """Return the folder that holds all of `PROGRAMS`, or None where nobody has built them. Builds nothing."""
    return next((folder for folder in _candidates() if not missing(folder)), None)


def kubectl() -> Path | None:
    """Return the kubectl on PATH, else the one beside `assets()`, else None."""
    if on_path := shutil.which("kubectl"):
        return Path(on_path)
    return next((folder / "kubectl" for folder in _candidates() if _runs(folder / "kubectl")), None)


def missing(folder: Path) -> list[str]:
    """Return those of `PROGRAMS` that `folder` lacks."""
    return [name for name in PROGRAMS if not _runs(folder / name)]


@functools.cache
def cache_folder() -> Path:
    """Return where our own build belongs: it moves whenever the Go module or the machine's kind changes."""
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()}".encode())
    for file in [MODULE / "go.mod", MODULE / "go.sum", *sorted(MODULE.glob("cmd/*/*.go"))]:
        digest.update(f"\n{file.relative_to(MODULE)}\n".encode())
        digest.update(file.read_bytes())
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "volcanopy" / "controlplane" / digest.hexdigest()[:16]


def kubernetes_version() -> str:
    """Return the Kubernetes release that the Go module asks for, such as `v1.36.3`."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{MODULE / 'go.mod'} does not require k8s.io/kubernetes: restore that line")
    return found[1]


def build(go: str) -> None:
    """Build what is lacking into `cache_folder()`; a second caller waits for the first instead of building too.

    Raises BuildError when Go fails.
    """
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        if missing(folder):
            _go_build(go, "controlplane", folder)
            for name in PROGRAMS:
                _link(folder / name, "controlplane")
        if kubectl() is None:
            _go_build(go, "kubectl", folder)


def main() -> int:
    """Make the programs available; 0 also where that is impossible, unless CI is set."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given and (lacking := missing(Path(given))):
        _say(f"KUBEBUILDER_ASSETS={given} lacks {', '.join(lacking)}: looking elsewhere")
    if assets() and kubectl():
        return 0
    wanted = "kubectl" if assets() else f"Kubernetes {kubernetes_version()}"
    go = shutil.which("go")
    if go is None:
        reason = f"no Go on PATH to build {wanted} with, and none in {cache_folder()}"
    else:
        try:
            build(go)
        except BuildError as error:
            reason = str(error)
        else:
            return 0
    in_ci = bool(os.environ.get("CI"))
    _say(f"{reason}: {'CI must test on it' if in_ci else 'the tests on the second API server are skipped'}")
    return int(in_ci)


def _candidates() -> list[Path]:
    given = os.environ.get("KUBEBUILDER_ASSETS")
    return [Path(given), cache_folder()] if given else [cache_folder()]


def _runs(program: Path) -> bool:
    return program.is_file() and os.access(program, os.X_OK)


def _say(line: str) -> None:
    print(f"control plane: {line}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("someone else is building it: waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


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
    flags = [f"-X {package}.{name}={value}" for package in VERSION_PACKAGES for name, value in stamps.items()]
    fresh = folder / f".{command}.new"
    argv = [
        go,
        "build",
        "-v",
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        f"-ldflags={' '.join(['-s', '-w', *flags])}",
    ]
    _say(f"building {command} of Kubernetes {version} into {folder}, once: this takes minutes")
    started = time.monotonic()
    process = subprocess.Popen(
        [*argv, "-o", str(fresh), f"./cmd/{command}"],
        cwd=MODULE,
        env=os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    # `go build -v` names each package as it compiles it; anything else on stderr is a download or a complaint.
    lines: list[str] = []
    reader = threading.Thread(target=_collect, args=(process.stderr, lines), daemon=True)
    reader.start()
    while True:
        try:
            code = process.wait(PROGRESS_SECONDS)
        except subprocess.TimeoutExpired:
            _say(f"{command}: {len(lines)} packages fetched or compiled in {time.monotonic() - started:.0f} s")
        else:
            break
    reader.join()
    if code != 0:
        tail = "\n".join(lines[-20:])
        raise BuildError(f"`go build ./cmd/{command}` in {MODULE} failed with\n{tail}\n")
    fresh.replace(folder / command)
    _say(f"{command}: built in {time.monotonic() - started:.0f} s")


def _collect(stream: IO[str], lines: list[str]) -> None:
    lines.extend(line.rstrip("\n") for line in stream)


if __name__ == "__main__":
    sys.exit(main())
