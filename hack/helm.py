"""helm, for the tests of the chart: the program on PATH if it has the required release, else built once from its Go module.

Run as `python -m hack.helm` before the tests (`make helm`); the tests only call `helm()` and never build.
It is kept in `${XDG_CACHE_HOME:-~/.cache}/volcanopy/helm/<key>`, the key being a digest of the Go module `hack/helm`.
Where there is neither helm nor Go, it prints one line and the tests that need it are skipped; with CI set that is a failure.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from hack import gobuild

MODULE = Path(__file__).parent / "helm"
PACKAGE = "helm.sh/helm/v3/cmd/helm"
_log = gobuild.logger("helm")


@functools.cache
def helm() -> Path | None:
    """Return the program, or None if it is not built. Builds nothing."""
    if (program := shutil.which("helm")) and _is_ours(program):
        return Path(program)
    built = cache_folder() / "helm"
    return built if gobuild.runs(built) else None


def helm_version() -> str:
    """Return the release that the Go module requires, such as `v3.22.0`."""
    match = re.search(r"^\s*helm\.sh/helm/v3 (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if match is None:
        raise gobuild.BuildError(f"{MODULE / 'go.mod'} does not require helm.sh/helm/v3: restore that line")
    return match[1]


def cache_folder() -> Path:
    """Return where our own build belongs."""
    return gobuild.cache_folder("helm", MODULE, flags=repr(_stamps()))


def build(go: str) -> None:
    """Build it into `cache_folder()`; a second caller waits for the first. Raises BuildError."""
    folder, program = cache_folder(), cache_folder() / "helm"
    with gobuild.locked(folder, _log):
        if not gobuild.runs(program):
            gobuild.build(go, MODULE, PACKAGE, program, f"helm {helm_version()}", _stamps(), _log)


def _stamps() -> dict[str, str]:
    """Return the version of helm, and the Kubernetes release for which it renders without a cluster."""
    minor = re.search(r"^\s*k8s\.io/client-go v0\.(\d+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    assert minor is not None, "helm is built with client-go"
    kubernetes = {"k8sVersionMajor": "1", "k8sVersionMinor": minor[1]}
    return {
        "helm.sh/helm/v3/internal/version.version": helm_version(),
        **{f"helm.sh/helm/v3/pkg/lint/rules.{name}": value for name, value in kubernetes.items()},
        **{f"helm.sh/helm/v3/pkg/chartutil.{name}": value for name, value in kubernetes.items()},
    }


def main() -> int:
    """Make helm available; 0 also where that is impossible, unless CI is set."""
    if helm():
        return 0
    go = shutil.which("go")
    if go is None:
        reason = f"no Go on PATH to build helm {helm_version()} with, and none in {cache_folder()}"
    else:
        try:
            build(go)
        except gobuild.BuildError as error:
            reason = str(error)
        else:
            return 0
    in_ci = bool(os.environ.get("CI"))
    _log(f"{reason}: {'CI must test the chart' if in_ci else 'the tests of the chart are skipped'}")
    return int(in_ci)


def _is_ours(program: str) -> bool:
    """Whether this program is of the minor release that the tests were written with: its messages are compared."""
    done = subprocess.run([program, "version", "--short"], capture_output=True, text=True, check=False)
    return done.stdout.startswith(helm_version().rpartition(".")[0] + ".")


if __name__ == "__main__":
    sys.exit(main())
