"""Folders for pods, with modes that do not depend on the umask."""

from __future__ import annotations

from pathlib import Path


def make_folder(path: Path, mode: int = 0o755) -> None:
    """Make a folder with this mode, and what is missing above it with 0755; a folder that exists stays as it is."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir()
        path.chmod(mode)
