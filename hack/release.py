"""A release, in one go: ``python -m hack.release --dry-run`` does everything that needs no registry and no account.

1. The versions of the distributions, the chart and the changelog are one.
2. Wheels and source distributions are built, installed into an empty environment, and their first commands run.
3. The software bill of materials, the chart with the metadata of its repository, and the manifest of the kubectl plugin are written.
4. The docs site is built.
5. The steps that only a published run can do are named.

Without ``--dry-run`` it writes the same files for `.github/workflows/release.yml`, which publishes them.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hack import sbom
from hack.distributions import FOLDERS, ROOT, project
from hack.helm import helm

CHART = ROOT / "charts" / "volcanopy"
SHARED_GPU = "examples/20-shared-gpu"
"""An example whose scheduler configuration has an optional policy."""
FIRST_COMMANDS = {
    "volcanopy": ("volcanopy", "--version"),
    "volcanopy[lab]": ("volcanopy", "simulate", "ml:jobs=3,days=0.1"),
    "volcanopy[local]": ("volcanopy", "local", "up", "--help"),
    "volcanopy[policies]": (
        "volcanopy",
        "plan",
        "-f",
        f"{SHARED_GPU}/job.yaml",
        "--config",
        f"{SHARED_GPU}/scheduler.conf",
    ),
    "volcanopy[testing]": ("python", "-P", "-c", "import volcanopy_testing.check"),
    "volcanopy[snakemake]": ("snakemake", "--executor", "volcanopy", "--version"),
    "embedded-apiserver": ("embedded-apiserver", "--help"),
}
"""By what pip installs: what a user runs first."""
PUBLISHED_ONLY = (
    "upload of wheels and source distributions, by trusted publishing",
    "push of the image for amd64 and arm64, with provenance and bill of materials",
    "signatures of the image and the chart, without a key",
    "push of the chart to the registry, and its entry in Artifact Hub",
    "request to the index of krew",
    "publication of the docs site",
)


class ReleaseError(Exception):
    """A release cannot be made; the message names the file and the fix."""


@dataclass(frozen=True)
class Origin:
    """Where a release comes from and goes to: ``repository`` is OWNER/NAME."""

    repository: str
    version: str

    @property
    def url(self) -> str:
        """The address of the source."""
        return f"https://github.com/{self.repository}"

    @property
    def image(self) -> str:
        """The image, with its tag."""
        return f"ghcr.io/{self.repository.lower()}:{self.version}"


def problems(version: str, changelog: str, chart: Mapping[str, Any], others: Mapping[str, str]) -> list[str]:
    """Return what is inconsistent with the version of volcanopy, each with its fix."""
    listed = []
    if not re.search(rf"^## {re.escape(version)} - \d{{4}}-\d{{2}}-\d{{2}}$", changelog, re.MULTILINE):
        listed.append(
            f"CHANGELOG.md has no heading `## {version} - YYYY-MM-DD`: add it with the changes of changelog.d"
        )
    in_chart = {f"{key} of charts/volcanopy/Chart.yaml": str(chart[key]) for key in ("version", "appVersion")}
    others = in_chart | {f"version of {file}": other for file, other in others.items()}
    listed += [f"{place} is {other}: set it to {version}" for place, other in others.items() if other != version]
    return listed


def chart_metadata(chart: Mapping[str, Any], origin: Origin) -> dict[str, Any]:
    """Return the metadata of the chart with what depends on the repository: links, icon and annotations of Artifact Hub."""
    crds = [yaml.load(file.read_text("utf-8"), yaml.CSafeLoader) for file in sorted((CHART / "crds").glob("*.yaml"))]
    kinds = [
        {"kind": crd["spec"]["names"]["kind"], "version": served["name"], "name": crd["metadata"]["name"]}
        for crd in crds
        for served in crd["spec"]["versions"]
    ]
    annotations = {
        "artifacthub.io/category": "ai-machine-learning",
        "artifacthub.io/license": "Apache-2.0",
        "artifacthub.io/prerelease": "true",
        "artifacthub.io/images": yaml.safe_dump([{"name": "volcanopy", "image": origin.image}]),
        "artifacthub.io/crds": yaml.safe_dump([kind | {"displayName": kind["kind"]} for kind in kinds]),
        "artifacthub.io/links": yaml.safe_dump([{"name": "source", "url": origin.url}]),
    }
    icon = f"https://raw.githubusercontent.com/{origin.repository}/v{origin.version}/docs/images/icon.svg"
    return {**chart, "home": origin.url, "sources": [origin.url], "icon": icon, "annotations": annotations}


def krew_manifest(origin: Origin, sha256: str) -> dict[str, Any]:
    """Return the manifest of the kubectl plugin, whose archive has this digest."""
    platform = {
        "selector": {"matchExpressions": [{"key": "os", "operator": "In", "values": ["linux", "darwin"]}]},
        "uri": f"{origin.url}/releases/download/v{origin.version}/kubectl-volcanopy.zip",
        "sha256": sha256,
        "bin": "kubectl-volcanopy",
    }
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "volcanopy"},
        "spec": {
            "version": f"v{origin.version}",
            "homepage": origin.url,
            "shortDescription": "Submit and explain batch jobs of volcanopy",
            "description": "Run, list, follow and explain batch jobs and queues of volcanopy. Needs Python 3.11 with pipx or uv.",
            "platforms": [platform],
        },
    }


def krew_program(version: str) -> str:
    """Return the program of the kubectl plugin: the installed volcanopy of any version, else this one by uv or pipx."""
    return f"""#!/bin/sh
if command -v volcanopy >/dev/null; then exec volcanopy "$@"; fi
if command -v uvx >/dev/null; then exec uvx --from volcanopy=={version} volcanopy "$@"; fi
if command -v pipx >/dev/null; then exec pipx run --spec volcanopy=={version} volcanopy "$@"; fi
echo "kubectl volcanopy: neither volcanopy nor uv nor pipx is installed: install pipx, or volcanopy with pip" >&2
exit 1
"""


def check_versions() -> None:
    """Raise ReleaseError if the versions of a release differ."""
    listed = problems(
        project(ROOT)["version"],
        (ROOT / "CHANGELOG.md").read_text("utf-8"),
        yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8")),
        {str((folder / "pyproject.toml").relative_to(ROOT)): project(folder)["version"] for folder in FOLDERS},
    )
    if listed:
        raise ReleaseError("\n".join(listed))


def build_distributions(target: Path) -> list[Path]:
    """Build the wheel and the source distribution of each package into ``target``."""
    for folder in FOLDERS:
        with tempfile.TemporaryDirectory() as name:  # setuptools leaves build folders in what it builds
            source = Path(name) / "source"
            shutil.copytree(folder, source, ignore=shutil.ignore_patterns(".*", "build", "dist", "site", "*.egg-info"))
            script = "import setuptools.build_meta as b; target = __import__('sys').argv[1]; b.build_wheel(target); b.build_sdist(target)"
            _run([sys.executable, "-c", script, str(target)], cwd=source)
    return sorted([*target.glob("*.whl"), *target.glob("*.tar.gz")])


def try_installation(target: Path) -> None:
    """Install each distribution from ``target`` into an environment of its own, and run its first command."""
    version = project(ROOT)["version"]
    for name, (program, *arguments) in FIRST_COMMANDS.items():
        with tempfile.TemporaryDirectory() as environment:
            _run([sys.executable, "-m", "venv", environment])
            pip = [f"{environment}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*pip, "--find-links", str(target), f"{name}=={version}"])
            _run([f"{environment}/bin/{program}", *arguments], cwd=ROOT)
            _note(f"{name}: installed into an empty environment, `{' '.join([program, *arguments])}` succeeds")


def package_chart(target: Path, origin: Origin) -> Path:
    """Write the chart with its metadata into ``target``; helm checks it first."""
    program = helm()
    if program is None:
        raise ReleaseError("helm is not built: run `make helm`")
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / CHART.name
        shutil.copytree(CHART, copy)
        metadata = chart_metadata(yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8")), origin)
        (copy / "Chart.yaml").write_text(yaml.safe_dump(metadata, sort_keys=False), "utf-8")
        values = f"--set=image.repository={origin.image.rpartition(':')[0]},image.digest=sha256:{'0' * 64}"
        _run([str(program), "lint", "--strict", str(copy), values])
        _run([str(program), "template", "volcanopy", str(copy), values])
        _run([str(program), "package", str(copy), "--destination", str(target)])
    return target / f"volcanopy-{origin.version}.tgz"


def package_plugin(target: Path, origin: Origin) -> Path:
    """Write the archive and the manifest of the kubectl plugin into ``target``."""
    archive = target / "kubectl-volcanopy.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name, text, mode in (
            ("kubectl-volcanopy", krew_program(origin.version), 0o755),
            ("LICENSE", (ROOT / "LICENSE").read_text("utf-8"), 0o644),
        ):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same files give the same digest
            entry.external_attr = mode << 16
            file.writestr(entry, text)
    manifest = krew_manifest(origin, hashlib.sha256(archive.read_bytes()).hexdigest())
    (target / "volcanopy.krew.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False), "utf-8")
    return archive


def make(target: Path, origin: Origin) -> None:
    """Do the steps of a release that need no account; the files are in ``target``."""
    target.mkdir(parents=True, exist_ok=True)
    check_versions()
    _note(f"version {origin.version}: distributions, chart and changelog agree")
    for file in build_distributions(target):
        _note(f"built {file.name}, {file.stat().st_size:,} bytes")
    try_installation(target)
    sbom.main([str(target / "sbom.cdx.json")])
    for path in (package_chart(target, origin), package_plugin(target, origin)):
        _note(f"written {path.name}, with a valid chart or manifest")
    _run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target.resolve() / "site")],
        cwd=ROOT,
    )
    _note("docs site built, with search")


def main(arguments: Iterable[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m hack.release", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="name what only a published run can do")
    parser.add_argument(
        "--repository", default=os.environ.get("GITHUB_REPOSITORY", "OWNER/volcanopy"), help="OWNER/NAME"
    )
    parser.add_argument("--directory", type=Path, default=ROOT / "dist", help="where the files are written")
    options = parser.parse_args(list(arguments))
    try:
        make(options.directory, Origin(options.repository, project(ROOT)["version"]))
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    if options.dry_run:
        print("Only a published run can do:", *PUBLISHED_ONLY, sep="\n  ")
        print("The steps of the image run on this machine by `make image-check` (root, a Debian mirror).")
    return 0


def _run(command: list[str], cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"`{' '.join(command)}` failed:\n{done.stdout}{done.stderr}")


def _note(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
