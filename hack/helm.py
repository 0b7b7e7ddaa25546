"""helm, for the tests of the chart: the one on PATH if it is of the release we ask for, else built once from its Go module.

Run as `python -m hack.helm` before the tests (`make helm`); the tests themselves only ask `helm()` and never build.
It is kept in `${XDG_CACHE_HOME:-~/.cache}/volcanopy/helm/<key>`, the key being a digest of the Go module `hack/helm`.
Where there is neither helm nor Go, one line says so and the tests that need it are skipped; with CI set that is a failure.
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
_say = gobuild.speaker("helm")


@functools.cache
def helm() -> Path | None:
    """Return the program, or None where nobody has built it. Builds nothing."""
    if (found := shutil.which("helm")) and _is_ours(found):
        return Path(found)
    built = cache_folder() / "helm"
    return built if gobuild.runs(built) else None


def helm_version() -> str:
    """Return the release that the Go module asks for, such as `v3.22.0`."""
    found = re.search(r"^\s*helm\.sh/helm/v3 (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise gobuild.BuildError(f"{MODULE / 'go.mod'} does not require helm.sh/helm/v3: restore that line")
    return found[1]


def cache_folder() -> Path:
    """Return where our own build belongs."""
    return gobuild.cache_folder("helm", MODULE, flags=repr(_stamps()))


def build(go: str) -> None:
    """Build it into `cache_folder()`; a second caller waits for the first. Raises BuildError."""
    folder, program = cache_folder(), cache_folder() / "helm"
    with gobuild.locked(folder, _say):
        if not gobuild.runs(program):
            gobuild.build(go, MODULE, PACKAGE, program, f"helm {helm_version()}", _stamps(), _say)


def _stamps() -> dict[str, str]:
    """What helm says of itself, and the Kubernetes release that it renders for where no cluster is asked."""
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
    _say(f"{reason}: {'CI must test the chart' if in_ci else 'the tests of the chart are skipped'}")
    return int(in_ci)


def _is_ours(program: str) -> bool:
    """Whether this program is of the minor release that the tests were written with: its messages are compared."""
    done = subprocess.run([program, "version", "--short"], capture_output=True, text=True, check=False)
    return done.stdout.startswith(helm_version().rpartition(".")[0] + ".")


if __name__ == "__main__":
    sys.exit(main())
