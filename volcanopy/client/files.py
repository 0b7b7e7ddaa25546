"""The texts of files that a command names."""

import os
from pathlib import Path

from volcanopy.client.errors import CommandError


def text_of(path: Path | str, option: str = "", hint: str = "") -> str:
    """Return the text of a file. Raises CommandError, whose message begins with the option and ends with the hint."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as fault:
        if isinstance(fault, OSError):
            reason = fault.strerror
        elif fault.object.startswith(b"\x1f\x8b"):
            reason = "it is compressed, unpack it with gunzip"
        else:
            reason = "it is not UTF-8 text"
        if str(path).startswith(("http:/", "https:/")):
            reason = "addresses are not read, give a file, or - for standard input"
        raise CommandError(f"{option}{': ' if option else ''}cannot read {path}: {reason}{hint}", 2) from None


def check_writable(path: Path | None, option: str) -> None:
    """Raise CommandError if a file cannot be written, before the work whose result it gets."""
    if path is None:
        return
    if path.is_dir():
        reason = "Is a directory"
    elif not path.absolute().parent.is_dir():
        reason = "No such file or directory"
    elif not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        reason = "Permission denied"
    else:
        return
    raise CommandError(f"{option}: cannot write {path}: {reason}", 2)
