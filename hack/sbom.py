"""The software bill of materials of the image: ``python -m hack.sbom FILE`` writes CycloneDX JSON from requirements.lock.

The lock file has every package that the image installs, with the hashes of all its distributions; the same lock file gives the
same document. The packages of the base image are not in it.
"""

import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
_PACKAGE = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)(?:\s*;\s*([^\\]+?))?\s*\\?$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
"""The name space of URLs of RFC 9562, appendix A."""


@dataclass(frozen=True)
class Package:
    """A line of the lock file: ``marker`` limits it to some platforms, ``hashes`` are SHA-256 of its distributions."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    @property
    def purl(self) -> str:
        """The package URL."""
        return f"pkg:pypi/{re.sub(r'[-_.]+', '-', self.name).lower()}@{self.version}"


def packages(lock: str) -> Iterator[Package]:
    """Yield the packages of a lock file. Raises ValueError for a line that is not understood."""
    for block in re.sub(r"\\\n", " ", lock).splitlines():
        line = block.strip()
        if not line or line.startswith("#"):
            continue
        requirement, *hashes = re.split(r"\s+(?=--hash)", line)
        match = _PACKAGE.match(requirement)
        if match is None:
            raise ValueError(f"not a pinned package: {requirement}")
        yield Package(match[1], match[2], (match[3] or "").strip(), tuple(_HASH.findall(" ".join(hashes))))


def document(lock: str, project: dict[str, Any]) -> dict[str, Any]:
    """Return the bill of materials of a project with this lock file."""
    name, version = project["name"], project["version"]
    main = {
        "type": "application",
        "bom-ref": f"pkg:pypi/{name}@{version}",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "licenses": [{"expression": project["license"]}],
    }
    components = sorted(packages(lock), key=lambda package: (package.purl, package.marker))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, lock)}",
        "version": 1,
        "metadata": {"component": main, "lifecycles": [{"phase": "build"}]},
        "components": [_component(package) for package in components],
        "dependencies": [{"ref": main["bom-ref"], "dependsOn": [package.purl for package in components]}],
    }


def _component(package: Package) -> dict[str, Any]:
    distribution = {
        "type": "distribution",
        "url": f"https://pypi.org/project/{package.name}/{package.version}/#files",
        "hashes": [{"alg": "SHA-256", "content": content} for content in package.hashes],
    }
    properties = [{"name": "python:marker", "value": package.marker}] if package.marker else []
    return {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        "externalReferences": [distribution],
        **({"properties": properties} if properties else {}),
    }


def main(arguments: list[str]) -> int:
    """Write the document to the file of the arguments."""
    if len(arguments) != 1:
        print("usage: python -m hack.sbom FILE", file=sys.stderr)
        return 2
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    file = Path(arguments[0])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document(LOCK.read_text("utf-8"), project), indent=2) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
