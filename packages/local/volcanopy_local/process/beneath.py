"""Opens paths that others influence below a folder, which they cannot leave. The launcher uses it without packages.

Programs change the folders of their volumes at any time: a path that was checked leads elsewhere a moment later. What is opened
here is used by its descriptor and not by its path.
"""

import contextlib
import os
import stat
from collections.abc import Iterator

_MOST_LINKS = 40
"""Symbolic links on one path, as for the kernel."""


class PathError(OSError):
    """A path that leads out of the folder below which it must stay."""


@contextlib.contextmanager
def opened(descriptor: int) -> Iterator[int]:
    """A descriptor that is closed in the end."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_source(folder: str, inside: str, mode: int | None = None) -> int:
    """A descriptor of a path in a folder: the path of the folder has no links, and those within do not lead out of it."""
    with (
        opened(os.open("/", os.O_PATH | os.O_CLOEXEC)) as root,
        opened(open_beneath(root, folder.lstrip("/"), links=0)) as start,
    ):
        return open_beneath(start, inside, mode=mode)


def open_beneath(
    root: int,
    path: str,
    *,
    links: int = _MOST_LINKS,
    in_root: bool = False,
    mode: int | None = None,
    is_folder: bool = True,
) -> int:
    """A descriptor (O_PATH) of a path that stays below the folder `root`, whatever others change meanwhile.

    Each name is opened in the folder before it. A symbolic link is followed by its text, at most `links` of them; one that leads
    out is an error, unless `root` stands for `/` (`in_root`). With `mode` a missing path is made with it, as a file if it
    is not a folder. Raises PathError, OSError.
    """
    if not in_root and (path.startswith("/") or ".." in path.split("/")):
        raise PathError(f"path {path!r} must be relative and must not contain '..'")
    folders, names = [os.dup(root)], path.split("/")[::-1]
    try:
        while names:
            name = names.pop()
            if name in {"", "."}:
                continue
            if name == "..":
                if len(folders) > 1:
                    os.close(folders.pop())
                elif not in_root:
                    raise PathError(f"path {path!r} leads out of its folder")
                continue
            folders.append(_open_name(folders[-1], name, mode, is_folder=is_folder or any(names)))
            if not stat.S_ISLNK(os.fstat(folders[-1]).st_mode):
                continue
            text = os.readlink("", dir_fd=folders[-1])
            os.close(folders.pop())
            if links == 0 or (text.startswith("/") and not in_root):
                raise PathError(f"path {path!r} leads through the symbolic link {name!r}")
            links -= 1
            names += text.split("/")[::-1]
            while text.startswith("/") and len(folders) > 1:
                os.close(folders.pop())
        return folders.pop()
    finally:
        for folder in folders:
            os.close(folder)


def _open_name(folder: int, name: str, mode: int | None, *, is_folder: bool) -> int:
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        if mode is None:
            raise
    with contextlib.suppress(FileExistsError):
        if is_folder:
            os.mkdir(name, mode, dir_fd=folder)
            _give_as(folder, name, mode)
        else:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=folder))
    return os.open(name, flags, dir_fd=folder)


def _give_as(above: int, name: str, mode: int) -> None:
    """Give a new folder its mode, whatever the umask is, and the owner of the folder above it."""
    with opened(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)) as folder:
        owner = os.fstat(above)
        os.fchmod(folder, mode)
        with contextlib.suppress(PermissionError):
            os.fchown(folder, owner.st_uid, owner.st_gid)


def real_path(descriptor: int) -> str:
    """The path of what a descriptor stands for, at this moment."""
    return os.readlink(f"/proc/self/fd/{descriptor}")
