"""The kubelet's list of the exclusive CPUs of containers: one gRPC call (``v1.PodResourcesLister/List``) over a unix socket.

The call needs five types of HTTP/2 frames and no library: the request has one block of literal headers, and of the response only
the message is read, not its headers. The format is that of RFC 9113, 7541 (headers) and the kubelet's ``podresources/v1``.
"""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

from volcanopy.services.agent.node_report import ContainerCpus

METHOD = "/v1.PodResourcesLister/List"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS, _PADDED = 0x1, 0x1, 0x4, 0x8
_STREAM = 1
_WINDOW_SIZE = 1 << 24
LARGEST = 1 << 26
"""Most bytes of an answer: the kubelet lists some hundred pods in less than one percent of it."""

MOST_CPUS = 1 << 16
"""CPUs of a node: numbers are stored as bits."""


class PodResourcesError(Exception):
    """The kubelet did not answer; the message names the socket and the reason."""


def containers(path: Path, timeout: float) -> list[ContainerCpus]:
    """Return the containers with exclusive CPUs. Raises PodResourcesError."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(str(path))
            return decode(_call(connection))
    except (OSError, EOFError, ValueError, IndexError) as error:
        raise PodResourcesError(f"{path} does not list the resources of pods: {error}") from None


def _call(connection: socket.socket) -> bytes:
    """Return the message of the response to a request without content."""
    connection.sendall(
        _PREFACE
        + _frame(_SETTINGS, 0, 0, struct.pack(">HI", 4, _WINDOW_SIZE))  # the initial window of the stream
        + _frame(_WINDOW, 0, 0, struct.pack(">I", _WINDOW_SIZE))
        + _frame(_HEADERS, _END_HEADERS, _STREAM, _request_headers())
        + _frame(_DATA, _END_STREAM, _STREAM, bytes(5))
    )
    content, ended = bytearray(), False
    while not ended:
        kind, flags, stream, payload = _read_frame(connection)
        if kind == _SETTINGS and not flags & _ACK:
            connection.sendall(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            connection.sendall(_frame(_PING, _ACK, 0, payload))
        elif kind == _GOAWAY or (kind == _RESET and stream == _STREAM):
            raise EOFError("the kubelet rejected the call")
        elif kind == _DATA and stream == _STREAM and payload:
            content += payload[1 : len(payload) - payload[0]] if flags & _PADDED else payload
            if len(content) > LARGEST:
                raise ValueError(f"the answer has more than {LARGEST} bytes")
            more = struct.pack(">I", len(payload))
            connection.sendall(_frame(_WINDOW, 0, 0, more) + _frame(_WINDOW, 0, _STREAM, more))
        ended = kind in (_DATA, _HEADERS) and stream == _STREAM and bool(flags & _END_STREAM)
    if len(content) < 5:
        raise EOFError("the kubelet returned an error instead of a list")
    is_compressed, length = struct.unpack(">BI", content[:5])
    if is_compressed or len(content) < 5 + length:
        raise EOFError("the answer is not complete")
    return bytes(content[5 : 5 + length])


def _request_headers() -> bytes:
    """Return the header block: ``:method POST`` and ``:scheme http`` by index, the others as literals that are not indexed."""
    fields = ((":path", METHOD), (":authority", "localhost"), ("content-type", "application/grpc"), ("te", "trailers"))
    return b"\x83\x86" + b"".join(b"\x00" + _text(name) + _text(value) for name, value in fields)


def _text(value: str) -> bytes:
    return bytes([len(value)]) + value.encode()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def _read_frame(connection: socket.socket) -> tuple[int, int, int, bytes]:
    head = _exactly(connection, 9)
    kind, flags, stream = struct.unpack(">BBI", head[3:])
    return kind, flags, stream & 0x7FFFFFFF, _exactly(connection, int.from_bytes(head[:3], "big"))


def _exactly(connection: socket.socket, size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        part = connection.recv(size - len(content))
        if not part:
            raise EOFError("the kubelet closed the connection")
        content += part
    return bytes(content)


# The message: ListPodResourcesResponse{1: PodResources{1: name, 2: namespace, 3: ContainerResources{1: name, 3: cpu_ids}}}


def decode(message: bytes) -> list[ContainerCpus]:
    """Return the containers of a ListPodResourcesResponse with exclusive CPUs. Raises ValueError, IndexError."""
    result = []
    for pod in _messages(message, 1):
        names = {field: value.decode() for field, value in _fields(pod) if field in (1, 2) and isinstance(value, bytes)}
        for container in _messages(pod, 3):
            name = next(
                (value.decode() for field, value in _fields(container) if field == 1 and isinstance(value, bytes)), ""
            )
            cpus = 0
            for field, value in _fields(container):
                if field == 3:
                    for cpu in _numbers(value) if isinstance(value, bytes) else [value]:
                        if cpu >= MOST_CPUS:
                            raise ValueError(f"the answer has a CPU with the number {cpu}")
                        cpus |= 1 << cpu
            if cpus:
                result.append(ContainerCpus(names.get(2, ""), names.get(1, ""), name, cpus))
    return result


def _messages(message: bytes, number: int) -> Iterator[bytes]:
    return (value for field, value in _fields(message) if field == number and isinstance(value, bytes))


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field of a protobuf message."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        value: int | bytes
        match tag & 7:
            case 0:
                value, position = _varint(message, position)
            case 2:
                size, position = _varint(message, position)
                value = message[position : position + size]
                if len(value) < size:
                    raise ValueError("the answer ends within a field")
                position += size
            case 1 | 5 as wire:
                size = 8 if wire == 1 else 4
                value = message[position : position + size]
                position += size
            case wire:
                raise ValueError(f"the answer has a field of the unknown type {wire}")
        yield tag >> 3, value


def _numbers(packed: bytes) -> Iterator[int]:
    position = 0
    while position < len(packed):
        value, position = _varint(packed, position)
        yield value


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("the answer has a number of more than 64 bits")
