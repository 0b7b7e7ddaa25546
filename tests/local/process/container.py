"""Runs a program as root of a container: in a user namespace below which there are no others, without the right to mount
and with no network but the loopback.

Usage: python container.py COMMAND...
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP_RUNNING = 0x41


def become_root_of_container(ready: int, mapped: int) -> None:
    """Enter namespaces of users, which the parent maps, and of networks, and forbid further ones of users."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    os.write(ready, b"\0")
    os.read(mapped, 1)
    Path("/proc/sys/user/max_user_namespaces").write_text("0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as loopback:
        fcntl.ioctl(loopback, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP_RUNNING))


def main(command: list[str]) -> int:
    """Run the command; its exit code."""
    is_ready, ready = os.pipe()
    mapped, map_done = os.pipe()
    child = os.fork()
    if child == 0:
        become_root_of_container(ready, mapped)
        os.execvp("setpriv", ["setpriv", "--bounding-set", "-sys_admin", *command])
    os.close(ready)
    if os.read(is_ready, 1):
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{child}/{name}").write_text("0 0 65536\n")
        os.write(map_done, b"\0")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
