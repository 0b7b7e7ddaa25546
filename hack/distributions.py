"""The distributions of this repository: volcanopy, whose project is the root, and those below `packages/`."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (ROOT, *sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml")))
"""The folders of the distributions; the Makefile, pytest, mypy and ruff find them by the same pattern."""
IMPORT_PACKAGES = tuple(marker.parent for folder in FOLDERS for marker in sorted(folder.glob("*/py.typed")))
"""The folders of the packages that they install and that others import, in the same order."""


def project(folder: Path) -> dict[str, Any]:
    """Return the table ``project`` of a distribution."""
    table: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    return table


VERSIONS = {project(folder)["name"]: project(folder)["version"] for folder in FOLDERS}
"""By the name of each distribution, its version."""
