"""A pseudo-terminal: what a container or a command with `tty` reads and writes."""

import asyncio
import contextlib
import errno
import fcntl
import os
import struct
import termios
from collections.abc import Callable

_CHUNK = 1 << 16


class Terminal:
    """A new pseudo-terminal; `device` is the descriptor that the program gets, this side reads and writes the other one."""

    def __init__(self) -> None:
        self._side, self.device = os.openpty()
        os.set_blocking(self._side, False)

    def control(self) -> None:
        """In the new process: make this the terminal that controls its session."""
        with contextlib.suppress(PermissionError):
            os.setsid()  # the event loop does it before or after this
        fcntl.ioctl(self.device, termios.TIOCSCTTY, 0)

    def started(self) -> None:
        """The program has its descriptor: this process needs it no more."""
        if self.device >= 0:
            os.close(self.device)
            self.device = -1

    async def read(self) -> bytes:
        """The next output; empty when no program has the terminal any more."""
        while True:
            try:
                return os.read(self._side, _CHUNK)
            except BlockingIOError:
                await self._until(asyncio.get_running_loop().add_reader, asyncio.get_running_loop().remove_reader)
            except OSError as error:
                if error.errno in {errno.EIO, errno.EBADF}:
                    return b""
                raise

    async def write(self, data: bytes) -> None:
        """Type bytes."""
        while data:
            try:
                data = data[os.write(self._side, data) :]
            except BlockingIOError:
                await self._until(asyncio.get_running_loop().add_writer, asyncio.get_running_loop().remove_writer)

    def end_input(self) -> None:
        """Type the end-of-file character."""
        with contextlib.suppress(OSError):
            os.write(self._side, b"\x04")

    def resize(self, columns: int, rows: int) -> None:
        """Set the size; the programs of the terminal get SIGWINCH."""
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        """Close this side: the programs of the terminal get SIGHUP."""
        self.started()
        if self._side >= 0:
            os.close(self._side)
            self._side = -1

    async def _until(self, add: Callable[[int, Callable[[], None]], None], remove: Callable[[int], bool]) -> None:
        """Wait until the descriptor can be read or written."""
        possible = asyncio.Event()
        side = self._side
        add(side, possible.set)
        try:
            await possible.wait()
        finally:
            remove(side)
