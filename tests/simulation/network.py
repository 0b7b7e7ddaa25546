"""A simulated network: connections as streams of bytes with delays, cuts and resets, between machines on one event loop."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from volcanopy.kube import machine

PATIENCE = 10.0
"""Seconds after which both ends notice that nothing arrives any more, as the kernel does with the clients' socket options."""


class End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: Network, protocol: asyncio.Protocol, host: str, context: contextvars.Context) -> None:
        super().__init__()
        self._network, self.protocol, self.host, self._context = network, protocol, host, context
        self.peer: End
        self._last = 0.0
        self._paused = False
        self._kept: list[bytes] = []
        self._closing = self._lost = False
        self.late = 0.0
        """What is sent before this time arrives after it."""
        self.broken = False
        """Whether something that was sent is lost: what follows it does not arrive either."""

    def made(self) -> None:
        """Tell the protocol of this end that there is a connection."""
        self._context.run(self.protocol.connection_made, self)

    def arrives(self, data: bytes) -> None:
        """Take what the peer has sent; an empty piece is its end."""
        if self._lost:
            return
        if self._paused:
            self._kept.append(data)
        elif data:
            self.protocol.data_received(data)
        elif not self._closing:
            self.protocol.eof_received()
            self.close()

    def lose(self, error: Exception | None) -> None:
        """End this end."""
        if not self._lost:
            self._lost = self._closing = True
            self._network.ends.pop(self, None)
            # As real transports do: what has arrived before wakes its reader first.
            self._network.loop.call_soon(self.protocol.connection_lost, error, context=self._context)

    def call(self, at: float, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function of this end at a time, in its own context and in order."""
        # Timers of equal times fire in any order.
        self._last = at = max(at, self._last + 1e-7)
        self._network.loop.call_at(at, function, *arguments, context=self._context)

    def write(self, data: Any) -> None:
        if not self._closing and data:
            self._network.send(self, bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        if not self._closing:
            self._network.send(self, b"")

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        if not self._closing:
            self._network.send(self, b"")
            self._closing = True
            self.call(self._network.loop.time(), self.lose, None)

    def abort(self) -> None:
        self._network.reset(self, "aborted")

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        kept, self._kept = self._kept, []
        for data in kept:
            self.call(self._network.loop.time(), self.arrives, data)

    def is_reading(self) -> bool:
        return not self._paused

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 0) if name in {"peername", "sockname"} else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol


@dataclass
class _Listener:
    factory: Callable[[], asyncio.Protocol]
    host: str
    context: contextvars.Context


class _Server:
    """What ``create_server`` returns."""

    def __init__(self, network: Network, port: int) -> None:
        self._network, self._port = network, port
        self.sockets = [self]

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1", self._port)

    def close(self) -> None:
        self._network.listeners.pop(self._port, None)

    async def wait_closed(self) -> None:
        return

    def is_serving(self) -> bool:
        return self._port in self._network.listeners


@dataclass
class Network:
    """The connections between the machines of a simulation; a machine is known by its name."""

    rng: Random
    delay: tuple[float, float] = (0.0002, 0.003)
    """Shortest and longest time in seconds that a piece needs."""
    listeners: dict[int, _Listener] = field(default_factory=dict)
    ends: dict[End, None] = field(default_factory=dict)
    cuts: dict[str, float] = field(default_factory=dict)
    """Machines whose connections carry nothing, until which time."""
    dead: set[str] = field(default_factory=set)
    """Machines that do not exist any more: they send nothing and nobody reaches them."""
    _targets: dict[Any, int] = field(default_factory=dict)
    _ports: int = 20000
    loop: asyncio.AbstractEventLoop = field(init=False)

    def listen(self, factory: Any, host: Any, port: int | None) -> _Server:
        """Serve an address; port 0 chooses one."""
        if not port:
            self._ports += 1
            port = self._ports
        if port in self.listeners:
            raise OSError(98, f"address in use: {host}:{port}")
        self.listeners[port] = _Listener(factory, machine.host(), contextvars.copy_context())
        return _Server(self, port)

    def until(self, *hosts: str) -> float:
        """Return the time until which nothing passes between these machines."""
        return max((self.cuts.get(host, 0.0) for host in hosts), default=0.0)

    def latency(self) -> float:
        """Return the time that one piece needs."""
        return self.rng.uniform(*self.delay)

    async def connect(self, sock: Any, address: tuple[str, int]) -> None:
        """Reach a listener, or raise ConnectionRefusedError."""
        host, port = machine.host(), address[1]
        await asyncio.sleep(self.latency())
        listener = self.listeners.get(port)
        while listener is not None and (wait := self.until(host, listener.host) - self.loop.time()) > 0:
            await asyncio.sleep(wait)
            listener = self.listeners.get(port)
        if listener is None or host in self.dead:
            raise ConnectionRefusedError(111, f"connection to port {port} refused")
        self._targets[sock] = port

    async def open(self, factory: Callable[[], asyncio.Protocol], sock: Any) -> tuple[End, asyncio.Protocol]:
        """Return transport and protocol of a new connection."""
        listener = self.listeners.get(self._targets.pop(sock))
        sock.close()
        if listener is None:
            raise ConnectionResetError(104, "the server is gone")
        near = End(self, factory(), machine.host(), contextvars.copy_context())
        far = End(self, listener.factory(), listener.host, listener.context.copy())
        near.peer, far.peer = far, near
        for end in (far, near):
            self.ends[end] = None
            end.made()
        return near, near.protocol

    def send(self, end: End, data: bytes) -> None:
        """Carry a piece to the other end."""
        if end.host in self.dead:
            return
        now = self.loop.time()
        wait = self.until(end.host, end.peer.host) - now
        if end.broken:
            return
        if wait > PATIENCE:
            end.broken = True
            self.loop.call_later(PATIENCE, self.reset, end, "nothing arrives")
            return
        end.peer.call(max(now + wait, now, end.late) + self.latency(), end.peer.arrives, data)

    def reset(self, end: End, why: str) -> None:
        """Break a connection: what is under way is lost."""
        now = self.loop.time()
        for side in (end, end.peer):
            side.call(now, side.lose, ConnectionResetError(104, why))

    def of(self, host: str) -> list[End]:
        """Return the ends on a machine, in the order in which they were made."""
        return [end for end in self.ends if end.host == host]

    def vanish(self, host: str) -> None:
        """Break all connections of a machine, which sends nothing any more."""
        self.dead.add(host)
        self.listeners = {port: listener for port, listener in self.listeners.items() if listener.host != host}
        for end in self.of(host):
            self.reset(end, "the machine has vanished")
