"""The programs of Volcano's end-to-end suites, and vcctl, built once from a copy of Volcano's source.

They are kept in `${XDG_CACHE_HOME:-~/.cache}/volcanopy/volcano-e2e/<key>`, the key being a digest of the source.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hack import gobuild
from hack.gobuild import BuildError

SOURCE = "VOLCANO_SOURCE"
"""The environment variable with the folder of Volcano's source."""
Variant = Literal["", "refusals", "no-kubelet"]
"""How a suite differs from Volcano's: not at all; the words of a refusal are not compared; drivers of devices publish what
they have and register with no kubelet, so the variables that they give to containers are not compared."""
_WORDS = re.compile(r"(?<!\w)gomega\.ContainSubstring\((?:\"[^\"]*\"|`[^`]*`)\)")
_DRIVER = "drautils.NewDriver("
_VARIABLES = "testContainerEnv(ctx, f, pod, container.Name, false, env...)"
"""The comparison of a container's variables, which a kubelet takes from the driver of its devices."""
_ALONE = """
func alone[F, N, R, M any](start func(F, N, R, ...M) *drautils.Driver) func(F, N, R, ...M) *drautils.Driver {
	return func(f F, nodes N, resources R, more ...M) *drautils.Driver {
		driver := start(f, nodes, resources, more...)
		driver.WithKubelet = false
		return driver
	}
}
"""
"""A function of the suite of devices: drivers that it starts register with no kubelet."""
_log = gobuild.logger("volcano-e2e")


@dataclass(frozen=True)
class Programs:
    """The folder of the built programs, and the source that they are built from."""

    source: Path
    folder: Path

    def suite(self, name: str, variant: Variant = "") -> Path:
        """Return the program of a suite, which is built if it does not exist. Raises BuildError."""
        if not variant:
            program, overlay = self.folder / f"{name}.test", []
        else:
            changed = self._without_words(name) if variant == "refusals" else self._without_kubelet(name)
            digest = hashlib.sha256(repr(sorted(changed.items())).encode()).hexdigest()[:8]
            program = self.folder / f"{name}-{variant}-{digest}.test"
            overlay = ["-overlay", str(self._overlay(name, changed))]
        self._build(program, ["go", "test", "-c", *overlay, f"./test/e2e/{name}"])
        return program

    @property
    def chart(self) -> Path:
        """Volcano's chart."""
        return self.source / "installer" / "helm" / "chart" / "volcano"

    def controllers(self) -> Path:
        """Return the program of Volcano's controllers, which is built if it does not exist. Raises BuildError."""
        program = self.folder / "vc-controller-manager"
        self._build(program, ["go", "build", "./cmd/controller-manager"])
        return program

    def scheduler(self) -> Path:
        """Return the program of Volcano's scheduler, which is built if it does not exist. Raises BuildError."""
        program = self.folder / "vc-scheduler"
        self._build(program, ["go", "build", "./cmd/scheduler"])
        return program

    def webhooks(self) -> Path:
        """Return the program of Volcano's webhooks, which is built if it does not exist. Raises BuildError."""
        program = self.folder / "vc-webhook-manager"
        self._build(program, ["go", "build", "./cmd/webhook-manager"])
        return program

    def tools(self) -> None:
        """Build vcctl, and ginkgo, which runs the suites. Raises BuildError."""
        self._build(self.folder / "vcctl", ["go", "build", "./cmd/cli"])
        self._build(self.folder / "ginkgo", ["go", "build", "github.com/onsi/ginkgo/v2/ginkgo"])

    def _build(self, program: Path, command: list[str]) -> None:
        with gobuild.locked(self.folder, _log):
            if gobuild.runs(program):
                return
            _log(f"building {program.name}, once: this takes minutes")
            fresh = program.with_name(f".{program.name}.new")
            *head, package = command
            argv = [*head, "-p", "1", "-o", str(fresh), package]
            done = subprocess.run(
                argv, cwd=self.source, env=_environment(), capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise BuildError(f"`{' '.join(argv)}` in {self.source} failed with\n{done.stderr[-2000:]}")
            fresh.replace(program)

    def _overlay(self, name: str, changed: Mapping[Path, str]) -> Path:
        """Write and return the description of a build in which changed files replace those of the source."""
        self.folder.mkdir(parents=True, exist_ok=True)
        replaced = {}
        for file, text in changed.items():
            fresh = self.folder / f"{name}-{file.name}"
            fresh.write_text(text)
            replaced[str(file)] = str(fresh)
        path = self.folder / f"{name}-overlay.json"
        path.write_text(json.dumps({"Replace": replaced}))
        return path

    def _without_words(self, name: str) -> dict[Path, str]:
        files = sorted((self.source / "test" / "e2e" / name).glob("*_validation_test.go"))
        return {file: _WORDS.sub("gomega.Not(gomega.BeEmpty())", file.read_text()) for file in files}

    def _without_kubelet(self, name: str) -> dict[Path, str]:
        files = sorted((self.source / "test" / "e2e" / name).glob("*.go"))
        read = {file: file.read_text() for file in files}
        texts = {file: text for file, text in read.items() if _DRIVER in text}
        if not texts:
            raise BuildError(
                f"no file of the suite {name} in {self.source} has {_DRIVER}: it starts drivers in another way"
            )
        changed = {file: text.replace(_DRIVER, f"alone({_DRIVER[:-1]})(") for file, text in texts.items()}
        first = next(iter(file for file in changed if not file.name.endswith("_test.go")), next(iter(changed)))
        changed[first] += _ALONE
        compared = {file: changed.get(file, text) for file, text in read.items() if _VARIABLES in text}
        return changed | {file: text.replace(_VARIABLES, "_ = container") for file, text in compared.items()}


def _environment() -> dict[str, str]:
    return os.environ | {"GOWORK": "off"}


def source_folder() -> Path:
    """Return the folder of Volcano's source. Raises BuildError where it is absent."""
    given = os.environ.get(SOURCE)
    if not given:
        raise BuildError(f"{SOURCE} is not set: set it to a folder with Volcano's source")
    source = Path(given).absolute()
    if not (source / "test" / "e2e").is_dir():
        raise BuildError(f"{SOURCE}={given} has no folder test/e2e: it is not Volcano's source")
    return source


def programs() -> Programs:
    """Return where the programs belong. Raises BuildError where Volcano's source or Go is absent."""
    source = source_folder()
    if shutil.which("go") is None:
        raise BuildError("no Go on PATH to build Volcano's suites with")
    sources = sorted((source / "test" / "e2e").rglob("*.go"))
    return Programs(source, gobuild.cache_folder("volcano-e2e", source, sources))
