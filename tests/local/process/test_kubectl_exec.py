"""kubectl exec, attach, cp and port-forward on pods that run as processes, over WebSockets and over SPDY."""

import asyncio
import fcntl
import os
import pty
import struct
import termios
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.controlplane.fixtures import kubectl_program
from tests.local.process.conftest import RUNTIMES, ProcessCluster, runtime_named
from volcanopy_local.cluster import LocalCluster, Parts
from volcanopy_local.process import machine
from volcanopy_local.process.kubelet import ProcessSettings

__all__ = ["kubectl_program"]

SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
ECHO_SERVER = (
    "import os, socket\n"
    "listener = socket.create_server((os.environ['POD_IP'], 7007))\n"
    "while True:\n"
    "    client, _ = listener.accept()\n"
    "    with client:\n"
    "        while data := client.recv(65536):\n"
    "            client.sendall(data.upper())\n"
)


class Kubectl:
    """kubectl on a cluster with one process node and one simulated one, on which the pod `main` runs."""

    def __init__(self, program: Path, folder: Path, environment: dict[str, str]) -> None:
        self._program, self.folder = program, folder
        paths = {"KUBECONFIG": str(folder / "kubeconfig"), "HOME": str(folder), "PATH": "/usr/local/bin:/usr/bin:/bin"}
        self.environment = {**paths, **environment}

    async def start(self, *arguments: str, tty: int | None = None) -> asyncio.subprocess.Process:
        """Start kubectl with pipes, or on a terminal."""
        pipe = asyncio.subprocess.PIPE if tty is None else tty
        return await asyncio.create_subprocess_exec(
            self._program, *arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=self.environment
        )

    async def __call__(self, *arguments: str, given: bytes = b"") -> tuple[int, bytes, str]:
        """Run kubectl: its exit code, output and errors."""
        process = await self.start(*arguments)
        async with asyncio.timeout(60):
            output, errors = await process.communicate(given)
        return process.returncode or 0, output, errors.decode()


@pytest.fixture(params=RUNTIMES)
async def kubectl(request: pytest.FixtureRequest, kubectl_program: Path, open_folder: Path) -> AsyncIterator[Kubectl]:
    settings = ProcessSettings(open_folder / "run", open_folder / "claims", runtime_named(request.param), back_off=0.05)
    parts = Parts(scheduler=None, controller=None, admission=None, process=settings)
    async with LocalCluster(1, objects=machine.manifests(1, 4, 8 << 30), parts=parts) as cluster:
        (open_folder / "kubeconfig").write_text(cluster.kubeconfig())
        processes = ProcessCluster(cluster, open_folder)
        address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        server = {"name": "server", "image": "none", "command": ["python3", "-c", ECHO_SERVER], "env": [address]}
        reader = {"name": "reader", "image": "none", "command": ["cat"], "stdin": True, "stdinOnce": True}
        server["env"] = [address, {"name": "WHERE", "value": "inside"}]
        await processes.create("main", {"containers": [server, reader], "terminationGracePeriodSeconds": 1})
        simulated = {"nodeName": "node-1", "containers": [{"name": "main", "image": "i"}]}
        await processes.create("simulated", simulated, annotations={"sim.volcanopy.io/duration": "forever"})
        await processes.until("main", lambda pod: _all_running(pod["status"]))
        yield Kubectl(kubectl_program, open_folder, {})


def _all_running(status: dict[str, list[dict[str, dict[str, object]]]]) -> bool:
    statuses = status.get("containerStatuses", [])
    return len(statuses) == 2 and all("running" in each["state"] for each in statuses)


@pytest.mark.parametrize("protocol", [{}, SPDY], ids=["websocket", "spdy"])
async def test_commands_ports_and_files(kubectl: Kubectl, protocol: dict[str, str]) -> None:
    kubectl.environment |= protocol
    exec_ = ("exec", "main", "-c", "server")
    assert await kubectl(*exec_, "--", "sh", "-c", "echo $WHERE; echo problem >&2") == (0, b"inside\n", "problem\n")
    code, _, errors = await kubectl(*exec_, "--", "sh", "-c", "exit 7")
    assert (code, errors) == (7, "command terminated with exit code 7\n")
    large = os.urandom(1 << 20)
    assert await kubectl(*exec_, "-i", "--", "cat", given=large) == (0, large, "")
    _, _, errors = await kubectl(*exec_, "--", "no-such-program")
    assert "executable file not found in $PATH" in errors

    copied = Path("/tmp", f"{kubectl.folder.parent.name}-{kubectl.folder.name}")
    (kubectl.folder / "data").write_bytes(large)
    result = await kubectl("cp", "-c", "server", str(kubectl.folder / "data"), f"main:{copied}")
    assert result[0] == 0, result
    assert (await kubectl("cp", "-c", "server", f"main:{copied}", str(kubectl.folder / "back")))[0] == 0
    assert (await kubectl(*exec_, "--", "rm", str(copied)))[0] == 0
    assert (kubectl.folder / "back").read_bytes() == large

    forward = await kubectl.start("port-forward", "main", ":7007", "--address=127.0.0.1")
    assert forward.stdout is not None
    port = int((await forward.stdout.readline()).decode().split(":")[1].split()[0])
    for _ in range(2):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"x" * 300_000)
        writer.write_eof()
        assert await reader.read() == b"X" * 300_000
        writer.close()
    forward.terminate()
    await forward.communicate()

    code, output, _ = await kubectl("attach", "main", "-c", "reader", "-i", given=b"typed\n")
    assert (code, output) == (0, b"typed\n")


async def test_top_measures_what_runs(kubectl: Kubectl) -> None:
    code, output, errors = await kubectl("top", "pods", "--containers", "--no-headers")
    rows = {tuple(line.split()[:2]): line.split()[3] for line in output.decode().splitlines()}
    assert (code, set(rows)) == (0, {("main", "reader"), ("main", "server")}), errors
    assert int(rows["main", "server"].removesuffix("Mi")) in range(2, 100)
    code, output, errors = await kubectl("top", "nodes", "--no-headers")
    (node,) = (line.split() for line in output.decode().splitlines() if "unknown" not in line)
    assert (code, node[0]) == (0, "local-1"), errors
    assert int(node[3].removesuffix("Mi")) in range(2, 100)
    assert "NotFound" in (await kubectl("top", "pod", "simulated"))[2]


async def test_a_terminal_has_the_size_of_the_client_and_job_control(kubectl: Kubectl) -> None:
    side, device = pty.openpty()
    os.set_blocking(side, False)
    fcntl.ioctl(device, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    process = await kubectl.start("exec", "main", "-c", "server", "-it", "--", "bash", "--norc", tty=device)
    os.close(device)
    # kubectl sends the size after the program has started.
    os.write(
        side, b'until [ "$(stty size)" != "0 0" ]; do :; done; stty size; test -t 0 && echo termin\'\'al; exit 5\n'
    )
    output = b""
    while part := await _read(side):
        output += part
    assert await process.wait() == 5
    os.close(side)
    assert b"33 77" in output
    assert b"\r\nterminal\r\n" in output
    assert b"no job control" not in output


async def test_a_simulated_pod_says_that_it_runs_nothing(kubectl: Kubectl) -> None:
    for command in (("exec", "simulated", "--", "true"), ("attach", "simulated"), ("port-forward", "simulated", "80")):
        code, _, errors = await kubectl(*command)
        assert code != 0
        assert "pod simulated runs no processes: its node node-1 is simulated" in errors


async def _read(side: int) -> bytes:
    """What a terminal shows next."""
    ready = asyncio.Event()
    asyncio.get_running_loop().add_reader(side, ready.set)
    try:
        async with asyncio.timeout(60):
            await ready.wait()
        return os.read(side, 65536)
    except OSError:
        return b""
    finally:
        asyncio.get_running_loop().remove_reader(side)
