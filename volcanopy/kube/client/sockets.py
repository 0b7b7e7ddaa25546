"""Sockets that notice a vanished peer."""

import socket
from typing import Any

PROBES = {"TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
"""Socket options (seconds, and milliseconds for the last): the kernel probes silent connections, and a watch whose peer has
vanished ends after ten seconds, not when the next bookmark is overdue."""


def probed_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket for this address (of ``getaddrinfo``), as event loops need it, that notices a vanished peer."""
    family, kind, protocol = address[:3]
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in PROBES.items():
        if hasattr(socket, name):  # not on every system
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
