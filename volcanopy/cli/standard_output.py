"""Standard streams that are closed, full or of another encoding: a command never ends with a traceback because of them."""

import contextlib
import errno
import os
import sys
from io import TextIOWrapper

from volcanopy.client.errors import CommandError

BROKEN_PIPE = 141
"""The exit status of a command whose reader has gone, as of one that SIGPIPE ends."""
_OUTPUT_ERRORS = frozenset({errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EBADF})


def prepare() -> None:
    """Replace characters that the encoding of the terminal or pipe lacks, and streams that are closed by empty ones."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - until the process ends
        elif mode == "w" and isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def error_of(fault: OSError) -> CommandError | None:
    """Return the error of a write to standard output; None for an error of a file or a connection, which is named."""
    if fault.filename is not None or fault.errno not in _OUTPUT_ERRORS:
        return None
    return CommandError(f"standard output cannot be written: {fault.strerror}")


def discard() -> None:
    """Keep Python from writing the rest when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
