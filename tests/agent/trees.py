"""Made-up files of a node, and a kubelet that lists the resources of pods."""

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded

from volcanopy.services.agent import pod_resources

Containers = Sequence[tuple[str, str, str, Sequence[int]]]
"""Namespace, pod, container and exclusive CPUs."""

KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
kubeReserved: {cpu: 500m}
systemReserved: {cpu: "1", memory: 1Gi}
"""
MEMORY = "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 750 kB\n"


def stat(busy: int, idle: int) -> str:
    """Return a /proc/stat of a node that was busy and idle for so long, in ticks."""
    return f"cpu  {busy} 0 0 {idle} 0 0 0 0 50 0\ncpu0 {busy} 0 0 {idle} 0 0 0 0 0 0\nintr 1\n"


def machine(root: Path, numas: int = 2, cores: int = 2, threads: int = 2) -> Path:
    """Write the files of a machine whose threads of a core are numbered apart, as on Intel's."""
    system, count = root / "sys/devices/system", numas * cores
    for numa in range(numas):
        cpus = [numa * cores + core + thread * count for core in range(cores) for thread in range(threads)]
        _write(system / f"node/node{numa}/cpulist", ",".join(map(str, sorted(cpus))))
    _write(system / "node/online", f"0-{numas - 1}")
    _write(system / "cpu/online", f"0-{count * threads - 1}")
    for cpu in range(count * threads):
        folder = system / f"cpu/cpu{cpu}/topology"
        core = cpu % count
        _write(folder / "physical_package_id", str(core // cores))
        _write(folder / "core_cpus_list", ",".join(str(core + thread * count) for thread in range(threads)))
    _write(root / "proc/stat", stat(100, 100))
    _write(root / "proc/meminfo", MEMORY)
    return root


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


# The kubelet, with a library of its own for HTTP/2


def message(containers: Containers) -> bytes:
    """Return a ListPodResourcesResponse, each container with a device and a field that is not known."""
    pods: dict[tuple[str, str], bytes] = {}
    for namespace, pod, container, cpus in containers:
        packed = b"".join(_varint(cpu) for cpu in cpus)
        device = _field(2, _field(1, b"example.com/nic") + _field(2, b"nic-0"))
        body = _field(1, container.encode()) + device + _field(3, packed) + b"\x78\x07"
        pods[namespace, pod] = pods.get((namespace, pod), b"") + _field(3, body)
    return b"".join(
        _field(1, _field(1, pod.encode()) + _field(2, namespace.encode()) + body)
        for (namespace, pod), body in pods.items()
    )


def _varint(value: int) -> bytes:
    result = b""
    while value > 0x7F:
        result += bytes([value & 0x7F | 0x80])
        value >>= 7
    return result + bytes([value])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


class Kubelet:
    """Serves ``v1.PodResourcesLister/List`` on a socket; ``containers`` and ``status`` may be changed at any time."""

    def __init__(self, listening: socket.socket) -> None:
        self.containers: Containers = ()
        self.status = "0"
        self.paths: list[str] = []
        self._listening = listening

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            # A client that has read the last frame may close before what acknowledges its own is sent.
            with connection, contextlib.suppress(ConnectionError):
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        http = H2Connection(H2Configuration(client_side=False))
        http.initiate_connection()
        http.ping(b"whoareyo")
        connection.sendall(http.data_to_send())
        while data := connection.recv(65536):
            for event in http.receive_data(data):
                if isinstance(event, RequestReceived):
                    self.paths += [value.decode() for name, value in event.headers if name == b":path"]
                elif isinstance(event, DataReceived):
                    assert event.data == bytes(5)
                elif isinstance(event, StreamEnded):
                    self._respond(http, event.stream_id, connection)
            connection.sendall(http.data_to_send())

    def _respond(self, http: H2Connection, stream: int, connection: socket.socket) -> None:
        headers = [(":status", "200"), ("content-type", "application/grpc")]
        trailers = [("grpc-status", self.status), ("grpc-message", "")]
        if self.status != "0":
            http.send_headers(stream, headers + trailers, end_stream=True)
            return
        http.send_headers(stream, headers)
        content = message(self.containers)
        content = b"\x00" + len(content).to_bytes(4, "big") + content
        for start in range(0, len(content), http.max_outbound_frame_size):
            part = content[start : start + http.max_outbound_frame_size]
            while http.local_flow_control_window(stream) < len(part):
                connection.sendall(http.data_to_send())
                http.receive_data(connection.recv(65536))
            http.send_data(stream, part)
        http.send_headers(stream, trailers, end_stream=True)


@contextmanager
def kubelet(folder: Path) -> Iterator[Kubelet]:
    """Run a kubelet whose socket is in its folder."""
    path = folder / "pod-resources" / "kubelet.sock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen()
        running = Kubelet(listening)
        thread = threading.Thread(target=running.serve, daemon=True)
        thread.start()
        try:
            yield running
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
    assert set(running.paths) == {pod_resources.METHOD}
