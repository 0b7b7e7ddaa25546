"""Folders for pods, with modes that do not depend on the umask."""

import tempfile
from collections.abc import Iterable
from pathlib import Path


def make_folder(path: Path, mode: int = 0o755) -> None:
    """Make a folder with this mode, and what is missing above it with 0755; a folder that exists stays as it is."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir()
        path.chmod(mode)


def temporary_folders(parent: Path, names: Iterable[str]) -> dict[str, Path]:
    """Make a folder in which each container of a pod can have a private one for /tmp, with a short path. Raises OSError."""
    make_folder(parent)
    folder = Path(tempfile.mkdtemp(prefix="", dir=parent))
    folder.chmod(0o711)
    return {name: folder / str(number) for number, name in enumerate(names)}
